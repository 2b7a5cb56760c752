"""Logarithms of functions where the functions themselves are rounded to zero or one."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.special

from pymc_arm.models.graph.logarithms import log1mexp, log_between, log_erfc, log_sum

X = np.array([-30.0, -3.0, -1e-3, 0.0, 0.5, 1.0, 1.5, 9.0, 40.0, 1e4])


def evaluate(build, *values):
    inputs = [pt.tensor(dtype="float64", shape=np.shape(value)) for value in values]
    function = pytensor.function(inputs, build(*inputs), mode="FAST_COMPILE")
    with np.errstate(divide="ignore"):
        return function(*values)


def test_log_erfc_in_both_tails():
    """erfc(x) = 2 Phi(-x sqrt 2), whose logarithm SciPy has in all of the line."""
    expected = np.log(2) + scipy.special.log_ndtr(-X * np.sqrt(2))
    np.testing.assert_allclose(evaluate(log_erfc, X), expected, rtol=1e-12, atol=1e-14)


def test_log1mexp_near_zero_and_far_below():
    y = np.array([-1e-12, -0.1, -1.0, -50.0])
    np.testing.assert_allclose(evaluate(log1mexp, y), np.log(-np.expm1(y)), rtol=1e-12)
    assert evaluate(log1mexp, np.array([0.0, 1.0])).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("place", [-800.0, -2.0, 0.0, 3.0, 800.0])
def test_log_between_two_sigmoids(place):
    """sigmoid(a) - sigmoid(b) is symmetric in the sign of both, and e^b (e - 1) far below zero."""
    high, low = np.array([place + 1.0]), np.array([place])
    found = evaluate(log_between, high, low)
    if abs(place) < 100:
        expected = np.log(scipy.special.expit(high) - scipy.special.expit(low))
    else:
        expected = -np.abs(high if place > 0 else low) + np.log(np.expm1(1.0))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [None, (0,), (1,), (0, 1)])
def test_log_sum_is_that_of_scipy(axis):
    values = np.random.default_rng(1).normal(-2000.0, 300.0, size=(3, 4))
    found = evaluate(lambda x: log_sum(x, axis), values)
    np.testing.assert_allclose(found, scipy.special.logsumexp(values, axis=axis), rtol=1e-14)
