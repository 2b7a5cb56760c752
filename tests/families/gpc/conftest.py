import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

ROOT = Path(__file__).resolve().parents[3]


class Problem:
    """A covariance, labels and a mean, with the exact log Z where it is known."""

    def __init__(self, covariance, labels, mean=0.0):
        self.covariance = covariance
        self.labels = labels
        self.mean = np.broadcast_to(mean, len(labels))

    @property
    def exact(self):
        """P(y z > 0), z ~ N(mean, K + I): an orthant probability, to six digits."""
        signs = np.where(np.asarray(self.labels) > 0, 1.0, -1.0)
        covariance = self.covariance * np.outer(signs, signs) + np.eye(len(signs))
        probability = multivariate_normal.cdf(
            np.zeros(len(signs)),
            mean=-self.mean * signs,
            cov=covariance,
            maxpts=4_000_000,
            abseps=1e-10,
            releps=1e-6,
            rng=np.random.default_rng(0),
        )
        return float(np.log(probability))


def smooth_process(size, amplitude=2.0, seed=5):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(size, 2))
    squares = np.sum((inputs[:, None] - inputs) ** 2, axis=-1)
    covariance = amplitude**2 * np.exp(-0.5 * squares) + 0.05 * np.eye(size)
    return covariance, rng.integers(2, size=size)


@pytest.fixture(scope="session")
def six():
    covariance, labels = smooth_process(6)
    problem = Problem(covariance, labels, np.linspace(-0.5, 0.8, 6))
    problem.log_evidence = problem.exact
    return problem


@pytest.fixture(scope="session")
def digits():
    """Threes against fives as in the table of known answers: the first ``size`` of each."""
    load_digits = pytest.importorskip("sklearn.datasets").load_digits

    def build(size=None):
        data, target = load_digits(return_X_y=True)
        parts = [data[target == digit][:size] / 8 - 1 for digit in (3, 5)]
        inputs = np.concatenate(parts)
        labels = np.repeat([1, -1], [len(part) for part in parts])
        return Problem(squared_exponential(inputs, 2.0, 2.0), labels)

    return build


def squared_exponential(inputs, log_length, log_amplitude):
    squares = np.sum(inputs**2, axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0)
    covariance = np.exp(2 * log_amplitude - 0.5 * distances * np.exp(-2 * log_length))
    return (covariance + covariance.T) / 2


@pytest.fixture(scope="session")
def usps():
    folder = Path(os.environ.get("PYMC_ARM_DATA", ROOT.parent / "shared" / "data"))
    file = folder / "usps_3v5.npz"
    if not file.exists():
        pytest.skip(f"{file.name} is not there; set PYMC_ARM_DATA to the folder that holds it")

    def build(size=None):
        with np.load(file) as data:
            inputs, labels = data["X_train"].astype(float), data["y_train"]
        parts = [np.flatnonzero(labels == label)[:size] for label in (1, -1)]
        chosen = np.sort(np.concatenate(parts))
        return Problem(squared_exponential(inputs[chosen], 4.85, 5.1), labels[chosen])

    return build


def standard_errors(estimates, exact):
    """How many standard errors the log of the mean of Z-hat is from ``exact``."""
    relative = np.exp(np.asarray(estimates) - exact)
    return (relative.mean() - 1) / (relative.std(ddof=1) / np.sqrt(len(relative)))


@pytest.fixture(scope="session", name="standard_errors")
def standard_errors_fixture():
    return standard_errors
