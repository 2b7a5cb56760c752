"""The normal distribution inside compiled sweeps: quantiles, and draws below a bound."""

import math

import numpy as np
from numba import njit

__all__ = ["normal_quantile", "truncated_below"]

ROOT_HALF = math.sqrt(0.5)
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Below this point Phi nears the smallest float64, and its logarithm is solved for instead.
FAR_TAIL = -30.0

# Coefficients of Wichura (1988), algorithm AS 241 (PPND16): relative accuracy 1e-16.
CENTRE = (
    (2509.0809287301226727, 5226.495278852854561),
    (33430.575583588128105, 28729.085735721942674),
    (67265.770927008700853, 39307.89580009271061),
    (45921.953931549871457, 21213.794301586595867),
    (13731.693765509461125, 5394.1960214247511077),
    (1971.5909503065514427, 687.1870074920579083),
    (133.14166789178437745, 42.313330701600911252),
    (3.387132872796366608, 1.0),
)
MIDDLE = (
    (7.7454501427834140764e-4, 1.05075007164441684324e-9),
    (0.0227238449892691845833, 5.475938084995344946e-4),
    (0.24178072517745061177, 0.0151986665636164571966),
    (1.27045825245236838258, 0.14810397642748007459),
    (3.64784832476320460504, 0.68976733498510000455),
    (5.7694972214606914055, 1.6763848301838038494),
    (4.6303378461565452959, 2.05319162663775882187),
    (1.42343711074968357734, 1.0),
)
TAIL = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.4215117583164458887e-7),
    (0.0012426609473880784386, 1.8463183175100546818e-5),
    (0.026532189526576123093, 7.868691311456132591e-4),
    (0.29656057182850489123, 0.0148753612908506148525),
    (1.7848265399172913358, 0.13692988092273580531),
    (5.4637849111641143699, 0.59983220655588793769),
    (6.6579046435011037772, 1.0),
)


@njit(cache=True, nogil=True, error_model="numpy")
def _ratio(coefficients: tuple[tuple[float, ...], ...], argument: float) -> float:
    """Return the ratio of two polynomials by Horner's rule."""
    above, below = 0.0, 0.0
    for pair in coefficients:
        above = above * argument + pair[0]
        below = below * argument + pair[1]
    return above / below


@njit(cache=True, nogil=True, error_model="numpy")
def normal_quantile(probability: float) -> float:
    """Return the x with Phi(x) = probability."""
    centred = probability - 0.5
    if abs(centred) <= 0.425:
        return centred * _ratio(CENTRE, 0.180625 - centred * centred)
    tail = min(probability, 1.0 - probability)
    radius = math.sqrt(-math.log(tail))
    size = _ratio(MIDDLE, radius - 1.6) if radius <= 5.0 else _ratio(TAIL, radius - 5.0)
    return size if centred > 0 else -size


@njit(cache=True, nogil=True, error_model="numpy")
def _log_tail(point: float) -> float:
    """Return log Phi(point) far in the lower tail, by its asymptotic series."""
    inverse = 1.0 / (point * point)
    series = 1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse))
    return -0.5 * point * point - math.log(-point) - HALF_LOG_TWO_PI + math.log(series)


@njit(cache=True, nogil=True, error_model="numpy")
def truncated_below(upper: np.ndarray, bits: np.ndarray, out: np.ndarray) -> None:
    """Draw standard normal numbers below ``upper``, one per lane, by inversion.

    They are the auxiliary variables of the x representation: Phi(x) is the probability that such
    a number is below x, so that given one, x_i is a Gaussian cut off at it.
    """
    for lane in range(out.shape[0]):
        point = float(upper[lane])
        uniform = (float(bits[lane]) + 0.5) * 2.0**-32
        if point > FAR_TAIL:
            probability = uniform * 0.5 * math.erfc(-point * ROOT_HALF)
            out[lane] = min(normal_quantile(probability), point)
        else:
            goal = math.log(uniform) + _log_tail(point)
            drawn = -math.sqrt(point * point - 2.0 * math.log(uniform))
            for _ in range(3):
                # d log Phi / dx is -x to leading order.
                drawn += (_log_tail(drawn) - goal) / (drawn + 1.0 / drawn)
            out[lane] = min(drawn, point)
