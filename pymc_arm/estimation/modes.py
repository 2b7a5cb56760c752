"""A search for what the particles may have missed: modes that hold mass but no particles.

Particles that never met a narrow mode can't tell that it is there, and chains then agree on a wrong
number. So after exploring the log-density is climbed, from prior draws, from dispersed points and
from the particles, and the mass of each mode is estimated by Laplace's method. A mode with a
good part of Z and without its part of the particles becomes a component of q, and draws of that
decide its mass (:mod:`pymc_arm.estimation.refine`). The search needs no randomness of the run, and
costs a few hundred evaluations of each of its starting points.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from pymc_arm.estimation.climbs import climb, differences
from pymc_arm.estimation.spaces import Everywhere, RefinementSpace
from pymc_arm.estimation.starts import (
    OUTSTANDING,
    LogDensity,
    Survey,
    climbs_afforded,
    find_starts,
    recombine,
)
from pymc_arm.estimation.trajectories import find_settled
from pymc_arm.estimation.weighing import (
    Mode,
    squared_distances,
    weigh,
    weigh_again,
    weigh_settled,
    weigh_together,
)

__all__ = ["MOST_MODES", "Mode", "search_modes"]

# Without gradients a step takes two evaluations a coordinate; with them, the Hessian does.
LARGEST_WITHOUT_GRADIENT = 20
LARGEST_DIMENSION = 500
# Climbs in many dimensions end on ridges: each end that is looked at costs a Hessian.
MOST_MODES = 40
# A climb has arrived if a Newton step would gain less than this, in nats; polished if it may. The
# mode that others are compared with before any climb is polished until a step gains less.
ARRIVED, POLISHED = 0.1, 1e-4
NEWTON_STEPS = 3
# Ends of climbs within this quantile of a mode's Gaussian are the same mode.
SAME_MODE = 0.999
# Ends this far below the highest, in nats, and this much for each coordinate, are not looked at: to
# hold as much mass, their mode would have to be e^4 times as wide in each. (A mixture of three
# normals, 500 values: the search took nine tenths of the run, for modes 50 to 1000 nats below.)
LOW, LOW_EACH = 10.0, 4.0
# As long as climbs lead to new modes they begin anew, so many times at most: where those known
# explain least of what was looked at, and between them. Of the eight modes of three coordinates
# with a needle each, prior draws lead to five.
CLIMBED_AGAIN = 4
MOST_RECOMBINED = 200

# The log of the mass of a mode, its place and its precision.
_Place = tuple[float, np.ndarray, np.ndarray]


def search_modes(
    space: RefinementSpace,
    prior: Any,
    cloud: Any,
    log_evidence: float,
    rng: np.random.Generator,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    trajectories: bool = False,
    likely: Any = None,
    everywhere: Everywhere | None = None,
) -> list[Mode]:
    """Return the modes of the posterior that climbs have reached, the heaviest first.

    Parameters
    ----------
    space
        Where to climb. Coordinates that are not in it, discrete ones say, are summed out or drawn.
    prior
        Particles drawn from the prior. Those with infinite coordinates are left out.
    cloud
        The final particles of all chains.
    log_evidence
        The estimate of log Z that they gave.
    rng
        For the choice of the starting points.
    score
        The gradient at points of the space, where that is quicker than differences; by default
        that of the space, if it has one.
    trajectories
        Whether to look for wide parts without a mode too (:mod:`pymc_arm.estimation.trajectories`).
        Particles that come from the prior have met them.
    likely
        Particles where modes may be, from which climbs start too.
    everywhere
        The density in all cells of a symmetric posterior, of which the space has one: climbs must
        not end at its walls.

    Returns
    -------
    list of Mode
        Empty if the space is too large to be searched.
    """
    space = space.fit_to(cloud)
    points = space.points(cloud)
    points = points[np.isfinite(points).all(axis=1)]
    dimension = points.shape[1] if points.size else 0
    if not dimension:
        return []
    has_gradient = score is not None or space.score(points[:2]) is not None
    if dimension > (LARGEST_DIMENSION if has_gradient else LARGEST_WITHOUT_GRADIENT):
        return []

    def in_space(at: np.ndarray) -> np.ndarray:
        # The same random numbers each time: where something is drawn, differences stay smooth.
        values = space.draw_log_ratio(np.random.default_rng(0), at)
        return np.where(~np.isfinite(values), -np.inf, values)

    def log_density(at: np.ndarray) -> np.ndarray:
        if everywhere is None:
            return in_space(at)
        values = everywhere.log_density(at)
        return np.where(~np.isfinite(values), -np.inf, values)

    fold = None if everywhere is None else everywhere.fold
    score = score if everywhere is None else everywhere.score

    with np.errstate(all="ignore"):
        share = min(1.0, space.proposals / 20)
        dispersed = space.points(prior)
        starts = find_starts(dispersed, points, log_density, rng, share, space.work)
        survey = Survey.of(dispersed, points, log_density, log_evidence)
        afforded = climbs_afforded(space.work)
        starts = np.concatenate([starts, survey.outstanding(afforded)])
        if likely is not None and len(likely):
            more = space.points(likely)
            starts = np.concatenate([starts, more[np.isfinite(log_density(more))]])
        scale = np.maximum(starts.std(axis=0), 1e-8)

        def gradient(at: np.ndarray) -> np.ndarray:
            if score is not None:
                return score(at)
            scores = space.score(at) if has_gradient else None
            if scores is None:
                return differences(log_density, at, 1e-5 * scale)
            return scores

        found = _climb_again(log_density, gradient, starts, scale, survey, space.work, rng, fold)
        settled = None
        if trajectories and has_gradient:
            settled = find_settled(log_density, gradient, dispersed, points, space.work, rng, fold)
    modes = [weigh(*mode, points, log_evidence) for mode in found]
    modes = [
        weigh_again(mode, in_space, log_evidence, rng) if mode.lacks else mode for mode in modes
    ]
    modes = weigh_together(modes, in_space, log_evidence, rng)
    if settled is not None:
        modes.append(weigh_settled(settled, points, in_space, log_evidence, rng))
    return sorted(modes, key=lambda mode: -mode.log_mass)


def _climb_again(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    scale: np.ndarray,
    survey: Survey,
    work: int | None,
    rng: np.random.Generator,
    fold: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[_Place]:
    """Climb, then from where the modes found leave most unexplained, and from between them.

    It ends when climbs lead to no new mode. Ends are taken to their images in a cell, if there is
    one.
    """
    afforded = climbs_afforded(work)
    between = min(MOST_RECOMBINED, afforded)
    lowest = -np.inf
    # The highest start is a particle: most climbs end at the mode next to it.
    first = starts[np.argmax(log_density(starts))] if len(starts) else None
    first = first if fold is None or first is None else fold(first[None])[0]
    main = None if first is None else _measure(log_density, gradient, first, scale, POLISHED)
    found: list[_Place] = [] if main is None else [main]
    known = 0
    for _ in range(1 + CLIMBED_AGAIN):
        arrived = _Arrived(found, log_density)
        margin = LOW + LOW_EACH * len(scale)
        lowest = max([lowest, *(arrived.heights - margin)])
        ends, heights = climb(log_density, gradient, starts, scale, arrived=arrived, lowest=lowest)
        ends = ends if fold is None else fold(ends)
        lowest = max(lowest, heights.max(initial=-np.inf) - margin)
        ends, heights = ends[heights > lowest], heights[heights > lowest]
        found = _distinct(log_density, gradient, ends, heights, scale, found)
        # Where climbs are dear, a single mode is taken for the only one.
        if len(found) == known or (len(found) == 1 and afforded < OUTSTANDING):
            break
        for place in found[known:]:
            survey = survey.explain(*place)
        known = len(found)
        starts = survey.outstanding(afforded)
        if len(found) > 1 and between:
            places = np.stack([place for _, place, _ in found])
            starts = np.concatenate([starts, recombine(places, between, rng)])
        starts = starts[np.isfinite(log_density(starts))] if len(starts) else starts
        if not len(starts):
            break
    return found


class _Arrived:
    """Which climbs are sure to end at a mode that is known.

    They are where ends are taken for that mode, and a step of Newton's method, with its
    curvature, gains what is left to it: at the foot of another mode slopes say something else.

    Parameters
    ----------
    places
        The modes.
    log_density
        For their heights.
    """

    def __init__(self, places: Sequence[_Place], log_density: LogDensity) -> None:
        self._places = [
            (place, precision, np.linalg.inv(precision)) for _, place, precision in places
        ]
        modes = np.array([place for place, *_ in self._places])
        self.heights = log_density(modes) if len(modes) else np.zeros(0)

    def __call__(self, points: np.ndarray, heights: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return which of the climbs have arrived."""
        there = np.zeros(len(points), dtype=bool)
        radius = 2 * scipy.special.gammaincinv(0.5 * points.shape[1], SAME_MODE)
        for (place, precision, inverse), height in zip(self._places, self.heights, strict=True):
            gain = 0.5 * np.einsum("si,si->s", slopes @ inverse, slopes)
            near = squared_distances(points, place, precision) < radius
            there |= near & (np.abs(heights + gain - height) < ARRIVED)
        return there


