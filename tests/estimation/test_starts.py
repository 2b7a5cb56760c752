"""Where climbs begin: narrow modes that no particle has met have a start in their basin."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pymc_arm.estimation.starts import find_starts, survey_size


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
    starts = find_starts(prior, particles, wide_and_narrow(center, width), rng, work=20)
    assert in_basin(starts, center, width)


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
