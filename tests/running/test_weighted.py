"""Draws that are moved to match moments, against Gaussians whose ratio of integrals is known.

Comparisons are in standard errors, with a false alarm of a fixed seed once in a thousand or less.
"""

import numpy as np
import pytest

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.running.given import Part
from pymc_arm.running.weighted import Start, match_moments

DIMENSION = 12
MEAN = np.full(DIMENSION, 0.5)
WIDTHS = np.linspace(0.7, 1.0, DIMENSION)
# Both are without their constants, so that Z / Z_old is the ratio of volumes times this.
LOG_FACTOR = 3.0


class TwoGaussians:
    """From a standard normal density to a narrower one elsewhere."""

    def old_log_density(self, points):
        return -0.5 * (points**2).sum(axis=1)

    def log_density(self, points):
        return LOG_FACTOR - 0.5 * (((points - MEAN) / WIDTHS) ** 2).sum(axis=1)


def draws(seed, size=500, chains=4):
    rng, path = np.random.default_rng(seed), TwoGaussians()
    parts = [Part(rng.normal(size=(size, DIMENSION)), np.arange(size)) for _ in range(chains)]
    ratios = [path.log_density(p.points) - path.old_log_density(p.points) for p in parts]
    return Start(parts, ratios, 0.0, float(chains * size), 1.0)


def test_weights_become_even():
    start = draws(1)
    found = match_moments(TwoGaussians(), start)
    assert start.effective_fraction < 0.15
    assert found.matched
    assert found.effective_fraction > 0.7
    for part in found.parts:
        assert np.abs(part.points.mean(axis=0) - MEAN).max() < 0.2


@pytest.mark.statistical
def test_the_ratio_of_integrals_is_right():
    """Forty replicates: mean within 3.3 errors, and the spread that of the errors."""
    exact = LOG_FACTOR + np.log(WIDTHS).sum()
    z = []
    for seed in range(40):
        ratios = np.concatenate(match_moments(TwoGaussians(), draws([2, seed])).log_ratios)
        weights = np.exp(ratios - log_mean_exp(ratios))
        z.append((log_mean_exp(ratios) - exact) / (weights.std() / np.sqrt(len(weights))))
    assert abs(np.mean(z)) < 3.3 / np.sqrt(40) * 1.3
    assert 0.65 < np.std(z, ddof=1) < 1.4


def test_too_few_draws_stay_where_they_are():
    start = draws(3, size=10)
    assert match_moments(TwoGaussians(), start) is start


def test_one_chain_has_no_others_to_match():
    start = draws(4, chains=1)
    assert match_moments(TwoGaussians(), start) is start


def test_a_coordinate_that_does_not_vary_is_shifted_at_most():
    start = draws(5)
    for part in start.parts:
        part.points[:, 0] = 0.0
    found = match_moments(TwoGaussians(), start)
    assert all(np.ptp(part.points[:, 0]) == 0 for part in found.parts)
