"""Where the next nodes of a one-dimensional density go.

Around the peak that the pieces between nodes predict, in the pieces that are most in doubt, where
the support ends, and outward, until the density is far below its peak on both sides.
"""

import numpy as np

from pymc_arm.algorithm.path import select
from pymc_arm.models.assessment import DEPTH, LARGEST_GAP, SURROUND, Assessed, Line, Pieces
from pymc_arm.models.pieces import is_zero, outer_curvatures, slopes_between

__all__ = ["propose"]

# Nodes around a predicted peak, in standard deviations. Pieces of two standard deviations are exact
# for a normal density, and the outermost are at the depth.
OFFSETS = np.array([-7.2, -4.4, -2.6, -1.0, 1.0, 2.6, 4.4, 7.2])
# A piece is seen as a peak if it spans more standard deviations squared than this.
SMALLEST_PEAK = 6.0
# Otherwise four new nodes a round: all in a piece that hides a peak, or one in each of the four
# pieces most in doubt, if it is not this many nats less in doubt than the first.
EVENLY = np.array([0.25, 0.5, 0.75])
NEGLIGIBLE = 5.0
# A piece that falls by more nats than twice this is divided so far below its higher end.
STEEP = 4.0
# The outermost nodes go out by up to so many times the way between them.
OUTWARD = 4.0
# How far below the depth, in nats, they are meant to come.
BEYOND = 2.0


def propose(assessed: Assessed, line: Line) -> list[tuple[np.ndarray, np.ndarray]]:
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


def _hides(assessed: Assessed, chosen: np.ndarray) -> np.ndarray:
    """Whether a piece of each row may hide a peak, or the end of the support."""
    rows = np.arange(len(chosen))
    values = assessed.pieces.values
    empty = is_zero(values[rows, chosen]) | is_zero(values[rows, chosen + 1])
    return empty | (assessed.doubt.gap[rows, chosen] > LARGEST_GAP)


def _scan(assessed: Assessed, chosen: np.ndarray) -> np.ndarray:
    """Return places from end to end of one piece of each row, and where its peak may be."""
    rows = np.arange(len(chosen))
    nodes = assessed.pieces.nodes
    first, last = nodes[rows, chosen], nodes[rows, chosen + 1]
    apex = np.clip(assessed.doubt.apex[rows, chosen], 0.02, 0.98)
    places = np.column_stack([apex, *np.broadcast_to(EVENLY[:, None], (len(EVENLY), len(rows)))])
    return first[:, None] + (last - first)[:, None] * places


def _halve(assessed: Assessed) -> np.ndarray:
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


def _outward(assessed: Assessed) -> np.ndarray:
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
