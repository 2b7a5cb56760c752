"""The integral over one new coordinate, for all particles at once.

:mod:`pymc_arm.models.search` finds the nodes, and :mod:`pymc_arm.models.pieces` what the density
between them is: parabolas of the log-density on the line, single values of the whole numbers, or
straight lines where there are too many. Both ends have tails that fall on as the outer pieces do.
That gives a mass W-hat, how far it may be wrong, and a density to draw from. What is not exact is
corrected, draw by draw, with the true density, so that the estimate of Z is unbiased; what draws
are too few to show is measured (``Grid.missed``), and part of the standard error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from pymc_arm.models.assessment import Line, Pieces
from pymc_arm.models.pieces import LOG_ZERO, draw_places, is_zero, log_sum
from pymc_arm.models.search import Conditional, find_pieces
from pymc_arm.models.support import Support

__all__ = [
    "Conditional",
    "Grid",
    "PriorRange",
    "continuous_log_density",
    "discrete_log_probability",
    "draw_continuous",
    "draw_discrete",
    "enumerate_values",
    "quadrature",
    "rough_rule",
]

# The share of draws from wide tails, so that no density is zero where the true one may not be. They
# are too few to be met: with 2e-4, the 999 of 1000 runs of 5 draws that met none were 2e-4 too high
# for each coordinate, 0.006 with 31 of them.
TAIL_SHARE = 1e-9
TAIL_FREEDOM = 3.0
# Where the first nodes are, by the share of prior draws below them: those of a normal prior are
# 0.7 to 1 standard deviations apart, so that two peaks further apart than that are seen as two.
FIRST_NODES = np.array([0.001, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.999])
# Supports with more values are searched, and not enumerated from end to end: those of labels, which
# have no order, are seldom larger; those of counts are smooth.
LARGEST_FINITE = 2048
# An infinite support is enumerated if so many values are where the prior is.
LARGEST_INFINITE = 64
# First nodes of a support that is searched.
FIRST_VALUES = 25


class PriorRange(NamedTuple):
    """Where the prior draws of a coordinate lie.

    ``nodes`` are quantiles of (x - center) / scale; ``bound`` is the largest absolute value of x.
    """

    center: float
    scale: float
    bound: float
    nodes: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray, bound: float = np.inf) -> "PriorRange":
        """Summarise prior draws of a coordinate whose absolute value has a bound."""
        finite = draws[np.isfinite(draws)]
        finite = finite if len(finite) else np.zeros(1)
        quarter, center, third = np.quantile(finite, [0.25, 0.5, 0.75])
        # Halves, since the difference of two numbers near the largest overflows.
        ends = 0.5 * finite.max() - 0.5 * finite.min()
        scale = float(max((0.5 * third - 0.5 * quarter) / 0.675, 1e-3 * ends))
        if not scale > np.finfo(float).tiny:  # all draws are the same
            scale = max(abs(float(center)), 1.0)
        center = float(center)
        nodes = (np.quantile(finite, FIRST_NODES) - center) / scale
        if len(np.unique(nodes)) < len(FIRST_NODES):
            nodes = np.concatenate([nodes, scipy.special.ndtri(FIRST_NODES)])
        if np.isfinite(bound):
            nodes = (np.linspace(-bound, bound, len(FIRST_NODES)) - center) / scale
        return cls(center, scale, float(bound), np.unique(nodes))

    @property
    def line(self) -> Line:
        """The coordinate of a search."""
        low, high = ((end - self.center) / self.scale for end in (-self.bound, self.bound))
        return Line(self.center, self.scale, low, high)


class Grid(NamedTuple):
    """A density in pieces between nodes, one row a particle.

    ``left``, ``right`` and ``bends`` are those of :mod:`pymc_arm.models.pieces`; rates are those of
    the tails, infinite where the density ends. On the whole numbers, a piece holds its first
    node and what comes before the second, and the last node is a piece of its own.
    ``log_mass_error`` says how far the log of the mass may be off, from two resolutions;
    ``missed`` is the part of it that no draw would show, and that no correction mends.
    """

    nodes: np.ndarray
    left: np.ndarray
    right: np.ndarray
    bends: np.ndarray
    low_rate: np.ndarray
    high_rate: np.ndarray
    log_masses: np.ndarray
    log_mass: np.ndarray
    log_mass_error: np.ndarray
    missed: np.ndarray

    @classmethod
    def join(cls, grids: Sequence["Grid"]) -> "Grid":
        """Stack grids, with empty pieces at the end of the shorter rows."""
        longest = max(grid.nodes.shape[1] for grid in grids)
        padded = [_pad(grid, longest - grid.nodes.shape[1]) for grid in grids]
        return cls(*(np.concatenate(parts) for parts in zip(*padded, strict=True)))


def quadrature(conditional: Conditional, prior_range: PriorRange, size: int) -> Grid:
    """Find the mass of a one-dimensional density for each of ``size`` particles."""
    line = prior_range.line
    pieces = find_pieces(conditional, line, prior_range.nodes, size)
    log_scale = np.log(line.scale)
    with np.errstate(over="ignore"):
        low_rate, high_rate = pieces.low_rate / line.scale, pieces.high_rate / line.scale
    return Grid(
        nodes=line.center + line.scale * pieces.nodes,
        left=pieces.left,
        right=pieces.right,
        bends=pieces.bends,
        low_rate=low_rate,
        high_rate=high_rate,
        log_masses=pieces.log_masses + log_scale,
        log_mass=pieces.log_total + log_scale,
        log_mass_error=pieces.error,
        missed=pieces.missed,
    )


def rough_rule(grid: Grid, *, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return values of positive density in each row, and the log of how many each stands for.

    With ``whole`` numbers, these are the first of each piece; on the line, the nodes.
    """
    width = np.diff(grid.nodes, axis=1)
    values = grid.nodes[:, :-1]
    if not whole:
        values, width = grid.nodes, np.gradient(grid.nodes, axis=1)
    positive = width > 0
    if whole:
        positive &= ~is_zero(grid.left)
        some = np.take_along_axis(values, positive.argmax(axis=1)[:, None], axis=1)
        values = np.where(positive, values, some)
    return values, np.where(positive, np.log(np.where(positive, width, 1.0)), -np.inf)


