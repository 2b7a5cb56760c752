"""Conditional densities of one variable whose integral is known in closed form.

Three families cover the conjugate pairs of textbooks, in the unbounded coordinate x of a model:

* normal, exp(c + a x - b x^2),
* the logarithm of a gamma variable, exp(c + a x - b e^x), or with -x for x: rates, precisions and
  hazards with any Poisson, exponential or normal data,
* the logit of a beta variable, exp(c + a x - b log(1 + e^x)): shares with any binomial data.

Each is linear in three coefficients, so that three values of the log-density tell them. Where these
are taken does not change the result; they are moved to where the digits are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

__all__ = ["FAMILIES", "Family", "Solution", "log_gamma", "solve"]

# How often nodes are moved, and how far at once where a value is infinite, or too small to show.
LOOKS, BLIND_STEP = 8, 12.0
# Nodes are well placed where what is narrow is between these, in units of their distance, and the
# middle no further away than this, in widths: then coefficients keep ten digits.
FAR, WIDTHS = 9.0, (1e-3, 1e3)
# The furthest that nodes are moved at once, in logarithms: e^300 is a double.
LONGEST = 300.0


@dataclass(frozen=True)
class Family:
    """A family of densities exp(k_0 + k_1 t + k_2 g(t)) of t = (x - center) / width.

    ``width`` is the first one that is tried: -1 for the logarithm of an inverse gamma variable.
    """

    name: str
    nodes: np.ndarray
    width: float
    function: Callable[[np.ndarray], np.ndarray]
    #: log of the integral over t, and the means of t and g(t), from k_1 and k_2.
    moments: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    #: By how much nodes are to be moved, in t, and their distances scaled.
    better: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    draw: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]

    def inverse(self) -> np.ndarray:
        """Return the matrix that takes values at the nodes to coefficients."""
        design = np.stack([np.ones(3), self.nodes, self.function(self.nodes)], axis=1)
        return np.asarray(np.linalg.inv(design))


@dataclass(frozen=True)
class Solution:
    """Densities of one family, (rows, groups): coefficients of t = (x - center) / width.

    ``log_mass`` is the log of the integral over x, -inf where there is none, and ``weights`` are
    the derivatives of it by the values at ``places``, (rows, 3, groups).
    """

    family: Family
    center: np.ndarray
    width: np.ndarray
    coefficients: np.ndarray
    log_mass: np.ndarray
    places: np.ndarray
    weights: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the log-density at values, (rows, nodes, groups)."""
        t = (x - self.center[:, None]) / self.width[:, None]
        first, second, third = self.coefficients[:, :, None]
        return np.asarray(first + second * t + third * self.family.function(t))

    def draw(self, rng: np.random.Generator, groups: np.ndarray) -> np.ndarray:
        """Draw x of some groups, (rows, groups); a group may be drawn more than once."""
        t = self.family.draw(rng, *self.coefficients[1:, :, groups])
        return np.asarray(self.center[:, groups] + self.width[:, groups] * t)


def solve(
    family: Family,
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray],
    size: int,
    count: int,
) -> Solution:
    """Return the densities of a family that go through three values of each.

    Parameters
    ----------
    family
        The family.
    log_density
        Returns values for some rows at places, (rows, 3, groups).
    size, count
        The number of rows, and of groups.
    """
    center, width = np.zeros((size, count)), np.full((size, count), family.width)
    coefficients, rows = np.full((3, size, count), np.nan), np.arange(size)
    inverse = family.inverse()
    with np.errstate(all="ignore"):
        for _ in range(LOOKS):
            places = center[rows, None] + width[rows, None] * family.nodes[:, None]
            values = log_density(rows, places)
            values[~np.isfinite(values)] = np.nan
            # The middle value apart: what is left has no digits to lose but its own.
            middle = values[:, 1]
            found = np.einsum("ik,rkg->irg", inverse, values - middle[:, None])
            found[0] += middle
            coefficients[:, rows] = found
            shift, scale = family.better(found[1], found[2])
            center[rows] += shift * width[rows]
            width[rows] *= scale
            moved = ((shift != 0) | (scale != 1)).any(axis=1)
            coefficients[:, rows[moved]] = np.nan
            rows = rows[moved]
            if not len(rows):
                break
        log_mass, mean, other = family.moments(*coefficients[1:])
        log_mass = log_mass + coefficients[0] + np.log(np.abs(width))
        means = np.stack([np.ones_like(mean), mean, other])
        weights = np.einsum("ik,irg->rkg", inverse, means)
    log_mass[np.isnan(log_mass)] = -np.inf
    places = center[:, None] + width[:, None] * family.nodes[:, None]
    return Solution(family, center, width, coefficients, log_mass, places, weights)