def _distinct(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    ends: np.ndarray,
    heights: np.ndarray,
    scale: np.ndarray,
    known: Sequence[_Place] = (),
) -> list[_Place]:
    """Return the modes that are known, and those others that climbs have ended at."""
    radius = 2 * scipy.special.gammaincinv(0.5 * ends.shape[1], SAME_MODE)
    found = list(known)
    looked_at = 0
    for index in np.argsort(heights)[::-1]:
        if not np.isfinite(heights[index]) or looked_at + len(known) >= MOST_MODES:
            break
        if any(squared_distances(ends[index][None], *other[1:])[0] < radius for other in found):
            continue
        looked_at += 1
        measured = _measure(log_density, gradient, ends[index], scale)
        if measured is None:
            continue
        if any(squared_distances(measured[1][None], *other[1:])[0] < radius for other in found):
            continue
        found.append(measured)
    return found


def _measure(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    mode: np.ndarray,
    scale: np.ndarray,
    enough: float = ARRIVED,
) -> _Place | None:
    """Return the log of the mass by Laplace's method, the place and the precision.

    None if the point is no mode, and a few Newton steps do not lead to one, where another would
    gain less than what is enough.
    """
    dimension = len(mode)
    height = log_density(mode[None])[0]
    for _ in range(NEWTON_STEPS):
        precision = _precision(log_density, gradient, mode, height, scale)
        if precision is None:
            return None
        slope = gradient(mode[None])[0]
        step = np.linalg.solve(precision, slope)
        if 0.5 * float(slope @ step) < enough:
            break
        new = mode + step
        new_height = log_density(new[None])[0]
        if not new_height > height:
            return None
        mode, height = new, new_height
    else:
        return None
    log_determinant = float(np.linalg.slogdet(precision)[1])
    log_mass = height + 0.5 * dimension * np.log(2 * np.pi) - 0.5 * log_determinant
    return float(log_mass), mode, precision


def _precision(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    mode: np.ndarray,
    height: float,
    scale: np.ndarray,
) -> np.ndarray | None:
    """Return minus the Hessian, by differences over steps of a few percent of the density."""
    dimension = len(mode)
    step = 1e-3 * scale
    for _ in range(40):
        ends = np.concatenate([mode + np.diag(step), mode - np.diag(step)])
        drop = (height - log_density(ends)).reshape(2, dimension).mean(axis=0)
        step = np.where(drop > 0.1, 0.5 * step, np.where(drop < 0.01, 1.7 * step, step))
        if np.all((drop >= 0.01) & (drop <= 0.1)):
            break
    ends = np.concatenate([mode + np.diag(step), mode - np.diag(step)])
    slopes = gradient(ends).reshape(2, dimension, dimension)
    precision = -(slopes[0] - slopes[1]) / (2 * step[:, None])
    precision = 0.5 * (precision + precision.T)
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
        return None
    return precision
