"""The generate loop that Algorithm 2 adds, and three ways to fill it (sections 3.1 and 3.2).

While the effective fraction gamma = R_eff / R_n is below the threshold, and for at most i_max
rounds, a generator hands over new particles that target p_n; they join the set with weights in
proportion to their number (Proposition 1), and the whole set is smoothed. The set starts empty, so
that after i rounds of ARM there are R_n = iR particles.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_arm.algorithm.path import Particles, Path, Position, Proposal, Smoothed
from pymc_arm.algorithm.resampling import (
    effective_sample_size,
    log_sum_exp,
    normalize,
    variance_of_mean,
)
from pymc_arm.algorithm.settings import Settings

__all__ = ["Base", "Generated", "generate"]

# At least so many reseeded particles in a round, so that they represent p_n (section 5.1).
FEWEST_RESEEDED = 100


class Base(NamedTuple):
    """The particles a step starts from, with normalised log-weights, and where it leads."""

    position: Position
    following: Position
    particles: Particles
    log_weights: np.ndarray


class Batch(NamedTuple):
    """New particles that target p_n; ``origins`` are their indices in the base."""

    particles: Particles
    log_weights: np.ndarray
    smoothed: Smoothed
    origins: np.ndarray
    acceptance_rate: float
    kernel_calls: int
    autocorrelation: float = np.nan


@dataclass(frozen=True)
class Generated:
    """All particles of a step, chi, with weights rho, as they are to be reweighted by W.

    The first ``unmoved`` of them are those the step began with.
    """

    particles: Particles
    log_weights: np.ndarray
    log_ratio: np.ndarray
    proposal: Proposal
    origins: np.ndarray
    rounds: int
    acceptance_rate: float
    kernel_calls: int
    first_effective_fraction: float
    unmoved: int
    autocorrelation: float

    @property
    def increment_variance(self) -> float:
        """v_n-hat, the variance of W / E[W] under the weights (Theorem 1)."""
        log_mean = log_sum_exp(self.log_ratio + self.log_weights)
        if not np.isfinite(log_mean):
            return np.inf
        log_square = log_sum_exp(2 * self.log_ratio + self.log_weights)
        return max(float(np.expm1(log_square - 2 * log_mean)), 0.0)

    @property
    def predicted_variance(self) -> float:
        """Variance of log m_n, sum rho^2 (W / m_n - 1)^2; v_n-hat / R_n if weights are equal."""
        return variance_of_mean(self.log_weights, self.log_ratio)


def generate(
    path: Path,
    rng: np.random.Generator,
    base: Base,
    smoothed: Smoothed,
    settings: Settings,
) -> Generated:
    """Expand the particle set until gamma reaches the threshold, or i_max rounds are done."""
    count = len(base.log_weights)
    old = Batch(base.particles, base.log_weights, smoothed, np.arange(count), np.nan, 0)
    first_fraction = fraction = _effective_fraction([old])
    if settings.variant == "rm" or not fraction < settings.threshold or not settings.max_rounds:
        return _merge(path, [old], 0, first_fraction)

    # Reseeded particles are added to the old ones; moved ones take their place.
    batches = [old] if settings.variant == "reseed" else []
    rounds = 0
    while fraction < settings.threshold and rounds < settings.max_rounds:
        if settings.variant == "reseed":
            batch = _reseed(path, rng, base, fraction, settings)
        else:
            batch = _repeat(path, rng, base, smoothed, split=settings.variant == "anticipate")
            base, smoothed = _representatives(path, base, batch)
        batches.append(batch)
        rounds += 1
        fraction = _effective_fraction(batches)
    return _merge(path, batches, rounds, first_fraction)


def _repeat(
    path: Path, rng: np.random.Generator, base: Base, smoothed: Smoothed, *, split: bool
) -> Batch:
    """Copy the base and move it (ARM).

    With ``split``, particles that matter under p_{n+1} are first divided into N_r = floor(R w_r)
    copies that share their weight, so that the set still targets p_n (ARM-anticipate).
    """
    count = len(base.log_weights)
    copies = np.ones(count, dtype=np.int64)
    ahead = smoothed.log_ratio + base.log_weights
    if split and np.max(ahead) > -np.inf:
        copies = np.maximum(copies, np.floor(count * np.exp(normalize(ahead))).astype(np.int64))
    origins = np.repeat(np.arange(count), copies)
    log_weights = (base.log_weights - np.log(copies))[origins]
    moved = path.move(rng, base.position, path.select(base.particles, origins))
    smoothed = path.smooth(rng, base.following, moved.particles)
    return Batch(
        moved.particles,
        log_weights,
        smoothed,
        origins,
        moved.acceptance_rate,
        len(origins),
        moved.autocorrelation,
    )


def _representatives(path: Path, base: Base, batch: Batch) -> tuple[Base, Smoothed]:
    """Return the next base: of each particle its first moved copy, with its whole weight."""
    first = np.searchsorted(batch.origins, np.arange(len(base.log_weights)))
    if len(first) == len(batch.origins):
        return base._replace(particles=batch.particles), batch.smoothed
    smoothed = Smoothed(
        batch.smoothed.log_ratio[first], path.select(batch.smoothed.proposal, first)
    )
    return base._replace(particles=path.select(batch.particles, first)), smoothed


def _reseed(
    path: Path, rng: np.random.Generator, base: Base, fraction: float, settings: Settings
) -> Batch:
    """Draw S = max((1 - gamma / gamma_thr) R, 100) particles from another sampler (ARM-reseed)."""
    count = len(base.log_weights)
    size = max(int((1 - fraction / settings.threshold) * count), FEWEST_RESEEDED)
    particles = path.reseed(rng, base.position, size)
    smoothed = path.smooth(rng, base.following, particles)
    # A new particle founds no line of its own: it is counted with a random one of the old set.
    origins = rng.integers(count, size=size)
    return Batch(particles, np.full(size, -np.log(size)), smoothed, origins, np.nan, size)


def _shared_log_weights(batches: list[Batch]) -> np.ndarray:
    """Return rho: each batch has a share of the weight in proportion to its size."""
    sizes = np.array([len(batch.log_weights) for batch in batches])
    shares = np.log(sizes / sizes.sum())
    return np.concatenate(
        [batch.log_weights + share for batch, share in zip(batches, shares, strict=True)]
    )


def _effective_fraction(batches: list[Batch]) -> float:
    """Return gamma, the effective sample size per particle, of all batches together."""
    log_ratio = np.concatenate([batch.smoothed.log_ratio for batch in batches])
    return effective_sample_size(log_ratio + _shared_log_weights(batches)) / len(log_ratio)


def _merge(path: Path, batches: list[Batch], rounds: int, first_fraction: float) -> Generated:
    """Make one set of particles out of the batches."""
    rates = [batch.acceptance_rate for batch in batches if not np.isnan(batch.acceptance_rate)]
    particles = [batch.particles for batch in batches]
    proposals = [batch.smoothed.proposal for batch in batches]
    return Generated(
        particles=particles[0] if len(batches) == 1 else path.join(particles),
        log_weights=_shared_log_weights(batches),
        log_ratio=np.concatenate([batch.smoothed.log_ratio for batch in batches]),
        proposal=proposals[0] if len(batches) == 1 else path.join(proposals),
        origins=np.concatenate([batch.origins for batch in batches]),
        rounds=rounds,
        acceptance_rate=float(np.mean(rates)) if rates else np.nan,
        kernel_calls=sum(batch.kernel_calls for batch in batches),
        first_effective_fraction=first_fraction,
        autocorrelation=max((batch.autocorrelation for batch in batches), default=np.nan),
        unmoved=sum(len(batch.origins) for batch in batches[:1] if batch.kernel_calls == 0),
    )
