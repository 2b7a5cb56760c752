"""Old draws that are weighed by new data, as they are or after moving all of them alike.

Where new data moves the posterior further than its draws can follow, a shift and a stretch of all
draws makes their weights even again: *importance weighted moment matching* (Paananen, Piironen,
Bürkner and Vehtari, 2021). With T(x) = m + A (x - m_old) the mean over old draws of

    f(T(x)) |A| / f_old(x)

is Z / Z_old, whatever T is; m and A are from the weighted draws of the other chains. It takes some
evaluations of the density at each draw, where a density q or moves take hundreds.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.resampling import (
    SCHEMES,
    effective_sample_size,
    log_mean_exp,
    normalize,
    variance_of_mean,
)
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.estimation.bridge import Bridge, importance
from pymc_arm.estimation.convergence import LARGEST_PARETO_K, pareto_k
from pymc_arm.estimation.estimate import Estimates
from pymc_arm.results import estimate_chains
from pymc_arm.running.chains import Chain
from pymc_arm.running.given import Part

__all__ = ["Start", "UpdatedChains", "by_moments", "by_weights", "resample", "single_step"]

# Weights alone serve as long as they leave so many independent draws, or this share of what was
# given if that is less. With 1000 of them a tenth of new data costs an error of 0.02 or so in log
# Z, and quantiles need 400 (Vehtari and others, 2021). Twice as many: draws are renewed twice as
# often, and a renewal costs about as much as a fresh run.
ENOUGH, ENOUGH_SHARE = 1000, 0.25
RESAMPLING = "residual"
# What is matched, one after the other: each is kept if it leaves more effective draws. The second
# time means are good to what more draws tell.
MATCHED = ("mean", "variances", "covariance", "covariance")
# With this share effective there is no more to gain: of 0.7 the error is that of 2.3 times as few
# draws of a posterior, which is a few hundredths.
GOOD_FRACTION = 0.7
# Fewer effective draws than so many a dimension do not tell a covariance, and fewer than this in
# all do not tell a mean.
PER_DIMENSION, FEWEST = 2, 20


@dataclass(frozen=True)
class UpdatedChains:
    """The chains at the new posterior, and what is known of how they got there."""

    chains: list[Chain]
    estimates: Estimates
    updated_by: str
    independent: float
    survivors: float
    memory: float = np.nan
    #: log f - log f_old at the particles, where weights alone have carried them.
    log_ratios: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Start:
    """The old draws in parts, log f - log f_old at them, and log Z of the old data.

    ``independent`` is how many independent draws they are worth, all together, and ``dependence``
    how many draws make an independent one, besides what their families tell. ``matched`` says that
    the draws were moved, and that the ratios are the weights of where they are now.
    """

    parts: Sequence[Part]
    log_ratios: Sequence[np.ndarray]
    log_evidence: float
    independent: float
    dependence: float
    matched: bool = False

    @property
    def size(self) -> int:
        """The number of draws."""
        return sum(len(ratio) for ratio in self.log_ratios)

    @property
    def effective_fraction(self) -> float:
        """The share of the draws that the new data leaves."""
        return effective_sample_size(np.concatenate(self.log_ratios)) / self.size

    @property
    def suffices(self) -> bool:
        """Whether weights alone leave enough draws, and no few of them decide."""
        left = self.independent * self.effective_fraction
        heavy = pareto_k(np.concatenate(self.log_ratios)) >= LARGEST_PARETO_K
        return left >= min(ENOUGH, ENOUGH_SHARE * self.size) and not heavy


def by_weights(
    path: Any, start: Start, rng: np.random.Generator, updated_by: str = "weights"
) -> UpdatedChains:
    """Weigh and resample each chain."""
    chains, ratios = [], []
    for part, ratio, own in zip(
        start.parts, start.log_ratios, rng.spawn(len(start.parts)), strict=True
    ):
        since = time.perf_counter()
        weighed = importance(ratio)
        values = np.expm1(np.where(np.isfinite(ratio), ratio, -np.inf) - weighed.log_evidence)
        sums = np.bincount(part.blocks, weights=values) / len(ratio)
        variance = max(float(sums @ sums), weighed.variance * start.dependence)
        bridge = replace(
            weighed,
            log_evidence=start.log_evidence + weighed.log_evidence,
            variance=variance,
            cloud_variance=variance,
            bridge_k=weighed.weight_k,
            method="ladder",
        )
        indices = resample(own, ratio)
        particles, families = part.points[indices], part.blocks[indices]
        chain = single_step(path, particles, families, bridge, ratio, start.log_evidence)
        ratios.append(ratio[indices])
        draws = path.posterior(own, particles)
        chains.append(replace(chain, draws=draws, seconds=time.perf_counter() - since))
    left = start.effective_fraction
    survivors = left * start.size
    independent = start.independent * left
    return UpdatedChains(
        chains, estimate_chains(chains), updated_by, independent, survivors, log_ratios=ratios
    )


def by_moments(path: Any, start: Start, rng: np.random.Generator) -> UpdatedChains | None:
    """Move all draws so that weights leave enough of them; None where that can't be done."""
    matched = match_moments(path, start)
    return by_weights(path, matched, rng, "moments") if matched.suffices else None


