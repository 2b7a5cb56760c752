"""Mixtures as approximations: normalised, draws of their own density, components found."""

import numpy as np
import pytest
import scipy.stats

from pymc_arm.estimation.approximation.combined import EQUAL_SHARE, Combined
from pymc_arm.estimation.approximation.mixture import Mixture
from pymc_arm.estimation.approximation.student import SinhArcsinhStudent


def two_modes(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw a quarter around (-4, 0) with scale 0.5, and the rest around (3, 1) with scale 1."""
    left = rng.random(size) < 0.25
    noise = rng.normal(size=(size, 2))
    center, scale = np.where(left[:, None], [-4.0, 0.0], [3.0, 1.0]), np.where(left, 0.5, 1.0)
    return center + scale[:, None] * noise


def area(q, low: float, high: float) -> float:
    """Return the integral of a density over a square, by the midpoint rule."""
    step = (high - low) / 400
    line = low + step * (np.arange(400) + 0.5)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return float(np.exp(q.log_density(grid)).sum() * step**2)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    return Mixture.fit(two_modes(rng, 4000), 2, rng)


def test_two_modes_are_told_apart(fitted):
    """A weight of 4000 draws has a standard error of 0.007, a mean of 0.03: four of them."""
    order = np.argsort(fitted.means[:, 0])
    np.testing.assert_allclose(np.exp(fitted.log_weights[order]), [0.25, 0.75], atol=0.028)
    np.testing.assert_allclose(fitted.means[order], [[-4, 0], [3, 1]], atol=0.09)


def test_a_mixture_is_normalised_and_draws_from_itself(fitted):
    assert area(fitted, -9.0, 9.0) == pytest.approx(1.0, abs=1e-3)
    draws = fitted.draw(np.random.default_rng(2), 20_000)
    share = float(np.mean(draws[:, 0] < -1))
    weight = float(np.exp(fitted.log_weights[np.argmin(fitted.means[:, 0])]))
    assert abs(share - weight) < 4 * np.sqrt(weight * (1 - weight) / 20_000)


def test_points_without_distances_are_refused():
    with pytest.raises(np.linalg.LinAlgError, match="no distances"):
        Mixture.fit(np.ones((20, 2)), 2, np.random.default_rng(0))


def test_combined_weights_are_half_by_mass_and_half_equal(fitted):
    combined = Combined.of([fitted, fitted], [0.0, -100.0])
    np.testing.assert_allclose(
        np.exp(combined.log_weights), [1 - EQUAL_SHARE / 2, EQUAL_SHARE / 2], rtol=1e-12
    )
    assert combined.components == 4


def test_combined_is_normalised_and_knows_whose_a_draw_is(fitted):
    rng = np.random.default_rng(3)
    far = Mixture(np.zeros(1), np.array([[0.0, -6.0]]), np.eye(2)[None])
    combined = Combined.of([fitted, far], [0.0, 0.0])
    assert area(combined, -12.0, 12.0) == pytest.approx(1.0, abs=2e-3)
    draws = combined.draw(rng, 10_000)
    share = combined.share_of_others(draws)
    assert abs(share.mean() - 0.5) < 4 * 0.5 / 100  # draws are binomial
    np.testing.assert_allclose(share[draws[:, 1] < -5], 1.0, atol=1e-6)


def test_a_bent_student_is_exact_for_a_student():
    """Of Student-t draws the fitted density overlaps with the true one, and integrates to one."""
    rng = np.random.default_rng(4)
    factor = np.array([[1.0, 0.0], [0.8, 0.6]])
    draws = rng.normal(size=(20_000, 2)) @ factor.T
    draws *= np.sqrt(8 / rng.chisquare(8, 20_000))[:, None]
    found = SinhArcsinhStudent.fit(draws)
    exact = scipy.stats.multivariate_t(np.zeros(2), factor @ factor.T, df=8)
    difference = found.log_density(draws) - exact.logpdf(draws)
    assert abs(np.mean(difference)) < 0.01  # minus the divergence, plus noise
    assert area(found, -60.0, 60.0) == pytest.approx(1.0, abs=0.01)
