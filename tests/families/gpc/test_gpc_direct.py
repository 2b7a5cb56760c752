"""The direct call, through the front end."""

import numpy as np
import pytest

from pymc_arm import run
from pymc_arm.families.gpc import GPCPath, gpc


@pytest.mark.parametrize("lookahead", [None, "ep"])
def test_direct_call(six, lookahead):
    result = gpc(
        six.covariance,
        six.labels,
        mean=six.mean,
        draws=1000,
        chains=4,
        random_seed=3,
        lookahead=lookahead,
        name="g",
        progressbar=False,
    )
    log_evidence = result.sample_stats["log_marginal_likelihood"].values
    assert log_evidence.shape[0] == 4
    # Four chains of 1000: one standard error is below 0.03 plain, 0.005 with the look-ahead.
    assert np.mean(log_evidence) == pytest.approx(
        six.log_evidence, abs=0.12 if lookahead is None else 0.02
    )
    assert result.posterior["g"].shape == (4, 1000, 6)


def test_settings_reach_the_run(six):
    with pytest.raises(ValueError, match="threshold=2"):
        gpc(six.covariance, six.labels, threshold=2, progressbar=False)


def test_settings_of_the_algorithm_are_not_hidden(six):
    with pytest.raises(ValueError, match="move='never'"):
        gpc(six.covariance, six.labels, move="never", progressbar=False)


def test_reseeding_is_refused_with_a_remedy(six):
    path = GPCPath(six.covariance, six.labels)
    with pytest.raises(ValueError, match='variant="reseed" needs a sampler'):
        run(path, np.random.default_rng(1), 50, variant="reseed", threshold=1.0)
