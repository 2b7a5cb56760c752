"""Moves of particles: the metric of one half is fitted to the other, and the target is invariant.

Statistical tests allow four standard errors: a false alarm in one of 16,000, and seeds are fixed.
"""

import numpy as np
import pytest

from pymc_arm.models.reference.hamiltonian import draw_further, fit_metrics, move

SIZE = 400


def narrow(points):
    """Return a normal target that is 30 times as wide in one direction as in another."""
    scale = np.array([10.0, 1.0, 0.3])
    return -0.5 * ((points / scale) ** 2).sum(axis=1), -points / scale**2


def skewed(points):
    """Return the logarithm of an exponential variable: E x = -0.5772, var x = pi^2 / 6."""
    return (points - np.exp(points)).sum(axis=1), 1 - np.exp(points)


def test_the_metric_of_a_half_is_that_of_the_other():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(SIZE, 3)) * [10.0, 1.0, 0.3]
    metrics = fit_metrics(rng, points, *narrow(points))
    members = np.concatenate([metric.members for metric in metrics])
    assert np.array_equal(np.sort(members), np.arange(SIZE))
    for metric in metrics:
        covariance = metric.factor @ metric.factor.T
        # With scores the covariance of a normal target is exact.
        assert np.allclose(covariance, np.diag([100.0, 1.0, 0.09]), atol=1e-6)


def test_copies_of_a_particle_are_in_one_half():
    rng = np.random.default_rng(1)
    points = np.repeat(rng.normal(size=(40, 2)), 10, axis=0)
    for metric in fit_metrics(rng, points, *skewed(points)):
        assert len(metric.members) % 10 == 0
        assert len(np.unique(points[metric.members], axis=0)) == len(metric.members) // 10


def test_widths_alone_where_particles_are_few():
    rng = np.random.default_rng(2)
    scale = np.linspace(0.5, 2.0, 50)
    points = scale * rng.normal(size=(60, 50))
    for metric in fit_metrics(rng, points, -0.5 * (points**2).sum(axis=1), -points / scale**2):
        assert metric.factor.shape == (50,)
        assert np.allclose(metric.factor, scale, rtol=1e-6)


@pytest.mark.parametrize("dimension", [1, 3, 80])
def test_the_target_is_invariant(dimension):
    """Draws of the target are draws of it after moves and after every further round."""
    rng = np.random.default_rng(3)
    points = np.log(rng.exponential(size=(SIZE, dimension)))
    swept = move(rng, skewed, points)
    later, _ = draw_further(rng, skewed, swept, 2)
    for found in (swept.points, *later):
        error = np.pi / np.sqrt(6 * found.size)
        assert abs(found.mean() + np.euler_gamma) < 4 * error
        fourth = 27 / 5  # the kurtosis of the distribution
        assert abs(found.var() / (np.pi**2 / 6) - 1) < 4 * np.sqrt((fourth - 1) / found.size)


def test_a_narrow_target_is_forgotten_in_few_steps():
    rng = np.random.default_rng(4)
    swept = move(rng, narrow, rng.normal(size=(SIZE, 3)) * [10.0, 1.0, 0.3])
    assert swept.memory < 0.3
    assert swept.evaluations < 12 * SIZE


def funnel(points):
    """Return ten coordinates of which nine have the exponential of the first for their scale."""
    first, others = points[:, 0], points[:, 1:]
    precision = np.exp(-2 * first)
    squares = precision * (others**2).sum(axis=1)
    values = -0.5 * (first / 1.5) ** 2 - 0.5 * squares - others.shape[1] * first
    slope = squares - first / 2.25 - others.shape[1]
    return values, np.column_stack([slope, -precision[:, None] * others])


def test_particles_move_where_the_target_is_narrow():
    """In the neck of a funnel steps are shorter, and the funnel is invariant.

    With one step size for all, one in seven of the particles in the neck moved. The share that
    diverged is that of the longest steps: it still says that there is a neck.
    """
    rng = np.random.default_rng(5)
    first = 1.5 * rng.normal(size=10 * SIZE)
    others = np.exp(first)[:, None] * rng.normal(size=(10 * SIZE, 9))
    swept = move(rng, funnel, np.column_stack([first, others]))
    (later,), divergent = draw_further(rng, funnel, swept, 1)
    neck = first < np.quantile(first, 0.1)
    assert np.mean(later[neck, 0] != first[neck]) > 0.9
    assert divergent > 0.05
    found = later[:, 0]
    # Before the moves the draws are independent, and so they are after them.
    assert abs(found.mean()) < 4 * 1.5 / np.sqrt(len(found))
    assert abs(found.var() / 2.25 - 1) < 4 * np.sqrt(2 / len(found))
    assert abs(np.mean(found < -1.5 * 1.2816) - 0.1) < 4 * np.sqrt(0.09 / len(found))
    scaled = later[:, 1:] * np.exp(-found)[:, None]
    assert abs((scaled**2).mean() - 1) < 4 * np.sqrt(2 / scaled.size)


def test_shorter_steps_beside_a_wall_leave_the_target_as_it_is():
    """A half-normal target ends at a wall that is a hundred times as steep, and is met often."""

    def walled(points):
        inside = points < 0
        steep = np.where(inside, 0.0, 1e4 * points)
        values = (-0.5 * points**2 - 0.5 * 1e4 * np.maximum(points, 0.0) ** 2).sum(axis=1)
        return values, -points - steep

    rng = np.random.default_rng(6)
    side = rng.random(20 * SIZE) < 1 / (1 + (1 + 1e4) ** -0.5)
    width = np.where(side, -1.0, (1 + 1e4) ** -0.5)
    points = (width * np.abs(rng.normal(size=20 * SIZE)))[:, None]
    swept = move(rng, walled, points)
    (later,), _ = draw_further(rng, walled, swept, 1)
    for found in (swept.points, later):
        left = -found[found < 0]
        share = 1 / (1 + (1 + 1e4) ** -0.5)
        assert abs(np.mean(found < 0) - share) < 4 * np.sqrt(share * (1 - share) / len(found))
        assert abs(left.mean() - np.sqrt(2 / np.pi)) < 4 * np.sqrt((1 - 2 / np.pi) / len(left))
        assert abs((left**2).mean() - 1) < 4 * np.sqrt(2 / len(left))
