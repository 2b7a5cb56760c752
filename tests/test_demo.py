import numpy as np
import pytest
from scipy.special import gammaln

import pymc_arm
from pymc_arm.__main__ import main
from pymc_arm.comparison import read_evidence
from pymc_arm.demo import DISASTERS, YEARS, make_models

FILES = ["comparison", "estimates", "evidence_path", "probabilities", "run"]


def test_data():
    assert len(DISASTERS) == len(YEARS) == 111
    assert DISASTERS.sum() == 191


@pytest.mark.statistical
def test_constant_rate_is_exact():
    """False alarms: 1e-4."""
    total, years = DISASTERS.sum(), len(DISASTERS)
    exact = gammaln(total + 1) - (total + 1) * np.log(years + 1) - gammaln(DISASTERS + 1).sum()
    model = make_models()["constant rate"]
    result = pymc_arm.sample(model, draws=200, random_seed=1, progressbar=False)
    low, high = read_evidence(result).interval(0.9999)
    assert low <= exact <= high


@pytest.mark.parametrize("name", ["constant rate", "steady decline", "abrupt change"])
def test_models_need_no_compilation(name):
    assert pymc_arm.plan(make_models()[name]).backend == "numpy"


@pytest.mark.slow
def test_demo_says_what_it_found(tmp_path, capsys):
    assert main(["demo", "--draws", "200", "--output", str(tmp_path / "plots")]) == 0
    shown = capsys.readouterr().out
    assert "abrupt change over steady decline" in shown
    assert "Kass and Raftery" in shown
    assert sorted(file.stem for file in (tmp_path / "plots").glob("*.png")) == FILES


@pytest.mark.parametrize("arguments", [[], ["unknown"]])
def test_usage(arguments, capsys):
    assert main(arguments) == 2
    assert "usage: python -m pymc_arm {demo}" in capsys.readouterr().err