def match_moments(path: Any, start: Start) -> Start:
    """Return moved draws, and weights of the new posterior at them.

    Parameters
    ----------
    path
        With ``log_density`` and ``old_log_density``, over continuous coordinates.
    start
        The draws where they were.
    """
    best, count = start, len(start.parts)
    if count < 2:
        return start
    before = [path.old_log_density(part.points) for part in start.parts]
    for what in MATCHED:
        parts, ratios = [], []
        for number, part in enumerate(start.parts):
            others = [k for k in range(count) if k != number]
            old, new = (
                np.concatenate([every[k].points for k in others])
                for every in (start.parts, best.parts)
            )
            move = _affine(old, new, np.concatenate([best.log_ratios[k] for k in others]), what)
            if move is None:
                return best
            points = move.mean + (part.points - move.origin) @ move.factor.T
            parts.append(Part(points, part.blocks))
            ratios.append(path.log_density(points) + move.log_volume - before[number])
        moved = replace(best, parts=parts, log_ratios=ratios, matched=True)
        if moved.effective_fraction > best.effective_fraction:
            best = moved
        if best.effective_fraction >= GOOD_FRACTION:
            break
    return best


@dataclass(frozen=True)
class _Affine:
    """x becomes mean + factor (x - origin)."""

    origin: np.ndarray
    mean: np.ndarray
    factor: np.ndarray

    @property
    def log_volume(self) -> float:
        """The logarithm of the determinant of the factor."""
        return float(np.linalg.slogdet(self.factor)[1])


def _affine(
    old: np.ndarray, points: np.ndarray, log_weights: np.ndarray, what: str
) -> _Affine | None:
    """Return what takes the moments of old draws to those of weighted points, if these tell."""
    dimension, effective = old.shape[1], effective_sample_size(log_weights)
    needed = PER_DIMENSION * dimension if what == "covariance" else 0
    if effective < max(FEWEST, needed):
        return None
    weights = np.exp(normalize(log_weights))
    mean, origin = weights @ points, old.mean(axis=0)
    factor = np.eye(dimension)
    if what == "variances":
        wide = old.std(axis=0)
        if not (wide > 0).all():
            return None
        factor = np.diag(np.sqrt(weights @ (points - mean) ** 2) / wide)
    elif what == "covariance":
        try:
            narrow, wide = (
                np.linalg.cholesky((deviations * share[:, None]).T @ deviations)
                for deviations, share in (
                    (points - mean, weights),
                    (old - origin, np.full(len(old), 1 / len(old))),
                )
            )
        except np.linalg.LinAlgError:  # a coordinate that does not vary
            return None
        factor = np.linalg.solve(wide.T, narrow.T).T
    return _Affine(origin, mean, factor)


def resample(rng: np.random.Generator, log_ratio: np.ndarray) -> np.ndarray:
    """Return which draws to keep, in their order in time, with copies next to each other."""
    scheme = SCHEMES[RESAMPLING]
    return np.sort(scheme(rng, normalize(log_ratio), len(log_ratio)))


def single_step(
    path: Any,
    particles: np.ndarray,
    founders: np.ndarray,
    bridge: Bridge,
    log_ratio: np.ndarray,
    log_evidence: float,
) -> Chain:
    """Return a chain of one step, in which all new data came in."""
    size = len(log_ratio)
    equal = np.full(size, -np.log(size))
    increment = log_mean_exp(log_ratio)
    fraction = effective_sample_size(log_ratio) / size
    info = Info(
        introduced="new data",
        effective_fraction=fraction,
        first_effective_fraction=fraction,
        particles=size,
        rounds=0,
        log_increment=increment,
        increment_variance=1 / fraction - 1,
        predicted_variance=variance_of_mean(equal, log_ratio),
        log_evidence=log_evidence + increment,
        acceptance_rate=np.nan,
        kernel_calls=0,
        resampled=True,
        distinct_fraction=1.0,
    )
    last = path.last
    genealogy = Genealogy.of(size, bridge.variance)
    state = State(last, particles, equal, info.log_evidence, np.arange(size), genealogy, 1)
    run = Run(state, (info,), (path.start, last))
    return Chain(run, particles, {}, 0.0, founders, bridge)