def draw_continuous(
    rng: np.random.Generator, grid: Grid, prior_range: PriorRange
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from the pieces, from their tails, or now and then from wide tails.

    Returns the draws and the log of the density that they were drawn from.
    """
    size = len(grid.nodes)
    rows = np.arange(size)
    chosen, place = _draw_piece(rng, grid, whole=False)
    piece = np.clip(chosen, 0, grid.left.shape[1] - 1)
    first, last = grid.nodes[rows, piece], grid.nodes[rows, piece + 1]
    rise = grid.right[rows, piece] - grid.left[rows, piece]
    draws = first + (last - first) * draw_places(place, rise, grid.bends[rows, piece])
    with np.errstate(over="ignore"):
        beyond = -np.log(place)
        draws = np.where(chosen < 0, grid.nodes[:, 0] - beyond / grid.low_rate, draws)
        draws = np.where(
            chosen >= grid.left.shape[1], grid.nodes[:, -1] + beyond / grid.high_rate, draws
        )
        wide = prior_range.center + prior_range.scale * rng.standard_t(TAIL_FREEDOM, size)
    draws = np.where(rng.random(size) < TAIL_SHARE, wide, draws)
    return draws, continuous_log_density(grid, prior_range, draws)


def continuous_log_density(grid: Grid, prior_range: PriorRange, points: np.ndarray) -> np.ndarray:
    """Return the log of the density that :func:`draw_continuous` draws from, a point a row."""
    rows = np.arange(len(points))
    piece = (grid.nodes <= points[:, None]).sum(axis=1) - 1
    # The last node belongs to the last piece that is not empty.
    last = np.maximum((np.diff(grid.nodes, axis=1) > 0).sum(axis=1) - 1, 0)
    piece = np.clip(piece, 0, last)
    first, width = grid.nodes[rows, piece], grid.nodes[rows, piece + 1] - grid.nodes[rows, piece]
    left, right = grid.left[rows, piece], grid.right[rows, piece]
    with np.errstate(all="ignore"):
        place = (points - first) / width
        inside = left + (right - left) * place
        inside += 0.5 * grid.bends[rows, piece] * place * (1 - place)
        below, above = grid.nodes[:, 0] - points, points - grid.nodes[:, -1]
        inside = np.where(below > 0, grid.left[:, 0] - grid.low_rate * below, inside)
        inside = np.where(above > 0, grid.right[rows, last] - grid.high_rate * above, inside)
        inside = np.where(is_zero(inside) | np.isnan(inside), -np.inf, inside)
        inside = inside - np.where(np.isfinite(grid.log_mass), grid.log_mass, 0.0)
    outside = _log_student(points, prior_range)
    return np.logaddexp(np.log1p(-TAIL_SHARE) + inside, np.log(TAIL_SHARE) + outside)


def enumerate_values(conditional: Conditional, support: Support, size: int) -> Grid:
    """Evaluate a discrete density at each value of its support.

    If there are too many, they are evaluated where the mass is, and in between as far apart as
    straight lines allow.
    """
    largest = LARGEST_FINITE if support.finite else LARGEST_INFINITE
    start = support.values if support.count <= largest else _spread_values(support)
    if support.finite and len(start) == support.count:
        nodes = np.tile(start, (size, 1))
        return _enumerated(nodes, conditional(nodes, np.arange(size)))
    line = Line(
        low=support.low if support.bounded_below else -np.inf,
        high=support.high if support.bounded_above else np.inf,
        whole=True,
    )
    return _whole_grid(find_pieces(conditional, line, start, size))


def draw_discrete(
    rng: np.random.Generator, grid: Grid, support: Support
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a value, and return the log of its probability."""
    size = len(grid.nodes)
    rows = np.arange(size)
    chosen, place = _draw_piece(rng, grid, whole=True)
    piece = np.clip(chosen, 0, grid.left.shape[1] - 1)
    first, count = grid.nodes[rows, piece], grid.nodes[rows, piece + 1] - grid.nodes[rows, piece]
    rise = grid.right[rows, piece] - grid.left[rows, piece]
    draws = first + np.minimum(
        np.floor(count * draw_places(place, rise, np.zeros(size))), np.maximum(count - 1, 0)
    )
    with np.errstate(all="ignore"):
        below, above = (np.floor(-np.log(place) / rate) for rate in (grid.low_rate, grid.high_rate))
    draws = np.where(chosen < 0, grid.nodes[:, 0] - 1 - below, draws)
    draws = np.where(chosen >= grid.left.shape[1], grid.nodes[:, -1] + above, draws)
    return draws, discrete_log_probability(grid, support, draws)


def discrete_log_probability(grid: Grid, support: Support, values: np.ndarray) -> np.ndarray:
    """Return the log-probability with which :func:`draw_discrete` draws a value, one a row."""
    rows = np.arange(len(values))
    last = np.maximum((np.diff(grid.nodes, axis=1) > 0).sum(axis=1) - 1, 0)
    piece = np.clip((grid.nodes <= values[:, None]).sum(axis=1) - 1, 0, last)
    first, count = grid.nodes[rows, piece], grid.nodes[rows, piece + 1] - grid.nodes[rows, piece]
    left, right = grid.left[rows, piece], grid.right[rows, piece]
    log_mass = np.where(np.isfinite(grid.log_mass), grid.log_mass, 0.0)
    with np.errstate(all="ignore"):
        logs = left + (right - left) * (values - first) / count
        below, above = grid.nodes[:, 0] - values, values - grid.nodes[:, -1] + 1
        logs = np.where(below > 0, grid.left[:, 0] - grid.low_rate * below, logs)
        logs = np.where(above > 0, grid.left[rows, last] - grid.high_rate * above, logs)
    return np.where(is_zero(logs) | np.isnan(logs), -np.inf, logs) - log_mass


def _draw_piece(
    rng: np.random.Generator, grid: Grid, *, whole: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a piece in each row, and a uniform number to draw a place in it with.

    Piece -1 is the lower tail, and the one after the last the upper tail.
    """
    rows = np.arange(len(grid.nodes))
    last = np.maximum((np.diff(grid.nodes, axis=1) > 0).sum(axis=1) - 1, 0)
    ends = (grid.left[:, 0], (grid.left if whole else grid.right)[rows, last])
    with np.errstate(all="ignore"):
        tails = [
            np.where(np.isfinite(rate), end - np.log(np.expm1(rate) if whole else rate), LOG_ZERO)
            for end, rate in zip(ends, (grid.low_rate, grid.high_rate), strict=True)
        ]
    logs = np.column_stack([tails[0], grid.log_masses, tails[1]])
    largest = np.maximum(logs.max(axis=1), 0.5 * LOG_ZERO)
    cumulated = np.cumsum(np.exp(logs - largest[:, None]), axis=1)
    uniform = rng.random(len(rows)) * cumulated[:, -1]
    chosen = (cumulated <= uniform[:, None]).sum(axis=1)
    # Rounding may go beyond the last piece that has mass; a row without mass has its first node.
    positive = ~is_zero(logs)
    last_positive = logs.shape[1] - 1 - positive[:, ::-1].argmax(axis=1)
    chosen = np.where(positive.any(axis=1), np.minimum(chosen, last_positive), 1)
    return chosen - 1, 1.0 - rng.random(len(rows))


def _enumerated(nodes: np.ndarray, log_density: np.ndarray) -> Grid:
    """Return the grid of all values of a finite support, which is exact."""
    log_density = np.where(np.isfinite(log_density), log_density, LOG_ZERO)
    size = len(nodes)
    log_mass = log_sum(log_density)
    nothing, infinite = np.zeros(size), np.full(size, np.inf)
    nodes = np.concatenate([nodes, nodes[:, -1:] + 1], axis=1)
    shape = (log_density, log_density, np.zeros_like(log_density), infinite, infinite)
    return Grid(nodes, *shape, log_density, log_mass, nothing, nothing)


def _whole_grid(pieces: Pieces) -> Grid:
    """Return the grid of whole numbers, in which the last node is a piece of its own."""
    count = pieces.left.shape[1]
    rows = np.arange(len(pieces.nodes))
    used = (np.diff(pieces.nodes, axis=1) > 0).sum(axis=1)
    nodes = np.concatenate([pieces.nodes, pieces.nodes[:, -1:] + 1], axis=1)
    nodes = np.where(np.arange(count + 2) > used[:, None], nodes[:, -1:], nodes)
    last = pieces.values[:, -1]
    parts = []
    for array, empty in ((pieces.left, 0.0), (pieces.right, 0.0), (pieces.log_masses, LOG_ZERO)):
        wider = np.concatenate([array, np.full((len(rows), 1), empty)], axis=1)
        wider[rows, used] = last
        parts.append(wider)
    left, right, log_masses = parts
    bends = np.zeros_like(left)
    log_mass = np.where(is_zero(pieces.values.max(axis=1)), -np.inf, pieces.log_total)
    rates = (pieces.low_rate, pieces.high_rate)
    measures = (log_masses, log_mass, pieces.error, pieces.missed)
    return Grid(nodes, left, right, bends, *rates, *measures)


def _spread_values(support: Support) -> np.ndarray:
    """Return values from end to end of a support, the closer the nearer to its lower end."""
    width = support.high - support.low
    even = np.linspace(0, width, FIRST_VALUES)
    near = np.geomspace(1, width, FIRST_VALUES)
    return support.low + np.unique(np.rint(np.concatenate([even, near])))


def _pad(grid: Grid, missing: int) -> Grid:
    """Add empty pieces at the end of all rows."""

    def pad(array: np.ndarray, value: float) -> np.ndarray:
        return np.pad(array, ((0, 0), (0, missing)), constant_values=value)

    return grid._replace(
        nodes=np.pad(grid.nodes, ((0, 0), (0, missing)), mode="edge"),
        left=pad(grid.left, LOG_ZERO),
        right=pad(grid.right, LOG_ZERO),
        bends=pad(grid.bends, 0.0),
        log_masses=pad(grid.log_masses, LOG_ZERO),
    )


def _log_student(points: np.ndarray, prior_range: PriorRange) -> np.ndarray:
    scaled = (points - prior_range.center) / prior_range.scale
    constant = scipy.special.gammaln((TAIL_FREEDOM + 1) / 2) - scipy.special.gammaln(
        TAIL_FREEDOM / 2
    )
    constant -= 0.5 * np.log(TAIL_FREEDOM * np.pi) + np.log(prior_range.scale)
    with np.errstate(over="ignore"):
        return constant - 0.5 * (TAIL_FREEDOM + 1) * np.log1p(scaled**2 / TAIL_FREEDOM)
