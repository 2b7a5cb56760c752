"""A search for what the particles may have missed: modes that hold mass but no particles.

Particles that never met a narrow mode can't tell that it is there, and chains then agree on a wrong
number. So after exploring the log-density is climbed, from prior draws, from dispersed points and
from the particles, and the mass of each summit is estimated by Laplace's method. A summit with a
good part of Z and without its part of the particles becomes a component of q, and draws of that
decide its mass (:mod:`pymc_arm.estimation.refine`). The search needs no randomness of the run, and
costs a few hundred evaluations of each of its starting points.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.approximation.covariance import shrink
from pymc_arm.estimation.climbs import climb, differences
from pymc_arm.estimation.spaces import RefinementSpace
from pymc_arm.estimation.starts import (
    OUTSTANDING,
    LogDensity,
    Survey,
    climbs_afforded,
    find_starts,
    recombine,
)
from pymc_arm.estimation.walks import distance_from_particles, find_settled

__all__ = ["MOST_SUMMITS", "Summit", "search_modes"]

# Without gradients a step takes two evaluations a coordinate; with them, the Hessian does.
LARGEST_WITHOUT_GRADIENT = 20
LARGEST_DIMENSION = 500
# Climbs in many dimensions end on ridges: each end that is looked at costs a Hessian.
MOST_SUMMITS = 40
# A climb has arrived if a Newton step would gain less than this, in nats; polished if it may.
ARRIVED = 0.1
NEWTON_STEPS = 3
# A summit matters if Laplace's method gives it this share of Z, and is missed if it holds next to
# none of the particles that it should. On a curved ridge the method is off by a factor of several;
# what is missed is weighed by draws of q, so that a summit too many costs time and no precision.
SMALLEST_SHARE = 0.01
MISSED = 0.05
# One that alone should have so many times the Z that was found lacks particles if it holds a
# smaller share than this: a few that met a mode late, of 90 % of Z, held 17 %.
EXCESS = 3.0
LACKING = 0.3
# Ends of climbs within this quantile of a summit's Gaussian are the same summit.
SAME_SUMMIT = 0.999
# The component of q at a summit is a little wider than Laplace's Gaussian, and has heavier tails:
# too wide by a tenth costs a tenth of the draws in ten dimensions, too narrow has no bound.
INFLATION = 1.1
SETTLED_DRAWS = 1000
# As long as climbs lead to new summits they begin anew, so many times at most: where those known
# explain least of what was looked at, and between them. Of the eight modes of three coordinates
# with a needle each, prior draws lead to five.
CLIMBED_AGAIN = 4
MOST_RECOMBINED = 200
FREEDOM = 10.0

# The log of the mass of a summit, its place and its precision.
_Place = tuple[float, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Summit:
    """A local maximum: the log of its mass, and the shares of Z and of the particles it holds.

    ``component`` is a density around it, in the space that was searched, and ``log_excess`` how far
    its mass alone is above the estimate of Z.
    """

    log_mass: float
    expected_share: float
    found_share: float
    component: SinhArcsinhStudent = field(repr=False, compare=False)
    log_excess: float = 0.0

    @property
    def missed(self) -> bool:
        """Whether it should hold many more particles than it does."""
        expected = self.expected_share
        least = LACKING if self.log_excess > np.log(EXCESS) else MISSED
        return bool(expected > SMALLEST_SHARE and self.found_share < least * expected)

    @property
    def lacks(self) -> bool:
        """Whether it is missed although it holds some particles."""
        return self.missed and self.found_share > 0


def search_modes(
    space: RefinementSpace,
    prior: Any,
    cloud: Any,
    log_evidence: float,
    rng: np.random.Generator,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    walk: bool = False,
    likely: Any = None,
) -> list[Summit]:
    """Return the summits of the posterior that climbs have reached, the heaviest first.

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
    walk
        Whether to look for wide parts without a summit too (:mod:`pymc_arm.estimation.walks`).
        Particles that come from the prior have met them.
    likely
        Particles where modes may be, from which climbs start too.

    Returns
    -------
    list of Summit
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

    def log_density(at: np.ndarray) -> np.ndarray:
        # The same random numbers each time: where something is drawn, differences stay smooth.
        values = space.draw_log_ratio(np.random.default_rng(0), at)
        return np.where(~np.isfinite(values), -np.inf, values)

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

        found = _climb_again(log_density, gradient, starts, scale, survey, space.work, rng)
        settled = None
        if walk and has_gradient:
            settled = find_settled(log_density, gradient, dispersed, points, space.work, rng)
    summits = [_weigh(*summit, points, log_evidence) for summit in found]
    summits = [
        _weigh_again(summit, log_density, log_evidence, rng) if summit.lacks else summit
        for summit in summits
    ]
    if settled is not None:
        summits.append(_weigh_settled(settled, points, log_density, log_evidence, rng))
    return sorted(summits, key=lambda summit: -summit.log_mass)


