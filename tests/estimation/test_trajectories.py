"""Walks find a wide part of the posterior that has no mode, and nothing where there is none."""

import numpy as np
import pytest
from scipy import stats

from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.trajectories import distance_from_particles, find_settled
from pymc_arm.estimation.weighing import weigh_settled


def normal(width: float):
    def log_density(points: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(points, 0, width).sum(axis=1)

    return log_density, lambda points: -points / width**2


@pytest.mark.parametrize("dimension", [1, 5, 20])
def test_a_wide_part_without_a_mode_is_found(dimension):
    wide, narrow = normal(1.0)[0], normal(0.05)[0]

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.logaddexp(np.log(0.5) + wide(points), np.log(0.5) + narrow(points))

    def gradient(points: np.ndarray) -> np.ndarray:
        share = np.exp(np.log(0.5) + narrow(points) - log_density(points))[:, None]
        return -points * (share / 0.05**2 + 1 - share)

    rng = np.random.default_rng(1)
    particles = rng.normal(0, 0.05, (1000, dimension))
    starts = rng.normal(0, 5, (200, dimension))
    found = find_settled(log_density, gradient, starts, particles, 10, rng)
    assert found is not None
    draws = found.draw(rng, 4000)
    weights = np.exp(wide(draws) - found.log_density(draws))
    # Its density is near that of the wide part: importance weights have a mean of one.
    assert weights.mean() == pytest.approx(1.0, abs=4 * weights.std() / np.sqrt(4000) + 1e-9)
    assert weights.std() < 1


@pytest.mark.parametrize("widths", [np.ones(10), np.geomspace(0.01, 100, 10)])
def test_nothing_is_found_where_all_trajectories_come_to_the_particles_or_are_on_their_way(widths):
    def log_density(points: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(points, 0, widths).sum(axis=1)

    rng = np.random.default_rng(1)
    particles, starts = (rng.normal(0, scale * widths, (1000, 10)) for scale in (1, 50))
    found = find_settled(log_density, lambda x: -x / widths**2, starts, particles, 10, rng)
    assert found is None


def test_nobody_walks_where_an_evaluation_is_dear_or_its_price_unknown():
    log_density, gradient = normal(1.0)
    rng = np.random.default_rng(1)
    points = rng.normal(size=(100, 3))
    for work in (None, 1_000_000):
        assert find_settled(log_density, gradient, 9 * points, points, work, rng) is None


def test_what_the_particles_have_is_not_weighed_again():
    """Walks that have settled on both sides of the particles give a density that covers them."""
    log_density, gradient = normal(1.0)
    rng = np.random.default_rng(3)
    particles, around = rng.normal(size=(1000, 2)), rng.normal(0, 8, (1000, 2))
    component = SinhArcsinhStudent.fit(around, gradient(around), bend=False)
    found = weigh_settled(component, particles, log_density, 0.0, rng)
    assert found.expected_share < 1e-3
    assert not found.missed


def test_distance_from_particles():
    rng = np.random.default_rng(4)
    particles = rng.normal(0, 2, (1000, 3))
    assert (distance_from_particles(particles, particles) <= 1).mean() > 0.99
    assert distance_from_particles(np.full((1, 3), 100.0), particles)[0] > 1
