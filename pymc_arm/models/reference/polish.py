"""A better reference in few dimensions: mixtures fitted to weighted draws.

A posterior that is bent or skewed is no Student-t, but in few dimensions a mixture of several comes
near it. Draws of the present q, weighed, show where; they need no gradient, and where the mixture
fits, the run needs no moves (Cappe et al. 2008, adaptive importance sampling).
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from pymc_arm.algorithm.resampling import SCHEMES, effective_share, log_mean_exp, normalize
from pymc_arm.estimation.approximation.mixture import Mixture
from pymc_arm.models.reference.density import Component, StudentMixture

__all__ = ["LARGEST_POLISHED", "polish"]

# In more dimensions a mixture takes more draws than moves do.
LARGEST_POLISHED = 8
# With 2000 draws the fit lacked tails: in three dimensions an overlap of 0.4 seemed to be 0.7.
DRAWS = 4000
ROUNDS = 4
# Components, and how many effective draws each of them needs for each dimension.
MOST_COMPONENTS = 6
EFFECTIVE_EACH = 8
# Components for points that are shown: they are few, and draws tell more.
SHOWN_COMPONENTS = 2
# Each is a Student-t, a little wider than its points; the q before keeps a share, so that no weight
# becomes larger than it was by more than a factor of five.
FREEDOM = 8.0
INFLATION = 1.15
KEPT = 0.2


class Target(Protocol):
    """What a mixture is fitted to: a chart, or a part of one."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points."""


def polish(
    rng: np.random.Generator,
    chart: Target,
    mixture: StudentMixture,
    enough: float,
    shown: np.ndarray | None = None,
) -> tuple[StudentMixture, float, float, int]:
    """Return a mixture that fits better, if one is found.

    Parameters
    ----------
    rng
        For the draws.
    chart
        The target.
    mixture
        The reference in it.
    enough
        The effective share of draws at which to stop.
    shown
        Points of the target that did not come from the mixture, and may be where it has no draws.

    Returns
    -------
    mixture
        The best that was found; the one that was given, with what points show, if none is better.
    overlap, log_evidence
        The effective share of fresh draws of it, and what they estimate.
    evaluations
        Of the log-density.
    """
    if shown is not None:
        mixture = _combine(Mixture.fit(shown, SHOWN_COMPONENTS, rng), mixture)
    draws, ratio = _weigh(rng, chart, mixture)
    best = present = mixture, effective_share(ratio), float(log_mean_exp(ratio))
    evaluations = DRAWS
    for _ in range(ROUNDS):
        if present[1] > enough:
            break
        effective = present[1] * DRAWS
        components = int(effective // (EFFECTIVE_EACH * mixture.dimension))
        if components < 1:
            break
        points = draws[SCHEMES["systematic"](rng, normalize(ratio), DRAWS)]
        try:
            fitted = Mixture.fit(points, min(components, MOST_COMPONENTS), rng)
        except np.linalg.LinAlgError:
            break
        draws, ratio = _weigh(rng, chart, combined := _combine(fitted, mixture))
        evaluations += DRAWS
        before = present[1]
        present = combined, effective_share(ratio), float(log_mean_exp(ratio))
        best = max(best, present, key=lambda each: each[1])
        if present[1] < before:
            break
    return *best, evaluations


def _weigh(
    rng: np.random.Generator, chart: Target, mixture: StudentMixture
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws, and log f - log q at them."""
    draws = mixture.draw(rng, DRAWS)
    with np.errstate(invalid="ignore"):
        ratio = chart.log_density(draws) - mixture(draws)[0]
    return draws, np.where(np.isnan(ratio), -np.inf, ratio)


def _combine(fitted: Mixture, kept: StudentMixture) -> StudentMixture:
    """Return Student-t at the components of a fit, with a share of the mixture before."""
    width = INFLATION * np.sqrt((FREEDOM - 2) / FREEDOM)
    log_weights = fitted.log_weights - np.logaddexp.reduce(fitted.log_weights)
    new = [
        Component(float(log_weight) + np.log1p(-KEPT), mean, width * factor, FREEDOM)
        for log_weight, mean, factor in zip(log_weights, fitted.means, fitted.factors, strict=True)
    ]
    old = [replace(part, log_weight=part.log_weight + np.log(KEPT)) for part in kept.components]
    return StudentMixture((*new, *old))