def _normal_moments(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    precision = np.where(b < 0, -2 * b, np.nan)
    mean = a / precision
    log_mass = 0.5 * np.log(2 * np.pi / precision) + 0.5 * a * mean
    return log_mass, mean, mean**2 + 1 / precision


def _normal_better(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    width = np.where(b < 0, np.abs(2 * b), np.nan) ** -0.5
    shift = np.where(np.isnan(width), 0.0, a * width**2)
    near = (width > WIDTHS[0]) & (width < WIDTHS[1]) & (np.abs(shift) < FAR * width)
    flat = np.isnan(width) & ~np.isnan(b)
    scale = np.where(flat, WIDTHS[1], np.where(np.isnan(width), 1.0, width))
    return np.where(near, 0.0, shift), np.where(near, 1.0, scale)


def _normal_draw(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a / (-2 * b) + rng.normal(size=a.shape) / np.sqrt(-2 * b))


def _gamma_moments(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape, rate = np.where(a > 0, a, np.nan), np.where(b < 0, -b, np.nan)
    log_rate = np.log(rate)
    log_mass = scipy.special.gammaln(shape) - shape * log_rate
    return log_mass, scipy.special.digamma(shape) - log_rate, shape / rate


def _gamma_better(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rate = np.where(b < 0, -b, np.nan)
    shift = np.clip(np.log(np.maximum(a, 1.0) / rate), -LONGEST, LONGEST)
    # No digit of the rate shows yet, or nothing is possible so far out.
    blind = np.where(np.isnan(b), -BLIND_STEP, BLIND_STEP)
    shift = np.where(np.isnan(shift), blind, shift)
    return np.where(np.abs(shift) < FAR, 0.0, shift), np.ones_like(shift)


def _gamma_draw(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return log_gamma(rng, a) - np.log(-b)


def _beta_moments(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second = np.where(a > 0, a, np.nan), np.where(-b - a > 0, -b - a, np.nan)
    digamma = scipy.special.digamma
    log_mass = scipy.special.betaln(first, second)
    at_second = digamma(second)
    return log_mass, digamma(first) - at_second, digamma(first + second) - at_second


def _stay(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros_like(a), np.ones_like(a)


def _beta_draw(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return log_gamma(rng, a) - log_gamma(rng, -b - a)


def log_gamma(rng: np.random.Generator, shape: np.ndarray) -> np.ndarray:
    """Draw logs of gamma variables; those of a small shape would be zero in double precision."""
    larger = np.log(rng.gamma(shape + 1.0))
    return np.asarray(larger - rng.exponential(size=shape.shape) / shape)


_EVEN = np.array([-1.5, 0.0, 1.5])
_GAMMA = (np.exp, _gamma_moments, _gamma_better, _gamma_draw)
FAMILIES = (
    Family("normal", _EVEN, 1.0, np.square, _normal_moments, _normal_better, _normal_draw),
    Family("gamma", _EVEN, 1.0, *_GAMMA),
    Family("inverse gamma", _EVEN, -1.0, *_GAMMA),
    Family(
        "beta", 2 * _EVEN, 1.0, lambda t: np.logaddexp(0.0, t), _beta_moments, _stay, _beta_draw
    ),
)
