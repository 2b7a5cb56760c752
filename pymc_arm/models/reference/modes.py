"""Where a posterior is, found by climbing from prior draws.

Several starting points climb together. The mode gives a Gaussian by Laplace's method, unless
the density has no bound: then the best of the places where the climb paused does, as the lower
bound on the evidence tells (the idea of Pathfinder; Zhang et al., 2022).
"""

from collections.abc import Callable

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.laplace import STEPS, Laplace, climb, laplace
from pymc_arm.models.reference.noise import is_noise
from pymc_arm.models.reference.optimize import maximize
from pymc_arm.models.reference.target import View

__all__ = ["find_modes", "prior_spread"]

# The climbs pause after so many steps in all; each pause is a candidate.
PAUSES = (5, 10, 20, 40)
# Starts besides prior draws, and how far from zero: as Stan starts, in unbounded coordinates.
NEAR_STARTS, NEAR = 4, 2.0
# A climb has ended at a mode if another step would gain less, in nats.
REACHED = 0.1
# The relative error of a slope from which on values are noise. Third derivatives give errors of
# the square of the step, 1e-6.
UNSOUND = 0.05
# Hessians larger than this are not tried at every pause.
LARGEST_SEARCH = 600
# Draws that tell which candidate is best.
CANDIDATE_DRAWS = 40
# How many modes are kept, and how much less log-mass than the first one may have: a component
# of e^-12 of Z does not matter, and Laplace's masses are off by a few nats.
LARGEST_COMPONENTS, SMALLEST_MASS = 4, -12.0
# Where images count as one, other modes are few, and of little mass: of eight well-separated
# components, 800 values, the third mode had e^-12 of the first.
MORE_COMPONENTS = 12


FindFold = Callable[[Laplace], Callable[[np.ndarray], np.ndarray] | None]