def _climb_again(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    scale: np.ndarray,
    survey: Survey,
    work: int | None,
    rng: np.random.Generator,
) -> list[_Place]:
    """Climb, then from where the summits found leave most unexplained, and from between them.

    It ends when climbs lead to no new summit.
    """
    found: list[_Place] = []
    afforded = climbs_afforded(work)
    between = min(MOST_RECOMBINED, afforded)
    for _ in range(1 + CLIMBED_AGAIN):
        ends, heights = climb(log_density, gradient, starts, scale)
        known = len(found)
        found = _distinct(log_density, gradient, ends, heights, scale, found)
        # Where climbs are dear, a single summit is taken for the only one.
        if len(found) == known or (len(found) == 1 and afforded < OUTSTANDING):
            break
        for place in found[known:]:
            survey = survey.explain(*place)
        starts = survey.outstanding(afforded)
        if len(found) > 1 and between:
            places = np.stack([place for _, place, _ in found])
            starts = np.concatenate([starts, recombine(places, between, rng)])
        starts = starts[np.isfinite(log_density(starts))] if len(starts) else starts
        if not len(starts):
            break
    return found


def _distinct(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    ends: np.ndarray,
    heights: np.ndarray,
    scale: np.ndarray,
    known: Sequence[_Place] = (),
) -> list[_Place]:
    """Return the summits that are known, and those others that climbs have ended at."""
    radius = 2 * scipy.special.gammaincinv(0.5 * ends.shape[1], SAME_SUMMIT)
    found = list(known)
    looked_at = 0
    for index in np.argsort(heights)[::-1]:
        if not np.isfinite(heights[index]) or looked_at + len(known) >= MOST_SUMMITS:
            break
        if any(_distances(ends[index][None], *other[1:])[0] < radius for other in found):
            continue
        looked_at += 1
        measured = _measure(log_density, gradient, ends[index], scale)
        if measured is None:
            continue
        if any(_distances(measured[1][None], *other[1:])[0] < radius for other in found):
            continue
        found.append(measured)
    return found


