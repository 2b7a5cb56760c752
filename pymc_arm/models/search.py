"""Where the nodes of a one-dimensional density go, for all particles at once.

A few common nodes, at quantiles of the prior draws, show how the density of each particle runs.
Then nodes are added, a few at a time and only for the particles that need them: around the peak
that the pieces between nodes predict, in the pieces that are most in doubt, where the support ends,
and outward, until the density is far below its peak on both sides or the support ends there.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_arm.algorithm.path import join, select
from pymc_arm.models.pieces import (
    LOG_ZERO,
    Doubt,
    doubts,
    find_bends,
    geometric_log_masses,
    is_zero,
    log_sum,
    outer_curvatures,
    parabolic_log_masses,
    slopes_between,
)

__all__ = ["Conditional", "Line", "Pieces", "find_pieces"]

# log g at (rows, values): the values of the new coordinate, and the numbers of the rows.
Conditional = Callable[[np.ndarray, np.ndarray], np.ndarray]

# How far below the peak, in nats, a density ends: a normal one at 7.1 standard deviations. Twice as
# far costs two more nodes. What is left beyond a Cauchy's end is 1e-6 of its mass.
DEPTH = 25.0
# Pieces are refined until so much of the mass is in doubt. Draws are corrected with the true
# density, so this is variance only: some (0.02 / 4)^2 for each particle, beside the 0.1 to 1 of a
# step. Ten times smaller takes twice the nodes.
TOLERANCE = 0.005
# What is left of a deviation when the node is there: an eighth, where the density is smooth, and a
# quarter at a kink; a little more, since nodes are not evenly spaced.
REMAINDER = 0.35
# The same for what draws can't correct: pieces that they seldom reach, or that hide a peak.
MISSED_TOLERANCE = 1e-5
# With 1000 particles, no draw may be in a piece with a smaller share.
RARE = 1e-3
# A piece hides a peak if a log-concave density may be so far above it (4 standard deviations
# between nodes), or if one of its ends is so far from what its neighbours predict.
LARGEST_GAP = 8.0
LARGEST_DEVIATION = 0.5
# A node that is higher than its neighbours, one of them by LARGEST_GAP, may be the foot of another
# peak, however low it is: between two peaks a density is not log-concave. Nodes at these parts of
# the way to its neighbours surround it, until they are closer; as long as they are not, so much of
# the mass may be missed. Rounding makes no peaks.
SURROUND = np.array([0.3, 0.7])
UNSEEN = 1e-4
ROUNDED = 1e-9
# The share of the mass in the piece that a support of the line ends in; one of whole numbers is
# searched to its end.
LARGEST_EDGE = 1e-3
# Nodes around a predicted peak, in standard deviations. Pieces of two standard deviations are exact
# for a normal density, and the outermost are at the depth.
OFFSETS = np.array([-7.2, -4.4, -2.6, -1.0, 1.0, 2.6, 4.4, 7.2])
# A piece is seen as a peak if it spans more standard deviations squared than this.
SMALLEST_PEAK = 6.0
# A piece that falls by more nats is divided before its neighbours: next to a normal peak 1e-7 of
# the piece wide it falls by 1e14, and where exp(exp(x)) is about to overflow by 1e34.
LONGEST_FALL = 1e16
# Otherwise four new nodes a round: all in a piece that hides a peak, or one in each of the four
# pieces most in doubt, if it is not this many nats less in doubt than the first.
EVENLY = np.array([0.25, 0.5, 0.75])
NEGLIGIBLE = 5.0
# A piece that falls by more nats than twice this is divided so far below its higher end.
STEEP = 4.0
# Rows without a node of positive density are halved until they have so many.
MOST_EMPTY = 60
# Rounds for those that need them: a spike 1e-7 times as wide as the pieces around it takes 10.
ROUNDS = 24
# The outermost nodes go out by up to so many times the way between them.
OUTWARD = 4.0
# How far below the depth, in nats, they are meant to come.
BEYOND = 2.0


class Line(NamedTuple):
    """The coordinate t of a search, x = center + scale t, between limits of t.

    ``whole`` says whether x is a whole number.
    """

    center: float = 0.0
    scale: float = 1.0
    low: float = -np.inf
    high: float = np.inf
    whole: bool = False


class Pieces(NamedTuple):
    """Nodes t, and the density in pieces between them, a row for each particle.

    ``error`` is the share of the mass by which it may be wrong, and ``missed`` the part of it that
    draws would not show. Beyond the outermost nodes the density falls at the rates, or is zero
    where a rate is infinite.
    """

    nodes: np.ndarray
    values: np.ndarray
    left: np.ndarray
    right: np.ndarray
    bends: np.ndarray
    low_rate: np.ndarray
    high_rate: np.ndarray
    log_masses: np.ndarray
    log_total: np.ndarray
    error: np.ndarray
    missed: np.ndarray

    def widen(self, count: int) -> "Pieces":
        """Return the same with ``count`` empty pieces more at the end of each row."""
        if not count:
            return self
        missing = ((0, 0), (0, count))
        fill = {"left": LOG_ZERO, "right": LOG_ZERO, "bends": 0.0, "log_masses": LOG_ZERO}
        padded = {
            name: np.pad(getattr(self, name), missing, constant_values=value)
            for name, value in fill.items()
        }
        ends = {
            name: np.pad(getattr(self, name), missing, mode="edge") for name in ("nodes", "values")
        }
        return self._replace(**padded, **ends)


class _Assessed(NamedTuple):
    """Pieces, what is in doubt of them, and what is still to do.

    ``log_score`` is the log of how much more is in doubt in a piece than is tolerated; ``foot`` is
    the node that may be the foot of another peak, or -1.
    """

    pieces: Pieces
    doubt: Doubt
    log_score: np.ndarray
    open_low: np.ndarray
    open_high: np.ndarray
    unsettled: np.ndarray
    empty: np.ndarray
    foot: np.ndarray

    @property
    def unfinished(self) -> np.ndarray:
        """Which rows need more nodes."""
        return self.unsettled | self.open_low | self.open_high | self.empty | (self.foot >= 0)


def find_pieces(conditional: Conditional, line: Line, start: np.ndarray, size: int) -> Pieces:
    """Return the density of each of ``size`` rows, from common nodes ``start`` on."""
    rows = np.arange(size)
    nodes = np.tile(np.unique(np.clip(start, line.low, line.high)), (size, 1))
    values = _evaluate(conditional, line, nodes, rows)
    finished: list[tuple[np.ndarray, Pieces]] = []
    for number in range(ROUNDS):
        assessed = _assess(nodes, values, line)
        more = assessed.unfinished
        if number == ROUNDS - 1 or not more.any():
            finished.append((rows, assessed.pieces))
            break
        if not more.all():
            finished.append((rows[~more], select(assessed.pieces, ~more)))
            rows, assessed = rows[more], select(assessed, more)
        nodes, values = assessed.pieces.nodes, assessed.pieces.values
        for some, places in _propose(assessed, line):
            places = np.clip(np.rint(places) if line.whole else places, line.low, line.high)
            found = _evaluate(conditional, line, places, rows[some])
            nodes, values = _insert(nodes, values, some, places, found)
    return _assemble(finished, size)


def _assemble(finished: list[tuple[np.ndarray, Pieces]], size: int) -> Pieces:
    """Return the rows in their order, all of the same length."""
    longest = max(pieces.nodes.shape[1] for _, pieces in finished)
    wide = [pieces.widen(longest - pieces.nodes.shape[1]) for _, pieces in finished]
    if len(wide) == 1:
        return wide[0]
    place = np.empty(size, dtype=int)
    place[np.concatenate([rows for rows, _ in finished])] = np.arange(size)
    return select(join(wide), place)


def _evaluate(
    conditional: Conditional, line: Line, nodes: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    values = conditional(line.center + line.scale * nodes, rows)
    return np.where(np.isfinite(values), values, LOG_ZERO)


def _assess(nodes: np.ndarray, values: np.ndarray, line: Line) -> _Assessed:
    """Return the pieces between nodes, and which of them are in doubt."""
    rows = np.arange(len(nodes))
    width, zero = np.diff(nodes, axis=1), is_zero(values)
    slopes = slopes_between(nodes, values)
    single = line.whole & (width <= 1)
    # A piece that the support ends in has the density of its other end, so that none is missed.
    edge = (zero[:, 1:] != zero[:, :-1]) & (width > 0) & ~single
    level = np.maximum(values[:, :-1], values[:, 1:])
    left, right = (np.where(edge, level, side) for side in (values[:, :-1], values[:, 1:]))
    if line.whole:
        bends = np.zeros_like(width)
        log_masses = geometric_log_masses(width, left, right)
        log_last = values[:, -1]
    else:
        bends = find_bends(nodes, values, slopes)
        log_masses = parabolic_log_masses(width, left, right, bends)
        log_last = np.full(len(nodes), LOG_ZERO)
    log_masses = np.where(width > 0, np.maximum(log_masses, LOG_ZERO), LOG_ZERO)

    peak = values.max(axis=1)
    last = np.maximum((width > 0).sum(axis=1) - 1, 0)
    rates = (slopes[:, 0], -slopes[rows, last])
    limits = (nodes[:, 0] <= line.low, nodes[:, -1] >= line.high)
    opened, log_tails = [], []
    for rate, at_limit, value in zip(rates, limits, (values[:, 0], values[:, -1]), strict=True):
        free = ~at_limit & ~is_zero(value)
        falling = rate > 0
        opened.append(free & ~(falling & (value <= peak - DEPTH)))
        with np.errstate(all="ignore"):
            log_tail = value - (np.log(np.expm1(rate)) if line.whole else np.log(rate))
        log_tails.append(np.where(free & falling, log_tail, LOG_ZERO))
    everything = np.column_stack([log_masses, *log_tails, log_last])
    log_total = log_sum(everything)
    safe_total = np.where(np.isfinite(log_total), log_total, 0.0)[:, None]

    doubt = doubts(
        nodes,
        values,
        slopes,
        curved=not line.whole,
        largest_gap=LARGEST_GAP,
        largest_deviation=LARGEST_DEVIATION,
    )
    with np.errstate(over="ignore"):
        share = np.exp(log_masses - safe_total)
        potential = np.exp(np.minimum(doubt.log_gap - safe_total, 600.0))
        tail_share = np.exp(np.column_stack(log_tails) - safe_total).sum(axis=1)
    unresolved = doubt.unresolved & ~single
    in_doubt = np.where(single, 0.0, REMAINDER * share * doubt.deviation)
    in_doubt = np.where(unresolved, np.maximum(potential, in_doubt), in_doubt)
    edges = np.where(edge, share, 0.0)
    largest_edge = 0.0 if line.whole else LARGEST_EDGE
    seldom_drawn = unresolved | (share < RARE)
    seldom = np.where(seldom_drawn, in_doubt, 0.0).sum(axis=1)
    error = in_doubt.sum(axis=1) + tail_share + edges.sum(axis=1)
    unsettled = (in_doubt.sum(axis=1) > TOLERANCE) | (seldom > MISSED_TOLERANCE)
    unsettled |= edges.max(axis=1, initial=0.0) > largest_edge
    # By how much each piece is above what is tolerated; the log of the gap where exp overflows.
    excess = np.where(seldom_drawn, in_doubt / MISSED_TOLERANCE, in_doubt / TOLERANCE)
    excess = np.where(edges > largest_edge, edges / LARGEST_EDGE, excess)
    with np.errstate(divide="ignore"):
        log_score = np.where(in_doubt > 1e100, doubt.log_gap - safe_total, np.log(excess))
    log_score = _falls_first(log_score, width, left - right)
    alive = ~is_zero(peak)
    foot = _find_foot(values, single)
    pieces = Pieces(
        nodes=nodes,
        values=values,
        left=left,
        right=right,
        bends=bends,
        low_rate=np.where(is_zero(log_tails[0]), np.inf, rates[0]),
        high_rate=np.where(is_zero(log_tails[1]), np.inf, rates[1]),
        log_masses=log_masses,
        log_total=log_total,
        error=error,
        missed=seldom + tail_share + np.where(foot >= 0, UNSEEN, 0.0),
    )
    open_low, open_high = (side & alive for side in opened)
    empty = ~alive & (nodes.shape[1] < MOST_EMPTY) & (not line.whole)
    unsettled &= alive
    return _Assessed(pieces, doubt, log_score, open_low, open_high, unsettled, empty, foot)


def _falls_first(log_score: np.ndarray, width: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """Return scores by which a long fall is divided before the short pieces beside it.

    The node between the two is far from what its neighbours predict because of the fall, however
    short the other piece is made.
    """
    result = log_score.copy()
    steep = np.abs(fall) > LONGEST_FALL
    for one, other in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        first = steep[:, one] & (width[:, one] > width[:, other])
        beside = np.where(first, log_score[:, other] + 1.0, -np.inf)
        result[:, one] = np.maximum(result[:, one], beside)
    return result


def _find_foot(values: np.ndarray, single: np.ndarray) -> np.ndarray:
    """Return the highest node of each row that stands out from its neighbours, or -1."""
    middle = values[:, 1:-1]
    falls = np.stack([middle - values[:, :-2], middle - values[:, 2:]])
    zero = is_zero(values)
    lower, higher = falls.min(axis=0), falls.max(axis=0)
    found = (lower > ROUNDED * np.abs(middle)) & (higher > LARGEST_GAP)
    found &= ~(zero[:, 1:-1] | zero[:, :-2] | zero[:, 2:]) & ~(single[:, 1:] & single[:, :-1])
    height = np.where(found, middle, -np.inf)
    if not height.shape[1]:
        return np.full(len(values), -1)
    return np.where(found.any(axis=1), 1 + height.argmax(axis=1), -1)


def _propose(assessed: _Assessed, line: Line) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows and their new places."""
    proposals = []
    rows = np.flatnonzero(assessed.unsettled)
    if len(rows):
        part = select(assessed, rows)
        first = part.log_score.argmax(axis=1)
        peaked = np.zeros(len(rows), dtype=bool)
        if not line.whole:
            around, peaked = _around_peak(part.pieces, first)
            proposals.append((rows[peaked], around[peaked]))
        inside = np.where(_hides(part, first)[:, None], _scan(part, first), _halve(part))
        proposals.append((rows[~peaked], inside[~peaked]))
    rows = np.flatnonzero(assessed.empty)
    if len(rows):
        nodes = assessed.pieces.nodes[rows]
        proposals.append((rows, 0.5 * (nodes[:, 1:] + nodes[:, :-1])))
    rows = np.flatnonzero(assessed.foot >= 0)
    if len(rows):
        nodes, foot = assessed.pieces.nodes[rows], assessed.foot[rows]
        here, low, high = (nodes[np.arange(len(rows)), foot + k][:, None] for k in (0, -1, 1))
        sides = [here + SURROUND * (low - here), here + SURROUND * (high - here)]
        proposals.append((rows, np.concatenate(sides, axis=1)))
    rows = np.flatnonzero(assessed.open_low | assessed.open_high)
    if len(rows):
        proposals.append((rows, _outward(select(assessed, rows))))
    return [(rows, places) for rows, places in proposals if len(rows)]


