"""A verdict is made of what a result says about itself."""

import warnings

import numpy as np
import pytest

import pymc_arm
from pymc_arm._compat import get_group, set_attributes
from pymc_arm.diagnosis import Diagnosis, attach_verdict, diagnose, read_facts
from pymc_arm.testing import TiltedNormals

OPTIONS = {"draws": 200, "chains": 4, "random_seed": 1, "progressbar": False}


@pytest.fixture
def result():
    return pymc_arm.sample_path(TiltedNormals([0.3, 0.3]), **OPTIONS)


def facts(result):
    return read_facts(get_group(result, "arm"), get_group(result, "sample_stats"))


def test_facts_are_those_of_the_result(result):
    read = facts(result)
    assert read.evidence.log_evidence == result.attrs["log_marginal_likelihood"]
    assert read.evidence.standard_error == result.attrs["log_marginal_likelihood_se"]
    stored = get_group(result, "sample_stats")
    np.testing.assert_array_equal(read.explored, stored["explore_log_marginal_likelihood"].values)
    larger = np.maximum(stored["predicted_variance"].values, stored["genealogy_variance"].values)
    np.testing.assert_array_equal(read.explored_variances, larger)
    assert (read.chains, read.draws) == (4, 200)
    assert read.given is None
    assert read.update is None
    assert read.missed is None
    assert read.unfinished == ""
    assert read.steps.particles.shape == (4, 2)


def test_what_a_result_does_not_say_is_not_a_number(result):
    history = get_group(result, "arm")
    history.attrs.pop("r_hat", None)
    assert np.isnan(read_facts(history, get_group(result, "sample_stats")).r_hat)


def test_a_sound_run_is_ok_and_says_nothing(result):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attach_verdict(result) is result
    assert result.attrs["verdict"] == get_group(result, "arm").attrs["verdict"] == "ok"
    assert diagnose(result).status == "ok"
    assert "Nothing speaks against" in diagnose(result)._repr_html_()


def test_a_mode_that_was_missed_reaches_the_verdict_and_the_warning(result):
    log_z = result.attrs["log_marginal_likelihood"]
    missed = {"missed_log_mass": log_z + 1.0, "missed_expected_share": 0.7}
    set_attributes(result, "arm", {**missed, "missed_found_share": 0.0})
    assert facts(result).missed == (log_z + 1.0, 0.7, 0.0)
    with pytest.warns(pymc_arm.TrustWarning, match="log Z: failed"):
        attach_verdict(result)
    assert result.attrs["verdict"] == "failed"
    shown = diagnose(result)
    assert isinstance(shown, Diagnosis)
    for reason in shown.reasons:
        assert reason.message in result.attrs["verdict_reasons"]


def test_a_run_that_a_limit_ended_says_so(result):
    limited = {"ended_by": "time_limit", "complete": 0, "chains_started": 6, "target_se": 1e-4}
    set_attributes(result, "arm", limited)
    error = result.attrs["log_marginal_likelihood_se"]
    assert facts(result).unfinished == (
        "The time_limit ended the run with 4 of 6 chains. "
        f"The standard error is {error:.3g}, not 0.0001."
    )
