"""A real machine of 784 x 15 units, whose log Z is known exactly."""

import os
from pathlib import Path

import numpy as np
import pytest

import pymc_arm
from pymc_arm.families.rbm import Machine, RBMPath, tempered_path
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS

FOLDER = Path(os.environ.get("PYMC_ARM_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
EXACT = 215.138406

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not (FOLDER / "rbm_784x15.npz").exists(),
        reason=f"no rbm_784x15.npz in {FOLDER}; set PYMC_ARM_DATA to the folder that has it",
    ),
]


@pytest.fixture(scope="module")
def machine():
    with np.load(FOLDER / "rbm_784x15.npz") as arrays:
        return Machine(arrays["W"], arrays["a"], arrays["b"])


@pytest.fixture(scope="module")
def digits():
    with np.load(FOLDER / "mnist.npz") as arrays:
        return (arrays["train_images"] > 127).astype(np.uint8)


def mean_ratio(path, runs, particles, **settings):
    """Return the mean of Z-hat / Z over runs, and its standard error."""
    estimates = np.array(
        [
            pymc_arm.run(path, np.random.default_rng(seed), particles, **settings).log_evidence
            for seed in range(runs)
        ]
    )
    ratios = np.exp(estimates - EXACT)
    return ratios.mean(), ratios.std(ddof=1) / np.sqrt(runs)


def test_enumeration(machine):
    np.testing.assert_allclose(machine.exact_log_evidence(), EXACT, atol=1e-5)


@pytest.mark.statistical
def test_hidden_layer_within_four_standard_errors(machine):
    path = RBMPath(machine, layer="hidden", threads=1)
    mean, error = mean_ratio(path, 16, 500, variant="rm")
    assert error < 0.5
    assert abs(mean - 1) < 4 * error


@pytest.mark.statistical
def test_tempered_within_four_standard_errors(machine, digits):
    path = tempered_path(machine, digits, threads=1)
    assert path.data_bias_strength < 1  # the means of this machine are not those of the digits
    mean, error = mean_ratio(path, 8, 200, **TEMPERED_SETTINGS)
    assert error < 0.5
    assert abs(mean - 1) < 4 * error


@pytest.mark.slow
@pytest.mark.statistical
def test_visible_layer_within_four_standard_errors(machine, digits):
    path = RBMPath(machine, data=digits, lookahead="data", strength=1.0, threads=1)
    mean, error = mean_ratio(path, 5, 200, variant="rm", threshold=0.9)
    assert error < 0.5
    assert abs(mean - 1) < 4 * error


def test_reseeding_from_digits_warns_that_chains_do_not_mix(machine, digits):
    path = RBMPath(machine, data=digits, reseed_transitions=100, threads=1)
    with pytest.warns(pymc_arm.TrustWarning, match="have not mixed"):
        path.reseed(np.random.default_rng(0), 784, 200)