def prior_spread(view: View, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle of the prior and its half width, in a view."""
    points = view.from_model(prior)[0]
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        raise PathError("No prior draw is finite.")
    low, middle, high = np.quantile(points, [0.16, 0.5, 0.84], axis=0)
    return middle, np.clip(0.5 * (high - low), 1e-8, 1e8)


def find_modes(
    rng: np.random.Generator,
    view: View,
    prior: np.ndarray,
    center: np.ndarray,
    scale: np.ndarray,
    starts: int,
    find_fold: FindFold | None = None,
) -> tuple[list[Laplace], int, bool]:
    """Climb from prior draws and from near zero; return a Gaussian for each mode, best first.

    Also how many gradients that took, and whether there are more modes than are kept. Where
    ``find_fold`` returns, for the first mode, a function that takes points to their images near
    it, modes that are images of each other count as one.
    """
    points = view.from_model(prior)[0]
    points = points[np.isfinite(points).all(axis=1)][:starts]
    # Draws of a vague prior (a precision of e^-700) may all be where nothing is known.
    points = np.concatenate([points, view.near_zero(rng, NEAR_STARTS, NEAR)])
    # Where logits overflow there is no gradient: nearer to the middle there is.
    values = view(points)[0]
    for nearer in (0.3, 0.1, 0.03, 0.01, 0.0):
        wrong = ~np.isfinite(values)
        if not wrong.any():
            break
        points[wrong] = center + nearer * (points[wrong] - center)
        values[wrong] = view(points[wrong])[0]
    points = points[np.isfinite(values)]
    if not len(points):
        raise PathError("No prior draw has a gradient of the log-density.")
    evaluations, done, candidates = len(points), 0, []
    for pause in PAUSES:
        ended = maximize(view, points, scale, pause - done)
        noise = is_noise(view.log_density, ended.points, ended.values, scale)
        kept = ~noise if not noise.all() else noise
        evaluations, points, done = evaluations + ended.evaluations, ended.points[kept], pause
        evaluations += len(noise)
        best = int(np.argmax(ended.values[kept]))
        candidates.append(points[best])
    main = climb(view, points[best], scale)
    evaluations += main.evaluations
    found = [main]
    if main.gain > REACHED or len(scale) <= LARGEST_SEARCH or not _is_sound(rng, view, main):
        tried = [laplace(view, point, scale) for point in candidates[:-1]]
        evaluations += sum(each.evaluations for each in tried)
        tried = [main, *tried]
        bounds = [_lower_bound(rng, view, each) for each in tried]
        main = tried[int(np.argmax(bounds))]
        found = [main]
    fold = None if find_fold is None else find_fold(main)
    if main.gain > REACHED:  # there is no mode to compare others with
        return found, evaluations, False
    points = points if fold is None else fold(points)
    # The other starts go on in coordinates that the first mode whitens, which takes few steps.
    chart = Chart(view, main.mean, main.factor)
    ended = maximize(chart, chart.from_view(points), np.ones(len(scale)), STEPS)
    evaluations += ended.evaluations
    points = chart.to_view(ended.points)
    points = points if fold is None else fold(points)
    most = LARGEST_COMPONENTS if fold is None else MORE_COMPONENTS
    crowded, budget = False, 2 * evaluations
    for index in np.argsort(ended.values)[::-1]:
        if evaluations > budget:  # where Hessians are dear, few starts are followed to an end
            break
        if len(found) == most:
            high = ended.values[index] > ended.values.max() + 2 * SMALLEST_MASS
            crowded |= bool(high) and _is_new(points[index], found)
            continue
        if np.isfinite(ended.values[index]) and _is_new(points[index], found):
            other = climb(view, points[index], scale)
            evaluations += other.evaluations
            if fold is not None and (fold(other.mean[None])[0] != other.mean).any():
                other = laplace(view, fold(other.mean[None])[0], scale)
                evaluations += other.evaluations
            if other.gain < REACHED and _is_new(other.mean, found):
                found.append(other)
    largest = max(each.log_mass for each in found)
    found = [each for each in found if each.log_mass > largest + SMALLEST_MASS]
    return sorted(found, key=lambda each: -each.log_mass), evaluations, crowded


def _is_new(point: np.ndarray, found: list[Laplace]) -> bool:
    """Whether a point lies far outside of all Gaussians so far."""
    limit = 4 * len(point) + 30
    return all(
        (np.linalg.solve(each.factor, point - each.mean) ** 2).sum() > limit for each in found
    )


def _is_sound(rng: np.random.Generator, view: View, found: Laplace) -> bool:
    """Whether gradients around a mode agree with differences of the values.

    They do not where digits cancel, which is where climbs of a density without a bound end: the
    evidence of a hierarchy of beta distributions was e^21114 there.
    """
    noise = rng.normal(size=(2, CANDIDATE_DRAWS, len(found.mean)))
    points, step = found.mean + noise[0] @ found.factor.T, 1e-3 * noise[1] @ found.factor.T
    gradients = view(points)[1]
    difference = 0.5 * (view(points + step)[0] - view(points - step)[0])
    slope = (gradients * step).sum(axis=1)
    error = np.abs(difference - slope) / np.maximum(np.abs(slope), 1e-6)
    return bool(np.isfinite(error).any() and np.nanmedian(error) < UNSOUND)


def _lower_bound(rng: np.random.Generator, view: View, found: Laplace) -> float:
    """Return the evidence lower bound of a Gaussian, with far draws cut off."""
    if not _is_sound(rng, view, found):
        return -np.inf
    noise = rng.normal(size=(CANDIDATE_DRAWS, len(found.mean)))
    log_q = -0.5 * (noise**2).sum(axis=1) - 0.5 * len(found.mean) * np.log(2 * np.pi)
    log_q -= np.linalg.slogdet(found.factor)[1]
    ratio = view.log_density(found.mean + noise @ found.factor.T) - log_q
    middle = np.median(ratio)
    return float(np.mean(np.maximum(ratio, middle - 50))) if np.isfinite(middle) else -np.inf
