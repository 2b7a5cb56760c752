"""Counts without a largest value are summed over the values that matter."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm.models.compiled import compile_model

VISITS = np.array([[3, 2, 4], [0, 1, 0], [5, 3, 3], [2, 2, 1], [1, 0, 2], [4, 6, 3]])


def _abundance() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Gamma("mean", 2, 0.2)
        seen = pm.Beta("seen", 2, 2)
        count = pm.Poisson("count", mean, shape=len(VISITS))
        pm.Binomial("visits", n=count[:, None], p=seen, observed=VISITS)
    return model


def _abundance_exact() -> float:
    """Return log Z by the midpoint rule over both parameters, to 1e-4."""
    mean, seen = np.linspace(0, 80, 801)[:-1] + 0.05, np.linspace(0, 1, 301)[:-1] + 0.5 / 300
    counts = np.arange(300)
    of_count = stats.poisson.pmf(counts, mean[:, None])
    density = np.outer(stats.gamma.pdf(mean, 2, scale=5) * 0.1, stats.beta.pdf(seen, 2, 2) / 300)
    for row in VISITS:
        of_row = stats.binom.pmf(row[:, None, None], counts, seen[:, None]).prod(axis=0)
        density *= of_count @ of_row.T
    return float(np.log(density.sum()))


def test_abundance() -> None:
    # Four standard errors, and at least 0.01 for the midpoint rule: a false alarm in 10,000.
    path = compile_model(_abundance(), marginalize="auto")
    assert [slot.name for slot in path.plan.layout.slots] == ["mean", "seen"]
    assert "counts without a largest value up to" in str(path.plan)
    idata = pymc_arm.sample(_abundance(), draws=300, random_seed=1, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - _abundance_exact()
    assert abs(error) < max(0.01, 4 * idata.attrs["log_marginal_likelihood_se"])
    assert idata.attrs["verdict"] == "ok"
    count = np.asarray(idata.posterior["count"].values)
    assert (count >= VISITS.max(axis=1)).all()


@pytest.mark.parametrize("prior", ["negative binomial", "geometric"])
def test_an_unknown_number_of_trials(prior: str) -> None:
    successes = np.array([16, 18, 22, 25, 27])
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        if prior == "geometric":
            trials = pm.Geometric("trials", 0.05)
            log_prior = stats.geom.logpmf(np.arange(2000), 0.05)
        else:
            trials = pm.NegativeBinomial("trials", mu=40, alpha=3)
            log_prior = stats.nbinom.logpmf(np.arange(2000), 3, 3 / 43)
        pm.Binomial("successes", n=trials, p=share, observed=successes)
    counts = np.arange(2000)
    shares = np.linspace(0, 1, 2001)[:-1] + 1 / 4000
    table = stats.binom.logpmf(successes[:, None, None], counts[:, None], shares).sum(axis=0)
    exact = np.logaddexp.reduce((table + log_prior[:, None]).ravel()) - np.log(2000)
    idata = pymc_arm.sample(model, draws=300, random_seed=2, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < max(0.01, 4 * idata.attrs["log_marginal_likelihood_se"])


@pytest.mark.parametrize(("y", "message"), [(200.0, "beyond the values"), (7.0, "")])
def test_a_posterior_beyond_the_values_that_were_added_up(y: float, message: str) -> None:
    # The prior ends at some 60: what is left is checked at draws of the posterior.
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.1)
        count = pm.Poisson("count", 5)
        pm.Normal("y", count, 0.3 + scale, observed=y)
    path = compile_model(model, marginalize="auto")
    assert path.elimination is not None
    found = path.elimination.check(path.initialize(np.random.default_rng(0), 60)[0])
    assert message in found
    assert bool(message) == bool(found)
