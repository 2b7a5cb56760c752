"""Means and widths given a driving coordinate: known coefficients, and gradients by differences."""

import numpy as np
import scipy.stats

from pymc_arm.estimation.approximation.location_scale import fit_location_scale, transform_gradients

MEANS = np.array([[1.0, -2.0], [0.5, 0.0], [0.0, 0.0]])
WIDTHS = np.array([[0.0, -1.0], [0.0, 0.7]])
SIZE = 20_000


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points whose first column is the driver, and the basis (1, u)."""
    driver = rng.normal(size=SIZE)
    basis = np.stack([np.ones(SIZE), driver], axis=1)
    width = np.exp(basis @ WIDTHS)
    others = basis @ MEANS[:2] + width * rng.normal(size=(SIZE, 2))
    return np.column_stack([driver, others]), basis


def test_known_coefficients_are_found():
    """Errors are below 1 / sqrt(SIZE) times the width, which is at most e^0.7: four of them."""
    points, basis = draw(np.random.default_rng(1))
    means, widths = fit_location_scale(points, 0, basis, basis, 25, 50.0)
    np.testing.assert_allclose(means[:, 1:], MEANS[:2], atol=4 * 2 / np.sqrt(SIZE))
    np.testing.assert_allclose(widths[:, 1:], WIDTHS, atol=4 / np.sqrt(SIZE))
    assert (means[:, 0] == 0).all()
    assert (widths[:, 0] == 0).all()


def test_one_far_point_does_not_decide():
    points, basis = draw(np.random.default_rng(2))
    points[0, 1] = 1e3
    _, widths = fit_location_scale(points, 0, basis, basis, 25, 20.0)
    assert abs(widths[0, 1]) < 0.1


def test_gradients_are_those_of_the_standardised_density():
    """For y = (x - m(u)) / s(u) the log-density of y is that of x plus sum log s."""
    rng = np.random.default_rng(3)
    slopes, spread = np.array([0.0, 0.5, -1.0]), np.array([0.0, 0.3, 0.6])

    def to_model(y):
        return slopes * y[:, :1] + np.exp(spread * y[:, :1]) * y

    def log_density(y):
        normal = scipy.stats.norm.logpdf(to_model(y), 0.3, 1.7).sum(axis=1)
        return normal + (spread * y[:, :1]).sum(axis=1)

    y = rng.normal(size=(10, 3))
    gradients = -(to_model(y) - 0.3) / 1.7**2
    found = transform_gradients(
        gradients, y, 0, spread * y[:, :1], np.tile(slopes, (10, 1)), np.tile(spread, (10, 1))
    )
    steps = 1e-6 * np.eye(3)
    expected = np.stack([(log_density(y + h) - log_density(y - h)) / 2e-6 for h in steps], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
