"""Log Z from densities at draws: within its error for Gaussians, infinite where it can't be had."""

import numpy as np
import pytest

from pymc_arm.estimation.reciprocal import reciprocal_estimate


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 4, 10])
def test_gaussians_are_within_four_errors(dimension):
    """Three tests with a normal statistic beyond four: 2e-4 by chance."""
    rng = np.random.default_rng(dimension)
    root = rng.normal(size=(dimension, dimension)) + 2 * np.eye(dimension)
    points = rng.normal(size=(4000, dimension)) @ root.T + 5.0
    standard = np.linalg.solve(root, (points - 5.0).T).T
    log_density = 3.0 - 0.5 * (standard**2).sum(axis=1)
    exact = 3.0 + 0.5 * dimension * np.log(2 * np.pi) + np.linalg.slogdet(root)[1]
    found = reciprocal_estimate(points, log_density, 4000)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error
    assert found.standard_error < 0.1


def test_fewer_effective_draws_have_a_larger_error():
    points = np.random.default_rng(1).normal(size=(2000, 2))
    log_density = -0.5 * (points**2).sum(axis=1)
    errors = [reciprocal_estimate(points, log_density, n).standard_error for n in (2000, 20)]
    assert errors[1] == pytest.approx(10 * errors[0])


def test_what_is_impossible_has_an_infinite_error():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(200, 2))
    log_density = -0.5 * (points**2).sum(axis=1)
    constant = points.copy()
    constant[:, 1] = 0.0
    broken = log_density.copy()
    broken[3] = -np.inf
    for some, values in (
        (points[:19], log_density[:19]),
        (constant, log_density),
        (points, broken),
    ):
        assert reciprocal_estimate(some, values, 100).standard_error == np.inf
