"""The integral over one new coordinate, for all particles at once.

Finite discrete values are enumerated, which is exact. A continuous coordinate gets nodes that are
wide enough for the prior and fine enough for a likelihood ten thousand times narrower: a coarse
grid, then grids around the best node at the scale of its curvature. Between nodes the density is
taken as log-linear, which gives a mass W-hat and a density to draw from. What is not exact is
corrected, draw by draw, with the true density, and a small share of the draws comes from wide
tails, so that the estimate of Z is unbiased whatever the nodes miss.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from pymc_arm.models.support import Support

__all__ = [
    "Grid",
    "Reference",
    "continuous_log_density",
    "discrete_log_probability",
    "draw_continuous",
    "draw_discrete",
    "enumerate_values",
    "quadrature",
]

# log g at (particles, values), for an array (particles, values) of the new coordinate.
Conditional = Callable[[np.ndarray], np.ndarray]

# The share of draws from the tails. Each adds a weight of about zero, hence little variance.
TAIL_SHARE = 2e-4
TAIL_FREEDOM = 3.0
COARSE = 13
# In standard deviations of the local normal approximation.
MIDDLE = np.array([-3.0, -1.5, -0.5, 0.5, 1.5, 3.0])
FINE = np.array(
    [*np.arange(-6.0, -3.0, 1.0), *np.arange(-3.0, 3.01, 0.5), *np.arange(4.0, 6.1, 1.0)]
)
LARGEST_REFINEMENTS = 8
# Refinement ends when so many particles have found their peak; the others pay in variance.
ENOUGH_SETTLED = 0.999
# Wider supports are enumerated in a window around the best of a few values.
LARGEST_ENUMERATION = 64
# How often the place where a density drops to zero is halved, and how far below the peak it may
# drop without mattering.
BISECTIONS = 12
LARGEST_DROP = 30.0
# The logarithm of nothing, for arithmetic that -inf would spoil.
LOG_ZERO = -1e300


class Reference(NamedTuple):
    """Where the prior draws of a coordinate lie."""

    low: float
    high: float
    center: float
    scale: float
    bound: float

    @classmethod
    def of(cls, draws: np.ndarray, bound: float = np.inf) -> "Reference":
        """Summarise prior draws of a coordinate whose absolute value has a bound."""
        finite = draws[np.isfinite(draws)]
        low, quarter, center, third, high = np.quantile(finite, [0.001, 0.25, 0.5, 0.75, 0.999])
        width = max(high - low, 1e-6)
        scale = max((third - quarter) / 1.35, 1e-3 * width)
        low, high = max(low - 0.25 * width, -bound), min(high + 0.25 * width, bound)
        return cls(low, high, center, scale, bound)


class Grid(NamedTuple):
    """Nodes and log-densities there, the last node and the log of the mass, one row a particle."""

    nodes: np.ndarray
    log_density: np.ndarray
    last: np.ndarray
    log_mass: np.ndarray

    @classmethod
    def join(cls, grids: Sequence["Grid"]) -> "Grid":
        """Stack grids, with empty nodes at the end of the shorter rows."""
        longest = max(grid.nodes.shape[1] for grid in grids)
        nodes, values = [], []
        for grid in grids:
            missing = ((0, 0), (0, longest - grid.nodes.shape[1]))
            nodes.append(np.pad(grid.nodes, missing, mode="edge"))
            values.append(np.pad(grid.log_density, missing, constant_values=LOG_ZERO))
        return cls(
            np.concatenate(nodes),
            np.concatenate(values),
            np.concatenate([grid.last for grid in grids]),
            np.concatenate([grid.log_mass for grid in grids]),
        )


def quadrature(conditional: Conditional, reference: Reference, size: int) -> Grid:
    """Find the mass of a one-dimensional density for each of ``size`` particles."""
    coarse = np.linspace(reference.low, reference.high, COARSE)
    if np.isfinite(reference.bound):
        coarse = np.linspace(-reference.bound, reference.bound, COARSE)
    nodes = np.tile(coarse, (size, 1))
    values = _floor(conditional(nodes))
    center, scale = _local_normal(nodes, values)
    settled = np.zeros(size, bool)
    for _ in range(LARGEST_REFINEMENTS):
        nodes, values = _extend(conditional, nodes, values, center, scale, MIDDLE, reference.bound)
        new_center, new_scale = _local_normal(nodes, values)
        stable = np.abs(new_center - center) < 0.5 * new_scale
        stable &= np.abs(np.log(new_scale / scale)) < 0.5
        # One that has settled stays: the same nodes once more would tell nothing about it.
        center = np.where(settled, center, new_center)
        scale = np.where(settled, scale, new_scale)
        settled |= stable
        if settled.mean() > ENOUGH_SETTLED:
            break
    nodes, values = _extend(conditional, nodes, values, center, scale, FINE, reference.bound)
    nodes, values = _find_edges(conditional, nodes, values)
    return Grid(nodes, values, nodes[:, -1], _log_sum(_segment_log_masses(nodes, values)))


def _extend(
    conditional: Conditional,
    nodes: np.ndarray,
    values: np.ndarray,
    center: np.ndarray,
    scale: np.ndarray,
    offsets: np.ndarray,
    bound: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Add nodes around a centre, within the bound, and sort."""
    new = np.clip(center[:, None] + scale[:, None] * offsets, -bound, bound)
    nodes = np.concatenate([nodes, new], axis=1)
    values = np.concatenate([values, _floor(conditional(new))], axis=1)
    order = np.argsort(nodes, axis=1)
    return np.take_along_axis(nodes, order, axis=1), np.take_along_axis(values, order, axis=1)


