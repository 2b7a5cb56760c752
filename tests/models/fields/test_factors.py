"""Sparse factors of a precision, against dense linear algebra."""

import numpy as np
import pytest
import scipy

from pymc_arm.models.fields.factors import choose_factor

SIZE = 30


def band(rng):
    """Return the precision of a random walk that is observed."""
    walk = np.diff(np.eye(SIZE), axis=0)
    return walk.T @ walk * rng.uniform(1, 3) + np.diag(rng.uniform(0.1, 1, SIZE))


def arrow(rng):
    """Return that of independent groups with two common coefficients."""
    design = np.concatenate([np.eye(SIZE)[:, : SIZE - 2], rng.normal(size=(SIZE, 2))], axis=1)
    return design.T @ design + np.eye(SIZE)


def dense(rng):
    """Return that of a regression."""
    design = rng.normal(size=(50, SIZE))
    return design.T @ design


@pytest.mark.parametrize(("make", "most"), [(band, 1), (arrow, 2), (dense, SIZE)])
def test_a_factor_is_that_of_its_precision(make, most):
    rng = np.random.default_rng(1)
    precision = make(rng)
    pattern = np.abs(precision) > 0
    factor = choose_factor(pattern)
    rows, columns = np.nonzero(pattern)
    found = factor.factorize(factor.matrix(rows, columns, precision[rows, columns]))
    numbers = np.tile(factor.pack(found), (SIZE, 1))
    assert factor.count <= SIZE * (1 + most)
    np.testing.assert_allclose(
        factor.log_volume(numbers), -0.5 * np.linalg.slogdet(precision)[1], rtol=1e-10
    )
    right = rng.normal(size=SIZE)
    np.testing.assert_allclose(factor.solve(found, right), np.linalg.solve(precision, right))
    spread = factor.spread(numbers, np.eye(SIZE))
    np.testing.assert_allclose(spread.T @ spread, np.linalg.inv(precision), atol=1e-10)
    np.testing.assert_allclose(factor.gather(numbers, spread), np.eye(SIZE), atol=1e-10)


@pytest.mark.parametrize("make", [band, arrow, dense])
def test_gradients_are_differences(make):
    rng = np.random.default_rng(2)
    precision = make(rng)
    pattern = np.abs(precision) > 0
    factor = choose_factor(pattern)
    rows, columns = np.nonzero(pattern)
    found = factor.factorize(factor.matrix(rows, columns, precision[rows, columns]))
    numbers, noise = factor.pack(found)[None], rng.normal(size=(1, SIZE))
    slopes = rng.normal(size=(1, SIZE))

    def total(numbers, noise):
        return float(slopes[0] @ factor.spread(numbers, noise)[0] + factor.log_volume(numbers)[0])

    offsets = factor.spread(numbers, noise)
    to_noise, to_numbers = factor.pull_back(numbers, noise, offsets, slopes)
    directions = rng.normal(size=numbers.shape), rng.normal(size=noise.shape)
    step = 1e-6
    ahead = total(numbers + step * directions[0], noise + step * directions[1])
    behind = total(numbers - step * directions[0], noise - step * directions[1])
    slope = (to_numbers * directions[0]).sum() + (to_noise * directions[1]).sum()
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


def test_a_precision_that_is_not_positive_has_no_factor():
    factor = choose_factor(np.ones((2, 2), dtype=bool))
    assert factor.factorize(scipy.sparse.csc_matrix([[1.0, 2.0], [2.0, 1.0]])) is None
    assert factor.factorize(scipy.sparse.csc_matrix([[0.0, 0.0], [0.0, 1.0]])) is None


def test_what_is_too_large_is_left_alone():
    assert choose_factor(np.ones((400, 400), dtype=bool)) is None
