"""Mixtures fitted to weighted draws: a bent density in few dimensions, against its exact mass."""

import numpy as np
import pytest
from scipy import stats

from pymc_arm.models.reference.density import Chart, Component, StudentMixture
from pymc_arm.models.reference.polish import DRAWS, polish


class Bent:
    """A normal in (x, y - x^2), times e: its mass is e, and no Student-t is near it."""

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError("no gradient is needed")

    def log_density(self, points: np.ndarray) -> np.ndarray:
        x, y, *rest = points.T
        values = stats.norm.logpdf(x) + stats.norm.logpdf(y - x**2, 0, 0.5) + 1.0
        return values + sum((stats.norm.logpdf(z) for z in rest), np.zeros(len(points)))


@pytest.mark.parametrize("dimension", [2, 4])
def test_a_bent_density_is_met(dimension):
    chart = Chart(Bent(), np.zeros(dimension), np.eye(dimension))  # type: ignore[arg-type]
    wide = StudentMixture((Component(0.0, np.zeros(dimension), 2.5 * np.eye(dimension), 5.0),))
    rng = np.random.default_rng(1)
    mixture, overlap, log_evidence, evaluations = polish(rng, chart, wide, 0.7)
    assert overlap > 0.55
    assert evaluations % DRAWS == 0
    draws = mixture.draw(rng, 20_000)
    weights = np.exp(chart.log_density(draws) - mixture(draws)[0] - 1.0)
    error = weights.std() / np.sqrt(len(weights))
    assert abs(weights.mean() - 1) < 4 * error
    assert abs(log_evidence - 1) < 4 * np.sqrt((1 / overlap - 1) / DRAWS)


def test_what_fits_is_left_as_it_is():
    class Normal(Bent):
        def log_density(self, points: np.ndarray) -> np.ndarray:
            return stats.norm.logpdf(points).sum(axis=1)

    chart = Chart(Normal(), np.zeros(2), np.eye(2))  # type: ignore[arg-type]
    good = StudentMixture((Component(0.0, np.zeros(2), None, 50.0),))
    mixture, overlap, _, evaluations = polish(np.random.default_rng(1), chart, good, 0.7)
    assert mixture is good
    assert overlap > 0.9
    assert evaluations == DRAWS


def test_a_reference_that_meets_nothing_is_left_as_it_is():
    chart = Chart(Bent(), np.full(2, 1e3), np.eye(2))  # type: ignore[arg-type]
    far = StudentMixture((Component(0.0, np.zeros(2), None, 50.0),))
    mixture, overlap, _, _ = polish(np.random.default_rng(1), chart, far, 0.7)
    assert overlap < 0.1
    assert len(mixture.components) >= 1
