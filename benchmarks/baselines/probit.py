r"""The probit log-likelihood in compiled loops: value, slope, and curvature for a metric.

With h(u) = phi(u) / Phi(u), the hazard, the first derivatives of log Phi are

    (log Phi)'   =  h,
    (log Phi)''  = -c,   c  = h (u + h), between 0 and 1,
    (log Phi)''' = -c',  c' = h (1 - c) - h (u + h)^2.

Far in the lower tail u + h is a difference of nearly equal numbers. There, with t = -u, the hazard
is the continued fraction t + 1 / (t + 2 / (t + 3 / ...)), and r = u + h = 1 / (t + s) with
s = 2 / (t + 3 / ...) gives c = h r and c' = h r (s - 2 r).

The metric of a tempered likelihood Phi(y x)^beta is the expectation of its curvature over the
labels that this likelihood itself would give,

    Lambda_beta(x) = beta sum_y p_beta(y | x) c(y x),   p_beta(y | x) ~ Phi(y x)^beta.

At beta = 1 it is the Fisher information phi^2 / (Phi (1 - Phi)). At small beta it is spread over
|x| < beta^(-1/2), as the tempered curvature is: the Fisher information would not see that.
"""

import math

import numpy as np
from numba import njit

__all__ = [
    "curvature",
    "expected_curvature",
    "expected_curvature_array",
    "hazard",
    "hazard_array",
    "log_probit",
    "log_probit_array",
]

ROOT_HALF = math.sqrt(0.5)
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Below this point the continued fraction takes over; with so many levels it is exact to 1e-15.
TAIL = -5.0
LEVELS = 32

_options = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_options)
def _fractions(t: float) -> tuple[float, float]:
    """Return r = 1 / (t + s) and s = 2 / (t + 3 / (t + ...)) of the continued fraction."""
    rest = 0.0
    for level in range(LEVELS, 1, -1):
        rest = level / (t + rest)
    return 1.0 / (t + rest), rest


@njit(**_options)
def hazard(u: float) -> float:
    """Return phi(u) / Phi(u)."""
    if u < TAIL:
        r, _ = _fractions(-u)
        return -u + r
    return math.exp(-0.5 * u * u - LOG_ROOT_TWO_PI) / (0.5 * math.erfc(-u * ROOT_HALF))


@njit(**_options)
def log_probit(u: float) -> float:
    """Return log Phi(u)."""
    if u < TAIL:
        return -0.5 * u * u - LOG_ROOT_TWO_PI - math.log(hazard(u))
    if u > 0:
        return math.log1p(-0.5 * math.erfc(u * ROOT_HALF))
    return math.log(0.5 * math.erfc(-u * ROOT_HALF))


@njit(**_options)
def curvature(u: float) -> tuple[float, float]:
    """Return c = -(log Phi)'' and its derivative c'."""
    h = hazard(u)
    if u < TAIL:
        r, s = _fractions(-u)
        return h * r, h * r * (s - 2 * r)
    r = u + h
    return h * r, h * (1 - h * r) - h * r * r


@njit(**_options)
def expected_curvature(u: float, beta: float) -> tuple[float, float]:
    """Return Lambda_beta(u), the curvature averaged over labels, and its derivative."""
    if beta == 0.0:
        return 0.0, 0.0
    odds = beta * (log_probit(u) - log_probit(-u))
    if odds > 0:
        against = math.exp(-odds) / (1 + math.exp(-odds))
        agrees = 1 - against
    else:
        agrees = math.exp(odds) / (1 + math.exp(odds))
        against = 1 - agrees
    here, slope_here = curvature(u)
    there, slope_there = curvature(-u)
    change = agrees * against * beta * (hazard(u) + hazard(-u))
    value = agrees * here + against * there
    derivative = change * (here - there) + agrees * slope_here - against * slope_there
    return beta * value, beta * derivative


@njit("f8[:, ::1](f8[:, ::1])", **_options)
def log_probit_array(points: np.ndarray) -> np.ndarray:
    """Return log Phi of a matrix."""
    out = np.empty_like(points)
    for row in range(points.shape[0]):
        for column in range(points.shape[1]):
            out[row, column] = log_probit(points[row, column])
    return out


@njit("f8[:, ::1](f8[:, ::1])", **_options)
def hazard_array(points: np.ndarray) -> np.ndarray:
    """Return the hazard of a matrix."""
    out = np.empty_like(points)
    for row in range(points.shape[0]):
        for column in range(points.shape[1]):
            out[row, column] = hazard(points[row, column])
    return out


@njit("UniTuple(f8[::1], 2)(f8[::1], f8)", **_options)
def expected_curvature_array(points: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Lambda_beta of a vector, and its derivative."""
    value, derivative = np.empty_like(points), np.empty_like(points)
    for index in range(len(points)):
        value[index], derivative[index] = expected_curvature(points[index], beta)
    return value, derivative
