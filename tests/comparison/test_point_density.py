"""The posterior density at a point, from exact draws of a known posterior."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.comparison.point_density import Nested, nested_ratio
from pymc_arm.errors import DrawsError
from pymc_arm.models.compiled import compile_model

RNG = np.random.default_rng(2)
X = np.column_stack([np.ones(20), RNG.normal(size=20)])
Y = X @ [0.5, 0.8] + RNG.normal(size=20)
PRECISION = X.T @ X + np.eye(2)
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ X.T @ Y


@pytest.fixture(scope="module")
def path():
    """A normal regression; the slope is to be fixed, and the intercept is left."""
    with pm.Model() as model:
        slope = pm.Normal("slope")
        intercept = pm.Normal("intercept")
        pm.Normal("y", intercept + slope * X[:, 1], 1.0, observed=Y)
    return compile_model(model)


def draws(seed, chains=4, size=500):
    found = np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, (chains, size))
    return found[..., ::-1]  # the slope comes first in the model


def at(path, value):
    kept = np.ones(path.density.count)
    kept[0] = 0.0  # the prior of the slope
    return Nested(np.array([0]), np.array([value]), kept)


@pytest.mark.parametrize("value", [0.7, 0.0, -3.0])
def test_the_ratio_is_exact_however_far_in_the_tail(path, value):
    """p(slope = value | y) / p(slope = value), within four errors, which are below 0.02."""
    exact = stats.norm.logpdf(value, MEAN[1], np.sqrt(COVARIANCE[1, 1])) - stats.norm.logpdf(value)
    found = nested_ratio(path, draws(1), at(path, value), 2000)
    assert found.reliable
    assert found.estimate.standard_error < 0.02
    assert abs(found.estimate.log_evidence - exact) < 4 * found.estimate.standard_error


def test_one_chain_is_cut_into_parts(path):
    found = nested_ratio(path, draws(2, 1, 2000), at(path, 0.0), 2000)
    exact = stats.norm.logpdf(0, MEAN[1], np.sqrt(COVARIANCE[1, 1])) - stats.norm.logpdf(0)
    assert abs(found.estimate.log_evidence - exact) < 4 * found.estimate.standard_error


def test_fewer_independent_draws_are_a_larger_error(path):
    few, many = (nested_ratio(path, draws(3), at(path, 0.0), n) for n in (200, 2000))
    assert few.estimate.log_evidence == many.estimate.log_evidence
    assert few.effective_draws == pytest.approx(many.effective_draws / 10)
    assert few.estimate.standard_error >= many.estimate.standard_error


def test_too_few_draws_are_refused(path):
    with pytest.raises(DrawsError, match="There are 40 draws: 100 or more are needed"):
        nested_ratio(path, draws(1, 4, 10), at(path, 0.0), 40)
