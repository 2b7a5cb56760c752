"""Two more generators for the loop of Algorithm 2 (section 3.2): ARM-anticipate and ARM-reseed.

A generator hands over new particles that target p_n, and the set that its next round starts from.
The paper's own, which copies the set and moves it, is in :mod:`pymc_arm.algorithm.arm`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_arm.algorithm.path import Path, Position, Smoothed
from pymc_arm.algorithm.resampling import normalize
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Batch

__all__ = ["Generator", "Transition", "anticipate", "reseed"]

# At least so many reseeded particles in a round, so that they represent p_n (section 5.1).
FEWEST_RESEEDED = 100


@dataclass(frozen=True)
class Transition:
    """The step that particles are generated for: from p_n to the position that follows it."""

    path: Path
    rng: np.random.Generator
    n: Position
    following: Position
    settings: Settings


# From a step, the set to start from and gamma to a batch of new particles, and the set that the
# next round starts from.
Generator = Callable[[Transition, Batch, float], tuple[Batch, Batch]]


def anticipate(step: Transition, base: Batch, gamma: float) -> tuple[Batch, Batch]:
    """Split the particles that matter under p_{n+1}, then move all (ARM-anticipate).

    Particle r becomes N_r = max(1, floor(R w_r)) copies that share its weight, so that the set
    still targets p_n. The next round starts from the first moved copy of each, with its whole
    weight.
    """
    count = len(base)
    copies = np.ones(count, dtype=np.int64)
    ahead = base.smoothed.log_ratio + base.log_weights
    if np.max(ahead) > -np.inf:
        copies = np.maximum(copies, np.floor(count * np.exp(normalize(ahead))).astype(np.int64))
    origins = np.repeat(np.arange(count), copies)
    log_weights = (base.log_weights - np.log(copies))[origins]
    path = step.path
    moved = path.move(step.rng, step.n, path.select(base.particles, origins))
    particles = moved.particles
    smoothed = path.smooth(step.rng, step.following, particles)
    batch = Batch.moved(moved, log_weights, smoothed, origins)
    if len(origins) == count:
        return batch, Batch.of(particles, base.log_weights, smoothed)
    first = np.searchsorted(origins, np.arange(count))
    representatives = Smoothed(smoothed.log_ratio[first], path.select(smoothed.proposal, first))
    return batch, Batch.of(path.select(particles, first), base.log_weights, representatives)


def reseed(step: Transition, base: Batch, gamma: float) -> tuple[Batch, Batch]:
    """Draw S = max((1 - gamma / gamma_thr) R, 100) particles from another sampler (ARM-reseed)."""
    count = len(base)
    size = max(int((1 - gamma / step.settings.threshold) * count), FEWEST_RESEEDED)
    particles = step.path.reseed(step.rng, step.n, size)
    smoothed = step.path.smooth(step.rng, step.following, particles)
    # A new particle founds no line of its own: it is counted with a random one of the old set.
    origins = step.rng.integers(count, size=size)
    equal = np.full(size, -np.log(size))
    return Batch(particles, equal, smoothed, origins, np.nan, size), base
