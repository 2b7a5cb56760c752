"""A summary survives its way through the attributes of a result."""

import numpy as np
import pytest

import pymc_arm
from pymc_arm import Settings
from pymc_arm.running.summary import RunSummary
from pymc_arm.testing import GaussianChain

PLAIN = {
    "draws": 100,
    "chains": 4,
    "allocation": "adaptive",
    "settings": Settings(),
    "target_se": None,
    "time_limit": None,
    "ended_by": "chains",
    "complete": True,
    "chains_started": 4,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"target_se": 0.01, "time_limit": 60, "complete": False, "ended_by": "time_limit"},
        {"flat": ("y", "z"), "dimension": 3, "family": "generic", "backend": "numpy"},
        {"settings": Settings(variant="rm", threshold=0.5, resample_threshold=0.9, max_rounds=0)},
        {"repaired_modes": 2, "repaired_share": 0.9, "modes_found": 3},
        {"missed_log_mass": -3.5, "missed_expected_share": 0.4, "missed_found_share": 0.0},
    ],
)
def test_what_is_written_is_read(more):
    summary = RunSummary(**{**PLAIN, **more})
    assert RunSummary.from_attrs(summary.to_attrs()) == summary


def test_attributes_are_what_netcdf_holds():
    attributes = RunSummary(**PLAIN, flat=("y",), dimension=np.int64(2)).to_attrs()
    assert all(isinstance(value, int | float | str) for value in attributes.values())
    assert attributes["target_se"] == "None"
    assert attributes["complete"] == 1
    assert "missed_log_mass" not in attributes


def test_a_result_holds_a_summary():
    path = GaussianChain([0.1, 0.2])
    result = pymc_arm.sample_path(path, draws=60, chains=2, random_seed=1, progressbar=False)
    summary = RunSummary.from_attrs(result.attrs)
    assert (summary.draws, summary.chains, summary.complete) == (60, 2, True)
    assert summary.settings == path.settings()
