"""Densities that are fitted to draws: normalised, right in known cases; driving coordinates."""

import numpy as np
import pytest
import scipy.stats

from pymc_arm.algorithm.resampling import effective_share
from pymc_arm.estimation.approximation import FunnelStudent, SinhArcsinhStudent, fit
from pymc_arm.estimation.approximation.funnel import (
    ConditionalLocationScale,
    find_driving_coordinate,
)


def funnel(rng: np.random.Generator, size: int, others: int = 3) -> np.ndarray:
    driver = rng.normal(0.5, 0.7, size=size)
    rest = driver[:, None] ** 2 + np.exp(driver)[:, None] * rng.normal(size=(size, others))
    return np.column_stack([rest[:, :1], driver, rest[:, 1:]])


def log_funnel(points: np.ndarray) -> np.ndarray:
    driver, rest = points[:, 1], np.delete(points, 1, axis=1)
    normal = scipy.stats.norm
    inner = normal.logpdf(rest, (driver**2)[:, None], np.exp(driver)[:, None]).sum(axis=1)
    return normal.logpdf(driver, 0.5, 0.7) + inner


def score_funnel(points: np.ndarray) -> np.ndarray:
    step = 1e-6 * np.eye(points.shape[1])
    return np.stack(
        [(log_funnel(points + h) - log_funnel(points - h)) / 2e-6 for h in step], axis=1
    )


def test_the_driving_coordinate_is_found():
    assert find_driving_coordinate(funnel(np.random.default_rng(0), 3000)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_independent_coordinates_have_no_driving_coordinate(seed):
    assert find_driving_coordinate(np.random.default_rng(seed).normal(size=(3000, 6))) is None


def test_one_coordinate_has_no_driving_coordinate():
    assert find_driving_coordinate(np.random.default_rng(0).normal(size=(100, 1))) is None


@pytest.mark.parametrize("scored", [False, True])
def test_a_funnel_overlaps_with_a_funnel_and_a_student_does_not(scored):
    rng = np.random.default_rng(1)
    points = funnel(rng, 3000)
    scores = score_funnel(points) if scored else None
    overlaps = []
    for q in (SinhArcsinhStudent.fit(points, scores), FunnelStudent.fit(points, 1, scores)):
        draws = q.draw(rng, 4000)
        overlaps.append(effective_share(log_funnel(draws) - q.log_density(draws)))
    assert overlaps[1] > 0.9 > 2 * overlaps[0]


def test_a_funnel_is_normalised():
    """The mean of p / q over draws of q is one, for a p narrower than q."""
    rng = np.random.default_rng(2)
    q = FunnelStudent.fit(funnel(rng, 1000), 1)
    draws = q.draw(rng, 50_000)
    ratio = np.exp(log_funnel(draws) - q.log_density(draws))
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - 1) < 4 * error
    assert error < 0.01


def test_scores_are_transformed_as_finite_differences_are():
    rng = np.random.default_rng(3)
    points = funnel(rng, 500)
    course = ConditionalLocationScale.fit(points, 1)
    left, _ = course.standardize(points)

    def log_density(left: np.ndarray) -> np.ndarray:
        mean, log_width = course.predict(left)
        return log_funnel(mean + np.exp(log_width) * left) + log_width.sum(axis=1)

    numeric = np.stack(
        [(log_density(left + h) - log_density(left - h)) / 2e-6 for h in 1e-6 * np.eye(4)], axis=1
    )
    pulled = course.transform_scores(left, score_funnel(points))
    inside = np.abs((points[:, 1] - course.center) / course.width) < 3.9
    np.testing.assert_allclose(pulled[inside], numeric[inside], rtol=2e-3, atol=2e-3)


def test_fit_chooses_the_driving_coordinate():
    rng = np.random.default_rng(4)
    assert isinstance(fit(log_funnel, rng, funnel(rng, 2000)), FunnelStudent)


def test_a_constant_coordinate_does_no_harm():
    points = funnel(np.random.default_rng(5), 300)
    points[:, 0] = 1.0
    q = FunnelStudent.fit(points, 1)
    assert np.isfinite(q.log_density(points)).all()
