"""Densities in pieces between nodes: their masses, draws from them, and where they are in doubt.

On the line, the log-density of a piece is a parabola through both of its ends, so that a normal
density is represented exactly by any nodes. On the whole numbers it is a straight line, and a piece
that holds one number is exact. Where a node is left out, its neighbours predict its value; how far
they are off is the difference of two resolutions, and says how far to trust the piece.

In a piece of width w, with t from 0 to 1, log f = left + (right - left) t + bend t (1 - t) / 2.
"""

from typing import NamedTuple

import numpy as np
import scipy

__all__ = [
    "LOG_ZERO",
    "Doubt",
    "doubts",
    "draw_places",
    "find_bends",
    "geometric_log_masses",
    "is_zero",
    "log_sum",
    "outer_curvatures",
    "parabolic_log_masses",
    "slopes_between",
]

# The logarithm of nothing, for arithmetic that -inf would spoil.
LOG_ZERO = -1e300
# A bend is left out where it changes the density by less than rounding does: where it is this
# small, or this small beside the square of the slope.
SMALLEST_BEND = 1e-6
SMALLEST_RELATIVE_BEND = 1e-8
# Halvings that find a place in a convex piece: to rounding.
BISECTIONS = 50


class Doubt(NamedTuple):
    """How far the pieces may be wrong, an array (rows, pieces) each.

    ``deviation`` is how far, in nats, the ends are from what their neighbours predict. ``gap`` is
    the largest distance between the chord and the lines that continue the pieces on both sides: no
    log-concave density is outside of them. ``apex`` is where it is, between 0 and 1. A piece is
    ``unresolved`` if one of the two is too large, and then ``log_gap`` is the log of the mass
    between chord and lines.
    """

    deviation: np.ndarray
    log_gap: np.ndarray
    gap: np.ndarray
    apex: np.ndarray
    unresolved: np.ndarray


def is_zero(values: np.ndarray) -> np.ndarray:
    """Whether log-densities are those of a density of zero."""
    return values <= 0.5 * LOG_ZERO


def log_sum(values: np.ndarray) -> np.ndarray:
    """Return log(sum(exp)) of each row, -inf for rows without mass."""
    largest = values.max(axis=1)
    safe = np.where(is_zero(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - safe[:, None]).sum(axis=1)) + safe


