"""A one-dimensional density in pieces between nodes: how much of it is in doubt, and where.

:mod:`pymc_arm.models.search` adds nodes until too little is in doubt to matter.
"""

from typing import NamedTuple

import numpy as np

from pymc_arm.models.pieces import (
    LOG_ZERO,
    Doubt,
    doubts,
    find_bends,
    geometric_log_masses,
    is_zero,
    log_sum,
    parabolic_log_masses,
    slopes_between,
)

__all__ = ["DEPTH", "LARGEST_GAP", "SURROUND", "Assessed", "Line", "Pieces", "assess"]

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
# A density that does not fall where the search ends (nodes are 1e20 prior scales out by then) may
# have no integral: as much as was found, or anything, may lie beyond.
ENDLESS = 1.0
ROUNDED = 1e-9
# A piece that falls by more nats is divided before its neighbours: next to a normal peak 1e-7 of
# the piece wide it falls by 1e14, and where exp(exp(x)) is about to overflow by 1e34.
LONGEST_FALL = 1e16
# The share of the mass in the piece that a support of the line ends in; one of whole numbers is
# searched to its end.
LARGEST_EDGE = 1e-3
# Rows without a node of positive density are halved until they have so many.
MOST_EMPTY = 60


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


class Assessed(NamedTuple):
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


def assess(nodes: np.ndarray, values: np.ndarray, line: Line) -> Assessed:
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
    endless = np.zeros(len(nodes), dtype=bool)
    for rate, at_limit, value in zip(rates, limits, (values[:, 0], values[:, -1]), strict=True):
        free = ~at_limit & ~is_zero(value)
        falling = rate > 0
        endless |= free & ~falling
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
        missed=seldom
        + tail_share
        + np.where(foot >= 0, UNSEEN, 0.0)
        + np.where(endless, ENDLESS, 0.0),
    )
    open_low, open_high = (side & alive for side in opened)
    empty = ~alive & (nodes.shape[1] < MOST_EMPTY) & (not line.whole)
    unsettled &= alive
    return Assessed(pieces, doubt, log_score, open_low, open_high, unsettled, empty, foot)


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
