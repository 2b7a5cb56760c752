"""Modes whose particles do not fit their masses."""

import numpy as np
import pytest

from pymc_arm.estimation.weighing import weigh, weigh_together

CENTERS = np.array([[0.0, 0.0], [8.0, 0.0]])
LOG_MASSES = np.log([0.4, 0.6])


def log_density(points):
    squares = np.square(points[:, None] - CENTERS).sum(axis=2)
    return np.logaddexp.reduce(LOG_MASSES - 0.5 * squares - np.log(2 * np.pi), axis=1)


def modes_of(share, log_evidence):
    """Two normal modes, with this share of the particles in the first."""
    rng = np.random.default_rng(1)
    points = CENTERS[(rng.random(4000) > share).astype(int)] + rng.normal(size=(4000, 2))
    found = [
        weigh(mass, center, np.eye(2), points, log_evidence)
        for mass, center in zip(LOG_MASSES, CENTERS, strict=True)
    ]
    return weigh_together(found, log_density, log_evidence, rng)


@pytest.mark.parametrize(
    ("share", "log_evidence", "lacking"),
    [
        (0.4, 0.0, [False, False]),
        (0.1, -0.4, [True, False]),  # too few particles, and too small a Z
        (0.1, 0.0, [False, False]),  # Z is right: nothing is missing
        (0.3, -0.4, [False, False]),  # shares as they may be by chance
        (0.85, -0.6, [False, True]),
    ],
)
def test_a_mode_with_less_than_half_of_its_share_lacks_particles(share, log_evidence, lacking):
    found = modes_of(share, log_evidence)
    assert [mode.lacking for mode in found] == lacking
    assert [mode.missed for mode in found] == lacking
    assert not any(mode.starved for mode in found)