def _around_peak(pieces: Pieces, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places around the peak of one piece of each row, and whether it has one."""
    rows = np.arange(len(chosen))
    bend, first = pieces.bends[rows, chosen], pieces.nodes[rows, chosen]
    width = pieces.nodes[rows, chosen + 1] - first
    rise = pieces.right[rows, chosen] - pieces.left[rows, chosen]
    with np.errstate(all="ignore"):
        place, scale = 0.5 + rise / bend, 1 / np.sqrt(bend)
        peaked = (bend > SMALLEST_PEAK) & (place > -scale) & (place < 1 + scale)
        # A peak at the very end is there because the piece was kept monotone.
        peaked &= np.abs(np.abs(place - 0.5) - 0.5) > 1e-9
    place, scale = np.where(peaked, place, 0.5), np.where(peaked, scale, 1.0)
    places = first[:, None] + width[:, None] * (place[:, None] + scale[:, None] * OFFSETS)
    return places, peaked


def _hides(assessed: _Assessed, chosen: np.ndarray) -> np.ndarray:
    """Whether a piece of each row may hide a peak, or the end of the support."""
    rows = np.arange(len(chosen))
    values = assessed.pieces.values
    empty = is_zero(values[rows, chosen]) | is_zero(values[rows, chosen + 1])
    return empty | (assessed.doubt.gap[rows, chosen] > LARGEST_GAP)


def _scan(assessed: _Assessed, chosen: np.ndarray) -> np.ndarray:
    """Return places from end to end of one piece of each row, and where its peak may be."""
    rows = np.arange(len(chosen))
    nodes = assessed.pieces.nodes
    first, last = nodes[rows, chosen], nodes[rows, chosen + 1]
    apex = np.clip(assessed.doubt.apex[rows, chosen], 0.02, 0.98)
    places = np.column_stack([apex, *np.broadcast_to(EVENLY[:, None], (len(EVENLY), len(rows)))])
    return first[:, None] + (last - first)[:, None] * places


def _halve(assessed: _Assessed) -> np.ndarray:
    """Return a place in each of the pieces most in doubt."""
    pieces, log_score = assessed.pieces, assessed.log_score
    count = len(EVENLY) + 1
    chosen = np.argsort(-log_score, axis=1)[:, :count]
    chosen = np.pad(chosen, ((0, 0), (0, count - chosen.shape[1])), mode="edge")
    scores = np.take_along_axis(log_score, chosen, axis=1)
    first = np.take_along_axis(pieces.nodes, chosen, axis=1)
    last = np.take_along_axis(pieces.nodes, chosen + 1, axis=1)
    rise = np.take_along_axis(pieces.right - pieces.left, chosen, axis=1)
    # Where a piece falls by many nats, its mass is at the higher end.
    with np.errstate(divide="ignore"):
        steep = np.minimum(0.5, STEEP / np.abs(rise))
    places = first + (last - first) * np.where(rise > 0, 1 - steep, steep)
    return np.where(scores > scores[:, :1] - NEGLIGIBLE, places, first)


def _outward(assessed: _Assessed) -> np.ndarray:
    """Return a place beyond each end that is not far enough out, or the end itself.

    It is where the parabola through the three outermost nodes is far enough below the peak, which
    may be its own.
    """
    nodes, values = assessed.pieces.nodes, assessed.pieces.values
    span = np.maximum(nodes[:, -1] - nodes[:, 0], 1.0)
    peak, slopes = values.max(axis=1), slopes_between(nodes, values)
    last = np.maximum((np.diff(nodes, axis=1) > 0).sum(axis=1) - 1, 0)
    rates = (slopes[:, 0], -slopes[np.arange(len(last)), last])
    curvatures = outer_curvatures(nodes, slopes, last)
    ends = []
    for side, opened, rate, curvature in zip(
        (0, -1), (assessed.open_low, assessed.open_high), rates, curvatures, strict=True
    ):
        with np.errstate(all="ignore"):
            # The slope at the node itself is steeper than that of the piece, by a little.
            drop = np.where(rate > 0, values[:, side] - peak, -(rate**2) / (2 * curvature))
            drop = drop + DEPTH + BEYOND
            bent = (np.sqrt(rate**2 + 2 * curvature * drop) - rate) / curvature
            step = np.where(curvature > 0, bent, np.where(rate > 0, drop / rate, np.inf))
        step = np.where(np.isfinite(step), step, OUTWARD * span)
        step = np.clip(step, 0.02 * span, OUTWARD * span)
        ends.append(np.where(opened, nodes[:, side] + (step if side else -step), nodes[:, side]))
    return np.column_stack(ends)


def _insert(
    nodes: np.ndarray, values: np.ndarray, rows: np.ndarray, places: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add nodes to some rows, in order; what is there already goes to the end as an empty piece."""
    count = places.shape[1]
    nodes = np.concatenate([nodes, np.repeat(nodes[:, -1:], count, axis=1)], axis=1)
    values = np.concatenate([values, np.repeat(values[:, -1:], count, axis=1)], axis=1)
    nodes[rows, -count:], values[rows, -count:] = places, found
    order = np.argsort(nodes[rows], axis=1, kind="stable")
    own = np.take_along_axis(nodes[rows], order, axis=1)
    # Nodes that rounding can't tell apart would give slopes that are noise.
    double = np.zeros_like(own, dtype=bool)
    double[:, 1:] = np.diff(own, axis=1) <= 1e-12 * np.abs(own[:, 1:])
    order = np.take_along_axis(order, np.argsort(double, axis=1, kind="stable"), axis=1)
    kept = np.minimum(np.arange(own.shape[1]), (~double).sum(axis=1)[:, None] - 1)
    order = np.take_along_axis(order, kept, axis=1)
    nodes[rows] = np.take_along_axis(nodes[rows], order, axis=1)
    values[rows] = np.take_along_axis(values[rows], order, axis=1)
    longest = 2 + int(np.flatnonzero((np.diff(nodes, axis=1) > 0).any(axis=0))[-1])
    return nodes[:, :longest], values[:, :longest]