def slopes_between(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the slope of each piece, NaN where it is empty or an end has no density."""
    width, rise = np.diff(nodes, axis=1), np.diff(values, axis=1)
    usable = (width > 0) & ~is_zero(values[:, 1:]) & ~is_zero(values[:, :-1])
    with np.errstate(all="ignore"):
        return np.where(usable, rise / width, np.nan)


def find_bends(nodes: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the bend of each piece: minus its second derivative times its width squared.

    That is a mean of those at both ends that is never above twice the smaller, and zero if they
    differ in sign (van Leer, 1974), so that a kink next to a flat piece leaves it flat. A piece
    without a neighbour on one side takes the other's, as far as it stays monotone.
    """
    width = np.diff(nodes, axis=1)
    at_nodes = _curvatures(nodes, slopes)
    left, right = at_nodes[:, :-1], at_nodes[:, 1:]
    with np.errstate(all="ignore"):
        bends = _limited_mean(left, right) * width**2
        rise = np.abs(np.diff(values, axis=1))
        one_sided = np.isnan(left) | np.isnan(right)
        bends = np.where(one_sided, np.clip(bends, -2 * rise, 2 * rise), bends)
        size, start = np.abs(bends), 0.5 * bends - rise
        negligible = (size < SMALLEST_BEND) | (size < SMALLEST_RELATIVE_BEND * start**2)
        return np.where(negligible | ~np.isfinite(bends) | np.isnan(slopes), 0.0, bends)


def parabolic_log_masses(
    width: np.ndarray, left: np.ndarray, right: np.ndarray, bends: np.ndarray
) -> np.ndarray:
    """Return the log of the integral of pieces on the line.

    Seen from the higher end, the integral over t of exp(b t - bend t^2 / 2) is one of a normal
    density, with b = bend / 2 - |right - left|. If it falls from there on (b < 0), both of its ends
    are in one tail, where the scaled complementary error function is exact. If the bend is
    negative, Dawson's function takes its place.
    """
    falls, tops = np.abs(right - left), np.maximum(left, right)
    with np.errstate(all="ignore"):
        shape = np.where(falls > 1e-8, -np.expm1(-falls) / falls, 1.0)
        result = np.log(width) + tops + np.log(shape)
    bent = np.nonzero(bends > 0)
    if len(bent[0]):
        fall, bend, highest = falls[bent], bends[bent], tops[bent]
        start, unit = 0.5 * bend - fall, np.sqrt(2 * bend)
        first, last = -start / unit, (bend - start) / unit
        with np.errstate(all="ignore"):
            falling = scipy.special.erfcx(np.maximum(first, 0))
            falling -= np.exp(-fall) * scipy.special.erfcx(np.maximum(last, 0))
            peaked = scipy.special.erf(-first) + scipy.special.erf(last)
            area = np.where(first > 0, np.log(falling), np.log(peaked) + first**2)
            result[bent] = highest + area + 0.5 * np.log(0.5 * np.pi / bend) + np.log(width[bent])
    bent = np.nonzero(bends < 0)
    if len(bent[0]):
        size = -bends[bent]
        area = _convex_area(falls[bent], size, np.ones_like(size))
        result[bent] = tops[bent] + np.log(area * width[bent])
    return result


def _convex_area(fall: np.ndarray, size: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the integral from 0 to ``end`` of exp(-(fall + size / 2) t + size t^2 / 2).

    exp(-y^2) times the integral of exp(y^2) is Dawson's function, which never overflows.
    """
    middle, unit = 0.5 + fall / size, np.sqrt(0.5 * size)
    rest = np.exp(0.5 * size * end * (end - 2 * middle))
    area = scipy.special.dawsn(middle * unit) - rest * scipy.special.dawsn((middle - end) * unit)
    result: np.ndarray = area / unit
    return result


def geometric_log_masses(count: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the log of the sum over ``count`` whole numbers, the left end and those after it.

    ``right`` is the value one after the last of them.
    """
    with np.errstate(all="ignore"):
        step = (right - left) / count
        fall = np.abs(right - left)
        ratio = np.expm1(-fall) / np.expm1(-fall / count)
        ratio = np.where(fall > 1e-9, ratio, count)
        result = np.where(step > 0, right - step, left) + np.log(ratio)
    return np.where(count > 0, np.where(count == 1, left, result), LOG_ZERO)


def draw_places(uniform: np.ndarray, rise: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Draw t in [0, 1] with density in proportion to exp(rise t + bend t (1 - t) / 2)."""
    fall = np.abs(rise)
    with np.errstate(all="ignore"):
        from_top = -np.log1p(uniform * np.expm1(-fall)) / fall
        from_top = np.where(fall > 1e-8, from_top, uniform)
        # The normal distribution between two limits, by the lower tail.
        unit = np.sqrt(np.where(bend > 0, bend, 1.0))
        first = (fall - 0.5 * bend) / unit
        log_first, log_last = scipy.special.log_ndtr(-first), scipy.special.log_ndtr(-first - unit)
        log_tail = log_first + np.log1p(uniform * np.expm1(log_last - log_first))
        bent = (-scipy.special.ndtri_exp(log_tail) - first) / unit
    from_top = np.clip(np.where(bend > 0, bent, from_top), 0.0, 1.0)
    convex = np.flatnonzero(bend < 0)
    if len(convex):
        low, high = np.zeros(len(convex)), np.ones(len(convex))
        wanted = uniform[convex] * _convex_area(fall[convex], -bend[convex], high)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = _convex_area(fall[convex], -bend[convex], middle) < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        from_top[convex] = 0.5 * (low + high)
    return np.where(rise > 0, 1.0 - from_top, from_top)


def doubts(
    nodes: np.ndarray,
    values: np.ndarray,
    slopes: np.ndarray,
    *,
    curved: bool,
    largest_gap: float,
    largest_deviation: float,
) -> Doubt:
    """Return how far the pieces may be wrong; ``curved`` says whether they are parabolas."""
    deviation = np.abs(_deviations(nodes, slopes, curved))
    deviation = np.fmax(deviation[:, :-1], deviation[:, 1:])
    deviation = np.where(np.isnan(deviation), 0.0, deviation)
    missing = np.full((len(nodes), 1), np.nan)
    before = np.concatenate([missing, slopes[:, :-1]], axis=1)
    after = np.concatenate([slopes[:, 1:], missing], axis=1)
    width = np.diff(nodes, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        # How far the lines of the neighbours rise above the chord, from either side.
        rising = np.where(before > slopes, (before - slopes) * width, 0.0)
        falling = np.where(after < slopes, (slopes - after) * width, 0.0)
        both = rising + falling
        meet = falling / np.where(both > 0, both, 1.0)
        apex = np.where(falling > 0, np.where(rising > 0, meet, 0.0), 1.0)
        gap = np.where((rising > 0) & (falling > 0), rising * meet, both)
    unresolved = (gap > largest_gap) | (deviation > largest_deviation)
    log_gap = np.full_like(gap, LOG_ZERO)
    some = np.nonzero(unresolved & (gap > 0))
    if len(some[0]):
        left, right = values[:, :-1][some], values[:, 1:][some]
        with np.errstate(invalid="ignore", over="ignore"):
            # Along the flatter line: beside a fall of 1e34 nats the digits of the top are lost.
            by_left = np.where(rising > 0, before * width * apex, np.inf)[some]
            by_right = np.where(falling > 0, -after * width * (1 - apex), np.inf)[some]
        flatter = np.abs(by_left) <= np.abs(by_right)
        top = np.where(flatter, left + by_left, right + by_right)
        log_gap[some] = _log_gaps(width[some], left, right, top, apex[some])
    return Doubt(deviation, log_gap, gap, apex, unresolved)


def _log_gaps(
    width: np.ndarray, left: np.ndarray, right: np.ndarray, top: np.ndarray, apex: np.ndarray
) -> np.ndarray:
    """Return the log of the mass between chords and two lines that meet above them."""
    flat = np.zeros_like(width)
    with np.errstate(all="ignore"):
        envelope = np.logaddexp(
            parabolic_log_masses(apex * width, left, top, flat),
            parabolic_log_masses((1 - apex) * width, top, right, flat),
        )
        chord = parabolic_log_masses(width, left, right, flat)
        result = envelope + np.log(-np.expm1(np.minimum(chord - envelope, 0.0)))
    return np.where(np.isfinite(result), result, LOG_ZERO)


def _curvatures(nodes: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return minus the second derivative at each node, NaN where there are no two neighbours."""
    result = np.full_like(nodes, np.nan)
    with np.errstate(all="ignore"):
        result[:, 1:-1] = 2 * (slopes[:, :-1] - slopes[:, 1:]) / (nodes[:, 2:] - nodes[:, :-2])
    return result


def outer_curvatures(nodes: np.ndarray, slopes: np.ndarray, last: np.ndarray) -> list[np.ndarray]:
    """Return minus the second derivative by the first, and by the last, three nodes of each row."""
    rows, curvatures = np.arange(len(nodes)), _curvatures(nodes, slopes)
    return [curvatures[:, 1], curvatures[rows, np.maximum(last, 1)]]


def _limited_mean(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the harmonic mean of numbers of one sign, zero of others; NaN takes the other's."""
    first, second = (
        np.where(np.isnan(first), second, first),
        np.where(np.isnan(second), first, second),
    )
    with np.errstate(all="ignore"):
        mean = 2 * first * (second / (first + second))
    return np.where(np.sign(first) * np.sign(second) > 0, mean, 0.0)


def _deviations(nodes: np.ndarray, slopes: np.ndarray, curved: bool) -> np.ndarray:
    """Return how far each node is from what the pieces would be without it, NaN at the ends."""
    result = np.full_like(nodes, np.nan)
    if nodes.shape[1] < 3:
        return result
    with np.errstate(all="ignore"):
        own = _curvatures(nodes, slopes)[:, 1:-1]
        span = nodes[:, 2:] - nodes[:, :-2]
        before, after = nodes[:, 1:-1] - nodes[:, :-2], nodes[:, 2:] - nodes[:, 1:-1]
        expected = np.zeros_like(own)
        if curved:
            chord = (slopes[:, :-1] * before + slopes[:, 1:] * after) / span
            sides = np.full((2, *own.shape), np.nan)
            sides[0, :, 1:] = 2 * (slopes[:, :-2] - chord[:, 1:]) / (nodes[:, 3:] - nodes[:, :-3])
            sides[1, :, :-1] = 2 * (chord[:, :-1] - slopes[:, 2:]) / (nodes[:, 3:] - nodes[:, :-3])
            expected = _limited_mean(*sides)
        result[:, 1:-1] = 0.5 * (own - expected) * before * after
    return result