def _distances(points: np.ndarray, summit: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return squared Mahalanobis distances from a summit."""
    centered = points - summit
    squared: np.ndarray = np.einsum("si,si->s", centered @ precision, centered)
    return squared


def _measure(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    summit: np.ndarray,
    scale: np.ndarray,
) -> _Place | None:
    """Return the log of the mass by Laplace's method, the place and the precision.

    None if the point is no summit, and a few Newton steps do not lead to one.
    """
    dimension = len(summit)
    height = log_density(summit[None])[0]
    for _ in range(NEWTON_STEPS):
        precision = _precision(log_density, gradient, summit, height, scale)
        if precision is None:
            return None
        slope = gradient(summit[None])[0]
        step = np.linalg.solve(precision, slope)
        if 0.5 * float(slope @ step) < ARRIVED:
            break
        new = summit + step
        new_height = log_density(new[None])[0]
        if not new_height > height:
            return None
        summit, height = new, new_height
    else:
        return None
    log_determinant = float(np.linalg.slogdet(precision)[1])
    log_mass = height + 0.5 * dimension * np.log(2 * np.pi) - 0.5 * log_determinant
    return float(log_mass), summit, precision


def _precision(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    summit: np.ndarray,
    height: float,
    scale: np.ndarray,
) -> np.ndarray | None:
    """Return minus the Hessian, by differences over steps of a few percent of the density."""
    dimension = len(summit)
    step = 1e-3 * scale
    for _ in range(40):
        ends = np.concatenate([summit + np.diag(step), summit - np.diag(step)])
        drop = (height - log_density(ends)).reshape(2, dimension).mean(axis=0)
        step = np.where(drop > 0.1, 0.5 * step, np.where(drop < 0.01, 1.7 * step, step))
        if np.all((drop >= 0.01) & (drop <= 0.1)):
            break
    ends = np.concatenate([summit + np.diag(step), summit - np.diag(step)])
    slopes = gradient(ends).reshape(2, dimension, dimension)
    precision = -(slopes[0] - slopes[1]) / (2 * step[:, None])
    precision = 0.5 * (precision + precision.T)
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
        return None
    return precision


def _weigh(
    log_mass: float,
    summit: np.ndarray,
    precision: np.ndarray,
    points: np.ndarray,
    log_evidence: float,
) -> Summit:
    """Compare the share of Z that a summit should have with its share of the particles."""
    # Within 99 % of a Gaussian: the quantile of chi-squared.
    radius = 2 * scipy.special.gammaincinv(0.5 * len(summit), 0.99)
    found = float(np.mean(_distances(points, summit, precision) < radius))
    expected = float(np.exp(log_mass - np.logaddexp(log_mass, log_evidence)))
    # A summit that is all of Z has as much mass as Z itself, not in addition to it.
    if found > 0:
        expected = min(1.0, float(np.exp(min(log_mass - log_evidence, 0.0))))
    excess = log_mass - log_evidence
    return Summit(log_mass, expected, found, _component(summit, precision), excess)


def _weigh_again(
    summit: Summit, log_density: LogDensity, log_evidence: float, rng: np.random.Generator
) -> Summit:
    """Return a summit with its mass by importance, if that is smaller than Laplace's.

    On a closed ridge, a ring say, Laplace's method goes on along the tangent, and finds many times
    Z. The mean of f / q over draws of the component is not above Z but by chance.
    """
    draws = summit.component.draw(rng, SETTLED_DRAWS)
    by_draws = log_mean_exp(log_density(draws) - summit.component.log_density(draws))
    log_mass = min(summit.log_mass, float(by_draws))
    expected = min(1.0, float(np.exp(min(log_mass - log_evidence, 0.0))))
    return replace(
        summit, log_mass=log_mass, expected_share=expected, log_excess=log_mass - log_evidence
    )


def _weigh_settled(
    component: SinhArcsinhStudent,
    points: np.ndarray,
    log_density: LogDensity,
    log_evidence: float,
    rng: np.random.Generator,
) -> Summit:
    """Return a part of the posterior where walks have settled, with its mass by importance.

    Only what is away from the particles counts: walks that have settled on both sides of them give
    a density that covers them too.
    """
    draws = component.draw(rng, SETTLED_DRAWS)
    ratio = log_density(draws) - component.log_density(draws)
    ratio = np.where(distance_from_particles(draws, points) > 1, ratio, -np.inf)
    log_mass = float(log_mean_exp(ratio))
    expected = float(np.exp(log_mass - np.logaddexp(log_mass, log_evidence)))
    return Summit(log_mass, expected, 0.0, component)


def _component(summit: np.ndarray, precision: np.ndarray) -> SinhArcsinhStudent:
    """Return a Student-t around a summit, a little wider than Laplace's Gaussian."""
    dimension = len(summit)
    covariance = np.linalg.inv(precision)
    covariance = shrink(0.5 * (covariance + covariance.T), 0.0)
    try:
        factor = INFLATION * np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # a ridge that rounding has flattened: widths alone
        factor = np.diag(INFLATION / np.sqrt(np.diag(precision)))
    zeros, ones = np.zeros(dimension), np.ones(dimension)
    # Without skew and with tails as they are, coordinates are centred at the summit, and not bent.
    return SinhArcsinhStudent(summit, ones, zeros, ones, zeros, factor, FREEDOM)
