"""The path from a reference in hundreds of dimensions, against an exact log Z.

Statistical tests allow four standard errors: a false alarm in one of 16,000, and seeds are fixed.
"""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import norm, poisson

import pymc_arm
from pymc_arm.models.reference.mixture import freedom_of

DIMENSION = 650


@pytest.fixture(scope="module")
def mirrored_counts():
    """Return counts with rates exp(H z), H a reflection, the exact log Z and mean of z.

    H z is as normal as z is, so that both are one-dimensional integrals, while no coordinate of z
    is independent of the others.
    """
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(size=DIMENSION)))
    direction = np.ones(DIMENSION) / np.sqrt(DIMENSION)
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1, shape=DIMENSION)
        rate = pm.math.exp(z - 2 * direction * pm.math.dot(direction, z))
        pm.Poisson("y", rate, observed=counts)
    nodes = np.linspace(-9, 9, 2001)  # equal distances are exact for what is smooth and ends
    density = norm.logpdf(nodes) + poisson.logpmf(counts[:, None], np.exp(nodes))
    logs = logsumexp(density, axis=1) + np.log(nodes[1] - nodes[0])
    mean = np.exp(density - logsumexp(density, axis=1)[:, None]) @ nodes
    return model, float(logs.sum()), mean - 2 * direction * (direction @ mean)


@pytest.mark.one_version
def test_log_z_and_draws_in_hundreds_of_dimensions(mirrored_counts):
    model, truth, mean = mirrored_counts
    idata = pymc_arm.sample(model, draws=300, random_seed=3, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - truth
    assert idata.attrs["start"] == "reference"
    assert idata.attrs["verdict"] == "ok"
    assert idata.attrs["log_marginal_likelihood_se"] < 0.15
    assert abs(error) < 4 * idata.attrs["log_marginal_likelihood_se"]
    draws = idata.posterior["z"].values.reshape(-1, DIMENSION)
    # Draws of one particle are a Markov chain: at least a quarter of them count.
    distance = (draws.mean(axis=0) - mean) / (draws.std(axis=0) / np.sqrt(len(draws) / 4))
    assert np.sqrt(np.mean(distance**2)) < 1.2
    assert np.abs(distance).max() < 5


@pytest.mark.one_version
def test_tails_are_as_light_as_the_dimension_asks_for():
    rng = np.random.default_rng(1)
    few, many = rng.normal(size=(2000, 3)), rng.normal(size=(2000, DIMENSION))
    assert freedom_of(few) <= 200
    assert freedom_of(many) > DIMENSION / 2
    heavy = rng.normal(size=(2000, 3)) / np.sqrt(rng.chisquare(5, size=(2000, 1)) / 5)
    assert freedom_of(heavy) < 12
