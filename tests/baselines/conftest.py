import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from pymc_arm.families.rbm import Machine


class Classifier:
    """A small Gaussian process classifier with its exact log Z, an orthant probability."""

    def __init__(self, size, seed=5, amplitude=2.0):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(size, 2))
        squares = np.sum((inputs[:, None] - inputs) ** 2, axis=-1)
        self.covariance = amplitude**2 * np.exp(-0.5 * squares) + 0.05 * np.eye(size)
        self.labels = rng.choice([-1, 1], size=size)
        self.mean = np.linspace(-0.5, 0.8, size)
        self.absorbed = self.covariance * np.outer(self.labels, self.labels)
        self.absorbed_mean = self.mean * self.labels
        probability = multivariate_normal.cdf(
            np.zeros(size),
            mean=-self.absorbed_mean,
            cov=self.absorbed + np.eye(size),
            maxpts=500_000,
            abseps=1e-9,
            releps=1e-5,
            rng=np.random.default_rng(0),
        )
        self.log_evidence = float(np.log(probability))

    def exact_draws(self, rng, size):
        """Draw u = y x from the posterior by rejection."""
        kept = np.empty((0, len(self.labels)))
        while len(kept) < size:
            prior = rng.multivariate_normal(self.absorbed_mean, self.absorbed, size=20 * size)
            accepted = np.log(rng.random(len(prior))) < log_ndtr(prior).sum(axis=1)
            kept = np.concatenate([kept, prior[accepted]])
        return np.ascontiguousarray(kept[:size])


@pytest.fixture(scope="session")
def six():
    return Classifier(6)


@pytest.fixture(scope="session")
def three():
    return Classifier(3)


@pytest.fixture(scope="session")
def small_machine():
    rng = np.random.default_rng(0)
    return Machine(rng.normal(size=(12, 6)), rng.normal(size=12), rng.normal(size=6))


def errors_off(result, exact):
    """How many standard errors the estimate is away from the exact log Z."""
    attributes = result.attrs
    return (attributes["log_marginal_likelihood"] - exact) / attributes[
        "log_marginal_likelihood_se"
    ]


@pytest.fixture(scope="session", name="errors_off")
def errors_off_fixture():
    return errors_off
