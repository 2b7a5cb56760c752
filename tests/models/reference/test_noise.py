"""Rounding errors far out have no weight, and other modes keep theirs."""

import numpy as np
import pytest

from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.noise import is_noise

FAR = 20.0


class View:
    """A standard normal; beyond a distance there is nothing but rounding errors, or a mode."""

    def __init__(self, noisy):
        self.noisy = noisy

    def log_density(self, points):
        values = -0.5 * (points**2).sum(axis=1)
        beyond = points[:, 0] > FAR
        if self.noisy:
            # What is left of 1e23 when digits cancel.
            values[beyond] = 1e7 * np.sin(1e13 * points[beyond, 0])
        else:
            values[beyond] = 50 - 0.5 * ((points[beyond] - [FAR + 1, 0]) ** 2).sum(axis=1)
        return values

    def __call__(self, points):
        return self.log_density(points), -points


@pytest.mark.parametrize("noisy", [True, False])
def test_only_rounding_errors_are_left_out(noisy):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, 2))
    points[:50, 0] += FAR + 2
    view = View(noisy)
    expected = view.log_density(points)
    beyond = (points[:, 0] > FAR) & (expected > 10)
    assert beyond.sum() > 15
    if noisy:
        expected[beyond] = -np.inf
    chart = Chart(view, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(chart.log_density(points), expected)
    values, gradients = chart(points)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(gradients[beyond] == 0, np.full((beyond.sum(), 2), noisy))
    anywhere = Chart(view, np.zeros(2), np.ones(2), central=False)
    np.testing.assert_array_equal(anywhere.log_density(points), view.log_density(points))


def test_steep_densities_are_no_rounding_errors():
    """The log-density of a million rows changes by little over a billionth of its width."""
    points = 1 + 1e-3 * np.random.default_rng(1).normal(size=(20, 1))

    def log_density(at):
        return -0.5e6 * ((at - 1) ** 2).sum(axis=1) + 3e6

    assert not is_noise(log_density, points, log_density(points), np.full(1, 1e-3)).any()
