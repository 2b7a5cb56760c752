"""Laplace's method on densities whose integral and curvature are known."""

import numpy as np
import pytest

from pymc_arm.models.reference.laplace import SMALLEST_PRECISION, climb, laplace

PRECISION = np.array([[4.0, 1.5], [1.5, 1.0]])
CENTER = np.array([3.0, -1.0])
ONES = np.ones(2)


def normal(points):
    """A normal density, up to exp(7)."""
    away = points - CENTER
    return 7.0 - 0.5 * np.einsum("ni,ij,nj->n", away, PRECISION, away), -away @ PRECISION


def banana(points):
    """Standard normals after y_2 -> y_2 - y_1^2, with one mode at zero and log-mass log 2 pi."""
    first, second = points.T
    away = second - first**2
    gradient = np.stack([-first + 2 * first * away, -away], axis=1)
    return -0.5 * (first**2 + away**2), gradient


def test_the_mass_of_a_normal_is_exact():
    found = laplace(normal, CENTER, ONES)
    exact = 7.0 + np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(PRECISION)[1]
    assert found.log_mass == pytest.approx(exact, abs=1e-6)
    np.testing.assert_allclose(found.factor @ found.factor.T, np.linalg.inv(PRECISION), rtol=1e-6)
    np.testing.assert_allclose(found.precision_diagonal, np.diag(PRECISION), rtol=1e-6)
    assert found.gain == pytest.approx(0.0, abs=1e-9)
    assert found.evaluations == 5


def test_the_gain_of_another_step_is_the_height_of_the_mode_above():
    """For a normal density a step of Newton's method ends at its mode."""
    away = CENTER + np.array([0.5, 2.0])
    found = laplace(normal, away, ONES)
    assert found.gain == pytest.approx(7.0 - normal(away[None])[0][0], rel=1e-6)


@pytest.mark.parametrize("scale", [ONES, np.array([10.0, 0.1])], ids=["equal", "unequal"])
def test_the_units_do_not_matter(scale):
    """Scales at which no precision is below the smallest that is allowed."""
    scale = scale * 2.0
    assert np.all(np.linalg.eigvalsh(PRECISION * np.outer(scale, scale)) > 0)
    found = climb(normal, CENTER + 5.0, scale)
    np.testing.assert_allclose(found.mean, CENTER, atol=0.05)
    assert found.height == pytest.approx(7.0, abs=2e-3)


def test_a_bent_density_is_climbed():
    found = climb(banana, np.array([1.5, -2.0]), ONES)
    np.testing.assert_allclose(found.mean, 0.0, atol=0.05)
    assert found.log_mass == pytest.approx(np.log(2 * np.pi), abs=0.02)
    assert found.evaluations > 5


def test_what_is_flat_is_no_wider_than_allowed():
    def flat(points):
        return np.zeros(len(points)), np.zeros_like(points)

    found = laplace(flat, np.zeros(2), np.array([3.0, 1.0]))
    np.testing.assert_allclose(
        np.sqrt(np.diag(found.factor @ found.factor.T)),
        np.array([3.0, 1.0]) / SMALLEST_PRECISION**0.5,
    )


def test_gradients_that_are_no_numbers_are_left_out():
    def broken(points):
        values, gradients = normal(points)
        gradients[:, 1] = np.nan
        return values, gradients

    found = laplace(broken, CENTER, ONES)
    assert np.isfinite(found.factor).all()
