"""Partly non-centred coordinates: there and back, and gradients by differences."""

import numpy as np
import pytest
from scipy import stats

from pymc_arm.models.noncentered import Level
from pymc_arm.models.reference.partly_noncentered import pull_back, shift_and_scale

# x[1:] are normal with mean h and scale exp(h / 2), where h is x[0].
OWN = np.arange(1, 4)
LEVEL = Level(OWN, OWN, np.arange(3), np.arange(3), np.arange(3))
DEGREE = np.array([0.0, 0.4, 1.0])


def terms(points, numbers):
    h, x = points[:, :1], points[:, 1 + numbers]
    return stats.norm.logpdf(x, h, np.exp(h / 2))


def moments(h):
    return np.tile(h[:, None], 3), np.tile(np.exp(h / 2)[:, None], 3)


def points():
    return np.random.default_rng(1).normal(size=(6, 4))


def to_model(at):
    found, log_volume = shift_and_scale(moments(at[:, 0]), DEGREE, at[:, 1:], to_model=True)
    return np.hstack([at[:, :1], found]), log_volume


def test_there_and_back():
    inside, log_volume = to_model(points())
    back, same = shift_and_scale(moments(inside[:, 0]), DEGREE, inside[:, 1:], to_model=False)
    np.testing.assert_allclose(back, points()[:, 1:])
    np.testing.assert_allclose(same, log_volume)
    np.testing.assert_allclose(log_volume, DEGREE.sum() * points()[:, 0] / 2)


@pytest.mark.parametrize("coordinate", range(4))
def test_the_gradient_is_that_by_differences(coordinate):
    """Of a function of x, sum of c x^2 / 2, and of the volume."""

    def value(at):
        inside, log_volume = to_model(at)
        return 0.5 * (inside**2).sum(axis=1) + log_volume

    at, inside = points(), to_model(points())[0]
    known, adjoint = inside.copy(), inside.copy()
    known[:, OWN] = 0.0
    nodes, weights = pull_back(terms, LEVEL, DEGREE, at, known, adjoint)
    step = 1e-5
    if coordinate == 0:
        # The parent gets the gradient of the weighted terms at the nodes.
        up, down = nodes.copy(), nodes.copy()
        up[:, 0] += step
        down[:, 0] -= step
        through = (terms(up, LEVEL.terms) - terms(down, LEVEL.terms)) * weights / (2 * step)
        adjoint[:, 0] += through.sum(axis=1).reshape(-1, len(at)).sum(axis=0)
    shift = np.eye(4)[coordinate] * step
    by_differences = (value(at + shift) - value(at - shift)) / (2 * step)
    np.testing.assert_allclose(adjoint[:, coordinate], by_differences, rtol=1e-5, atol=1e-6)
