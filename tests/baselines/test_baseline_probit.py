"""The compiled probit functions against SciPy and against each other's differences."""

import numpy as np
from scipy.special import log_ndtr

from benchmarks.baselines.probit import (
    curvature,
    expected_curvature,
    expected_curvature_array,
    hazard,
    hazard_array,
    log_probit,
    log_probit_array,
)

POINTS = np.concatenate([np.linspace(-9, 9, 145), [-1e4, -300.0, -38.0, -5.000001, 40.0, 300.0]])


def test_log_probit_is_scipys():
    found = log_probit_array(POINTS[None])[0]
    np.testing.assert_allclose(found, log_ndtr(POINTS), rtol=1e-12)


def test_hazard_is_the_slope_of_log_probit():
    expected = np.exp(-0.5 * POINTS**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(POINTS))
    tame = np.abs(POINTS) < 30
    np.testing.assert_allclose(hazard_array(POINTS[None])[0][tame], expected[tame], rtol=1e-10)
    step = 1e-5
    for point in (-7.0, -5.0, -1.0, 0.0, 2.0):
        slope = (log_probit(point + step) - log_probit(point - step)) / (2 * step)
        assert abs(slope - hazard(point)) < 1e-7 * (1 + abs(slope))


def test_curvature_and_its_derivative():
    step = 1e-5
    for point in (-40.0, -7.0, -5.0, -2.0, 0.0, 1.0, 4.0):
        value, derivative = curvature(point)
        numeric = -(hazard(point + step) - hazard(point - step)) / (2 * step)
        assert abs(value - numeric) < 1e-6
        numeric = (curvature(point + step)[0] - curvature(point - step)[0]) / (2 * step)
        assert abs(derivative - numeric) < 1e-6


def test_far_tail_follows_the_asymptotic_series():
    value, derivative = curvature(-1e3)
    assert abs(value - (1 - 1e-6)) < 1e-10
    assert abs(derivative / (-2e-9) - 1) < 1e-3


def test_expected_curvature_is_fishers_information_at_one():
    points = np.linspace(-6, 6, 41)
    value, _ = expected_curvature_array(points, 1.0)
    density = np.exp(-0.5 * points**2) / np.sqrt(2 * np.pi)
    fisher = density**2 / np.exp(log_ndtr(points) + log_ndtr(-points))
    np.testing.assert_allclose(value, fisher, rtol=1e-9)


def test_expected_curvature_has_the_right_derivative():
    step = 1e-5
    for beta in (1e-4, 0.1, 1.0):
        for point in (-60.0, -3.0, -0.4, 0.0, 1.3, 8.0):
            _, derivative = expected_curvature(point, beta)
            above, below = (expected_curvature(point + sign * step, beta)[0] for sign in (1, -1))
            assert abs(derivative - (above - below) / (2 * step)) < 1e-7 * (1 + 1 / step * 1e-3)


def test_expected_curvature_vanishes_at_zero_temperature_and_far_out():
    assert expected_curvature(1.0, 0.0) == (0.0, 0.0)
    value, derivative = expected_curvature(500.0, 1.0)
    assert value == 0
    assert derivative == 0
