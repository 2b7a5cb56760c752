"""Where climbs begin: narrow modes that no particle has met have a start in their basin."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pymc_arm.estimation.starts import Survey, find_starts, recombine, survey_size


def wide_and_narrow(center: np.ndarray, width: float):
    """Two normal modes: the narrow one, elsewhere, has nine tenths of the mass."""

    def log_density(points: np.ndarray) -> np.ndarray:
        wide = stats.norm.logpdf(points).sum(axis=1) + np.log(0.1)
        narrow = stats.norm.logpdf(points, center, width).sum(axis=1) + np.log(0.9)
        return np.logaddexp(wide, narrow)

    return log_density


def in_basin(starts: np.ndarray, center: np.ndarray, width: float) -> bool:
    """Whether the narrow mode is the higher of the two at any of the starts."""
    narrow = stats.norm.logpdf(starts, center, width).sum(axis=1) + np.log(0.9)
    return bool(np.any(narrow > stats.norm.logpdf(starts).sum(axis=1) + np.log(0.1)))


@pytest.mark.parametrize(
    ("center", "width"),
    [
        (np.full(5, 1.5), 0.05),  # equal coordinates: on the curve of equal quantiles
        (np.array([0.0, 2.2, 0.0, 0.0]), 0.03),  # along one coordinate
        (np.array([-3.0]), 1e-3),  # a needle in one dimension: among many draws of the prior
        (np.array([0.3, -0.4, 0.2, 0.5, -0.1, 0.4, -0.3, 0.2]), 0.1),  # inside of the wide one
    ],
)
def test_a_start_is_in_the_basin_of_a_narrow_mode(center, width):
    rng = np.random.default_rng(1)
    prior = rng.normal(0, 2, (survey_size(20), len(center)))
    particles = rng.normal(size=(4000, len(center)))
    assert not in_basin(prior[:32], center, width)
    log_density = wide_and_narrow(center, width)
    starts = find_starts(prior, particles, log_density, rng, work=20)
    survey = Survey.of(prior, particles, log_density, 0.0)
    assert in_basin(np.concatenate([starts, survey.outstanding()]), center, width)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("dimension", "width"), [(5, 0.2), (10, 0.5)])
def test_a_mode_at_a_random_place_inside_of_a_vague_prior_stands_out(dimension, width, seed):
    """Draws of the prior itself lie ten times as far out as the modes do."""
    rng = np.random.default_rng(seed)
    center = rng.normal(0, 4, dimension)
    log_density = wide_and_narrow(center, width)
    prior = rng.normal(0, 12, (survey_size(20), dimension))
    survey = Survey.of(prior, rng.normal(size=(4000, dimension)), log_density, np.log(0.1))
    assert in_basin(survey.outstanding(), center, width)


def test_what_is_known_stands_out_no_more():
    """Of two modes without particles the second stands out when the first is known."""
    rng = np.random.default_rng(1)
    centers, width = [np.array([6.0, 0.0]), np.array([0.0, -5.0])], 0.1
    log_masses = [0.0, -5.0]

    def log_density(points: np.ndarray) -> np.ndarray:
        modes = [stats.norm.logpdf(points).sum(axis=1)]
        modes += [
            log_mass + stats.norm.logpdf(points, center, width).sum(axis=1)
            for center, log_mass in zip(centers, log_masses, strict=True)
        ]
        return logsumexp(modes, axis=0)

    survey = Survey.of(rng.normal(0, 4, (2000, 2)), rng.normal(size=(4000, 2)), log_density, 0.0)
    known = survey.explain(log_masses[0], centers[0], np.eye(2) / width**2)
    near = np.linalg.norm(known.points[np.argmax(known.unexplained)] - centers[1])
    assert near < np.linalg.norm(known.points[np.argmax(survey.unexplained)] - centers[1])
    assert near < 2.0


def test_all_modes_of_coordinates_with_two_places_are_between_some_of_them():
    modes = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = recombine(modes, 200, np.random.default_rng(1))
    assert len(found) == 200
    pairs = {tuple(point) for point in found}
    assert {(1.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)} <= pairs
    assert recombine(modes[:1], 10, np.random.default_rng(1)).shape == (0, 3)


def test_a_dear_density_is_looked_at_seldom():
    evaluated = []

    def log_density(points: np.ndarray) -> np.ndarray:
        evaluated.append(len(points))
        return -0.5 * np.square(points).sum(axis=1)

    rng = np.random.default_rng(1)
    size = survey_size(1_000_000)
    starts = find_starts(rng.normal(size=(size, 3)), rng.normal(size=(50, 3)), log_density, rng)
    assert size == 32
    assert len(starts) < 100
    assert sum(evaluated) < 200


def test_starts_have_a_positive_density():
    rng = np.random.default_rng(1)
    prior = rng.normal(size=(1000, 2))
    prior[3] = np.inf

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.where(points[:, 0] > 0, -logsumexp(np.abs(points), axis=1), -np.inf)

    particles = np.abs(rng.normal(size=(200, 2)))
    starts = find_starts(prior, particles, log_density, rng, work=10)
    assert np.isfinite(log_density(starts)).all()