def _find_edges(
    conditional: Conditional, nodes: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Close in on where a density drops to zero on either side of its peak.

    The piece that is left has the density of its positive end, so that no mass is out of reach.
    """
    rows = np.arange(len(nodes))
    best = values.argmax(axis=1)
    peak = values[rows, best]
    for side in (-1, 1):
        empty = (values <= LOG_ZERO) & (side * (np.arange(nodes.shape[1]) - best[:, None]) > 0)
        # The empty node next to the peak, if there is one.
        distance = np.where(empty, np.abs(np.arange(nodes.shape[1]) - best[:, None]), np.inf)
        edge = np.where(empty.any(axis=1), distance.argmin(axis=1), best)
        inner = np.where(edge == best, best, edge - side)
        matters = (edge != best) & (values[rows, inner] > peak - LARGEST_DROP) & (peak > LOG_ZERO)
        if not matters.any():
            continue
        outside, inside = nodes[rows, edge], nodes[rows, inner]
        level = values[rows, inner]
        for _ in range(BISECTIONS):
            middle = 0.5 * (outside + inside)
            value = _floor(conditional(middle[:, None]))[:, 0]
            positive = value > LOG_ZERO
            outside = np.where(positive, outside, middle)
            inside, level = np.where(positive, middle, inside), np.where(positive, value, level)
        nodes = np.concatenate([nodes, outside[:, None], inside[:, None]], axis=1)
        values = np.concatenate([values, level[:, None], level[:, None]], axis=1)
        order = np.argsort(nodes, axis=1, kind="stable")
        nodes, values = (np.take_along_axis(a, order, axis=1) for a in (nodes, values))
        best = values.argmax(axis=1)
    return nodes, values


def draw_continuous(
    rng: np.random.Generator, grid: Grid, reference: Reference
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from the log-linear density, or now and then from the tails.

    Returns the draws and the log of the density that they were drawn from.
    """
    size = len(grid.nodes)
    rows = np.arange(size)
    masses = np.exp(_segment_log_masses(grid.nodes, grid.log_density) - grid.log_mass[:, None])
    cumulated = np.cumsum(masses, axis=1)
    uniform = rng.random(size) * cumulated[:, -1]
    segment = np.minimum((cumulated < uniform[:, None]).sum(axis=1), masses.shape[1] - 1)
    left, right = grid.nodes[rows, segment], grid.nodes[rows, segment + 1]
    slope = grid.log_density[rows, segment + 1] - grid.log_density[rows, segment]
    draws = left + (right - left) * _draw_exponential(rng.random(size), slope)
    tails = reference.center + reference.scale * rng.standard_t(TAIL_FREEDOM, size)
    draws = np.where(rng.random(size) < TAIL_SHARE, tails, draws)
    return draws, continuous_log_density(grid, reference, draws)


def continuous_log_density(grid: Grid, reference: Reference, points: np.ndarray) -> np.ndarray:
    """Return the log of the density that :func:`draw_continuous` draws from, a point a row."""
    inside = _interpolate(grid, points) - grid.log_mass
    outside = _log_student(points, reference)
    return np.logaddexp(np.log1p(-TAIL_SHARE) + inside, np.log(TAIL_SHARE) + outside)


def enumerate_values(conditional: Conditional, support: Support, size: int) -> Grid:
    """Evaluate a discrete density at each value of its support.

    Of an infinite and wide support only a window around the peak is evaluated; what lies outside
    is left to the tails.
    """
    values = support.values
    if support.finite or len(values) <= LARGEST_ENUMERATION:
        nodes = np.tile(values, (size, 1))
    else:
        coarse = np.unique(np.rint(np.linspace(support.low, support.high, COARSE * 2)))
        nodes = np.tile(coarse, (size, 1))
        center, scale = _local_normal(nodes, _floor(conditional(nodes)))
        near = np.rint(center[:, None] + np.maximum(scale, 1.0)[:, None] * MIDDLE)
        near = np.sort(np.clip(near, support.low, support.high), axis=1)
        near += 1e-9 * np.arange(near.shape[1])  # distinct, for the parabola
        center, scale = _local_normal(near, _floor(conditional(np.rint(near))))
        half = int(np.clip(8 * np.quantile(scale, 0.99), 16, len(values) // 2))
        first = np.clip(np.rint(center) - half, support.low, None)
        nodes = first[:, None] + np.arange(2 * half + 1)
    log_density = conditional(nodes)
    return Grid(nodes, log_density, nodes[:, -1], _log_sum(log_density))


def draw_discrete(
    rng: np.random.Generator, grid: Grid, support: Support
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a value, and return the log of its probability.

    Beyond the values of an infinite support the draws have geometric tails.
    """
    size, count = grid.nodes.shape
    rows = np.arange(size)
    log_mass = np.where(np.isfinite(grid.log_mass), grid.log_mass, 0.0)
    probabilities = np.exp(grid.log_density - log_mass[:, None])
    cumulated = np.cumsum(probabilities, axis=1)
    uniform = rng.random(size) * cumulated[:, -1]
    chosen = np.minimum((cumulated <= uniform[:, None]).sum(axis=1), count - 1)
    draws = grid.nodes[rows, chosen]
    if not support.finite:
        side = rng.choice([1] if support.bounded_below else [-1, 1], size=size)
        steps = rng.geometric(_tail_rate(count), size)
        beyond = np.where(side > 0, grid.last + steps, grid.nodes[:, 0] - steps)
        draws = np.where(rng.random(size) < TAIL_SHARE, beyond, draws).astype(float)
    return draws, discrete_log_probability(grid, support, draws)


def discrete_log_probability(grid: Grid, support: Support, values: np.ndarray) -> np.ndarray:
    """Return the log-probability with which :func:`draw_discrete` draws a value, one a row."""
    rows, count = np.arange(len(values)), grid.nodes.shape[1]
    log_mass = np.where(np.isfinite(grid.log_mass), grid.log_mass, 0.0)
    place = np.minimum((grid.nodes < values[:, None]).sum(axis=1), count - 1)
    found = grid.nodes[rows, place] == values
    inside = np.where(found, grid.log_density[rows, place] - log_mass, -np.inf)
    if support.finite:
        return inside
    rate, sides = _tail_rate(count), 1 if support.bounded_below else 2
    steps = np.where(values > grid.last, values - grid.last, grid.nodes[:, 0] - values)
    reached = (values > grid.last) | ((values < grid.nodes[:, 0]) & (sides == 2))
    tail = np.log(TAIL_SHARE / sides) + np.log(rate) + (steps - 1) * np.log1p(-rate)
    return np.where(reached, tail, np.log1p(-TAIL_SHARE) + inside)


def _tail_rate(count: int) -> float:
    """Return the rate of the geometric tails, by the number of values between them."""
    return 1.0 / (1.0 + 0.25 * count)


def _floor(values: np.ndarray) -> np.ndarray:
    """Replace -inf by the smallest finite number that is still usable in differences."""
    return np.where(np.isfinite(values), values, LOG_ZERO)


def _log_sum(values: np.ndarray) -> np.ndarray:
    """Return log(sum(exp)) of each row, -inf for rows without mass."""
    largest = values.max(axis=1)
    safe = np.where(largest > -1e299, largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - safe[:, None]).sum(axis=1)) + safe


def _local_normal(nodes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and scale of the parabola through the best node and its neighbours.

    A peak beyond the nodes may be as far away as they are wide.
    """
    rows = np.arange(len(nodes))
    highest = values.argmax(axis=1)
    best = np.clip(highest, 1, nodes.shape[1] - 2)
    x0, x1, x2 = (nodes[rows, best + shift] for shift in (-1, 0, 1))
    y0, y1, y2 = (values[rows, best + shift] for shift in (-1, 0, 1))
    with np.errstate(all="ignore"):
        left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
        curvature = 2 * (right - left) / (x2 - x0)
        center = 0.5 * (x0 + x1) - left / curvature
        scale = np.sqrt(-1 / curvature)
        width = x2 - x0
    bad = ~np.isfinite(center) | ~np.isfinite(scale) | (curvature >= 0)
    reach = nodes[:, -1] - nodes[:, 0]
    low, high = np.where(highest < best, x0 - reach, x0), np.where(highest > best, x2 + reach, x2)
    center = np.where(bad, nodes[rows, highest], np.clip(center, low, high))
    # Neighbours can't resolve less than a part of their distance, nor should they look too far.
    return center, np.where(bad, 0.1 * width, np.clip(scale, 1e-4 * width, 2.0 * width))


def _segment_log_masses(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the log of the mass between neighbouring nodes, for a log-linear density."""
    width = np.diff(nodes, axis=1)
    difference = np.abs(np.diff(values, axis=1))
    largest = np.maximum(values[:, 1:], values[:, :-1])
    with np.errstate(all="ignore"):
        shape = np.where(difference > 1e-8, -np.expm1(-difference) / difference, 1.0)
        return np.log(width) + largest + np.log(shape)


def _draw_exponential(uniform: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Draw t in [0, 1] with density in proportion to exp(slope * t)."""
    steep = np.abs(slope)
    with np.errstate(all="ignore"):
        from_end = -np.log1p(uniform * np.expm1(-steep)) / steep
    from_end = np.where(steep > 1e-8, from_end, uniform)
    return np.clip(np.where(slope > 0, 1 - from_end, from_end), 0.0, 1.0)


def _interpolate(grid: Grid, points: np.ndarray) -> np.ndarray:
    """Return the log-linear density at one point a row, -inf outside the nodes."""
    rows = np.arange(len(points))
    count = grid.nodes.shape[1]
    above = (grid.nodes <= points[:, None]).sum(axis=1)
    segment = np.clip(above - 1, 0, count - 2)
    left, right = grid.nodes[rows, segment], grid.nodes[rows, segment + 1]
    with np.errstate(all="ignore"):
        place = np.where(right > left, (points - left) / (right - left), 0.0)
    value = (1 - place) * grid.log_density[rows, segment]
    value = value + place * grid.log_density[rows, segment + 1]
    outside = (points < grid.nodes[:, 0]) | (points > grid.last)
    return np.where(outside | (value < -1e299), -np.inf, value)


def _log_student(points: np.ndarray, reference: Reference) -> np.ndarray:
    scaled = (points - reference.center) / reference.scale
    constant = scipy.special.gammaln((TAIL_FREEDOM + 1) / 2) - scipy.special.gammaln(
        TAIL_FREEDOM / 2
    )
    constant -= 0.5 * np.log(TAIL_FREEDOM * np.pi) + np.log(reference.scale)
    return constant - 0.5 * (TAIL_FREEDOM + 1) * np.log1p(scaled**2 / TAIL_FREEDOM)
