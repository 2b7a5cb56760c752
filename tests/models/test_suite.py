"""Every model of the suite, whose log Z is known: the estimate must be within its own error.

The seeds are fixed. A sound estimate is outside of 4 standard errors (of a Student-t with about 11
degrees of freedom) once in 500 times, so that a new seed would fail one of these tests in about one
run of the file out of ten.
"""

import warnings

import numpy as np
import pytest
from scipy import stats

import pymc_arm
from benchmarks.suite import PROBLEMS

# More than ten seconds each: `python -m benchmarks suite` runs them all.
SLOW = {
    "gaussian_process_unknown_lengthscale",
    "hidden_markov_unknown_means",
    "random_slope",
    "random_walk_unknown_scale",
    "autoregression_unknown_scale",
}
CHANCE = 2 * stats.norm.sf(4)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in SLOW])
def test_log_evidence(name: str) -> None:
    problem = PROBLEMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pymc_arm.TrustWarning)
        idata = pymc_arm.sample(
            problem.build(), draws=400, chains=4, random_seed=11, progressbar=False
        )
    attributes = idata.attrs
    error = attributes["log_marginal_likelihood"] - problem.log_evidence()
    spread = np.hypot(attributes["log_marginal_likelihood_se"], problem.standard_error)
    quantile = stats.t.isf(CHANCE / 2, attributes["log_marginal_likelihood_df"])
    assert abs(error) <= quantile * spread + 1e-4
    assert attributes["verdict"] != "ok" or abs(error) < 0.5
