"""Models with a field, and what is exactly known of them."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import halfnorm, norm

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.target import SharedTarget

STEPS = 40


def walk_data():
    """Return a noisy random walk."""
    rng = np.random.default_rng(3)
    return np.cumsum(0.5 * rng.normal(size=STEPS)) + 0.3 * rng.normal(size=STEPS)


def walk_evidence(step, noise=0.3):
    """Return the exact log-density of the data given the step: they are jointly normal."""
    y = walk_data()
    times = np.arange(STEPS)
    covariance = step**2 * np.minimum.outer(times, times) + 4.0 + noise**2 * np.eye(STEPS)
    lower = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(lower, y)
    return -0.5 * whitened @ whitened - np.log(np.diag(lower)).sum() + STEPS * norm.logpdf(0)


def walk_log_z():
    """Return log Z by quadrature over the step."""
    steps = np.exp(np.linspace(-6, 2, 1501))
    logs = [walk_evidence(step) + halfnorm.logpdf(step) + np.log(step) for step in steps]
    return float(logsumexp(logs) + np.log(8 / 1500))


@pytest.fixture(scope="session")
def walk():
    """Return the model of a random walk that is seen with noise."""
    with pm.Model() as model:
        step = pm.HalfNormal("step", 1)
        x = pm.GaussianRandomWalk("x", sigma=step, init_dist=pm.Normal.dist(0, 2), steps=STEPS - 1)
        pm.Normal("y", x, 0.3, observed=walk_data())
    return model


@pytest.fixture(scope="session")
def walk_target(walk):
    """Return its path and target."""
    path = compile_model(walk)
    assert path.density.gradient.available()
    return path, SharedTarget(path)
