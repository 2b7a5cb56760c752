"""The direct call, through the front end."""

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import run
from pymc_arm.families.gpc import GPCFamily, GPCPath, gpc


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


@pytest.mark.parametrize("options", [{}, {"lookahead": None}])
def test_a_model_runs_as_the_direct_call_does(six, options):
    labels = (six.labels > 0).astype(int)
    with pm.Model() as model:
        f = pm.MvNormal("f", six.mean, cov=six.covariance)
        pm.Bernoulli("y", p=pm.math.invprobit(f), observed=labels)
    common = {"draws": 200, "chains": 2, "random_seed": 4, "progressbar": False}
    direct = gpc(six.covariance, labels, mean=six.mean, **options, **common)
    found = pymc_arm.sample(model, family_kwargs=options, **common)
    for name in ("log_marginal_likelihood", "log_marginal_likelihood_se", "threshold", "move"):
        assert found.attrs[name] == direct.attrs[name]
    np.testing.assert_array_equal(found.posterior["f"], direct.posterior["f"])
    path = GPCFamily().build(model, **options)
    assert (path.sites is None) == ("lookahead" in options)
