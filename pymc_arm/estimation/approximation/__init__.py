"""Densities fitted to a cloud of draws: a Student-t with skewed marginals, a funnel, or a mixture.

They serve the bridge of :mod:`pymc_arm.estimation.refine`, so they have to be normalised, easy to
draw from, and somewhat wider than the posterior rather than narrower.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pymc_arm.algorithm.resampling import effective_share
from pymc_arm.estimation.approximation.combined import Combined
from pymc_arm.estimation.approximation.funnel import FunnelStudent, find_driving_coordinate
from pymc_arm.estimation.approximation.mixture import Mixture
from pymc_arm.estimation.approximation.student import SinhArcsinhStudent

__all__ = ["Approximation", "Combined", "FunnelStudent", "Mixture", "SinhArcsinhStudent", "fit"]

# Above this share of effective draws, a single component is good enough.
GOOD_OVERLAP = 0.4
LARGEST_COMPONENTS = 4
TRIAL_DRAWS = 500
LARGEST_FIT = 3000


class Approximation(Protocol):
    """A normalised density to draw from."""

    @property
    def components(self) -> int:
        """The number of components."""

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""


Fit = Callable[[np.ndarray, np.ndarray | None], Approximation]


def fit(
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    points: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray | None] = lambda points: None,
) -> Approximation:
    """Fit a bent Student-t; if draws from it fit badly, the mixture that predicts best."""
    size, dimension = points.shape
    points = points if size <= LARGEST_FIT else points[rng.permutation(size)[:LARGEST_FIT]]
    scores = score(points) if len(points) > 2 * dimension else None
    fits = _single_fits(find_driving_coordinate(points), scores is not None)
    singles = [single(points, scores) for single in fits]
    overlaps = [_overlap(log_density, rng, single) for single in singles]
    best = int(np.argmax(overlaps))
    if overlaps[best] > GOOD_OVERLAP:
        return singles[best]
    order = rng.permutation(len(points))
    cut = 2 * len(order) // 3
    training, held_out = points[order[:cut]], points[order[cut:]]
    single = fits[best](training, None if scores is None else scores[order[:cut]])
    scored = [float(np.mean(single.log_density(held_out)))]
    for components in range(2, LARGEST_COMPONENTS + 1):
        enough = len(training) > 10 * components * (dimension + 1)
        scored.append(_mixture_score(training, held_out, components) if enough else -np.inf)
    # A mixture must be clearly better: it has more to get wrong.
    scored[0] += 0.02
    winner = int(np.argmax(scored))
    if winner == 0:
        return singles[best]
    return Mixture.fit(points, winner + 1, np.random.default_rng(winner))


def _single_fits(driver: int | None, scored: bool) -> list[Fit]:
    """Return the ways to fit a single component, to points and scores if there are."""
    fits: list[Fit] = [lambda points, scores: SinhArcsinhStudent.fit(points)]
    if scored:
        fits += [
            lambda points, scores: SinhArcsinhStudent.fit(points, scores),
            # Bends of strongly correlated coordinates do more harm than good.
            lambda points, scores: SinhArcsinhStudent.fit(points, scores, bend=False),
        ]
    if driver is not None:
        fits.append(lambda points, scores: FunnelStudent.fit(points, driver))
    if driver is not None and scored:
        fits.append(lambda points, scores: FunnelStudent.fit(points, driver, scores))
    return fits


def _overlap(
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    approximation: Approximation,
) -> float:
    """Return the effective share of a few draws as importance samples of the posterior."""
    trial = approximation.draw(rng, TRIAL_DRAWS)
    return effective_share(log_density(trial) - approximation.log_density(trial))


def _mixture_score(training: np.ndarray, held_out: np.ndarray, components: int) -> float:
    try:
        mixture = Mixture.fit(training, components, np.random.default_rng(components))
    except np.linalg.LinAlgError:
        return -np.inf
    return float(np.mean(np.maximum(mixture.log_density(held_out), -1e6)))
