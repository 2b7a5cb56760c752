"""Sweeps of all kernels over a cloud, repeated until the particles have moved.

Step sizes are drawn at random for each particle, and reweighted by their expected squared jump
distance (Buchholz, Chopin and Jacob, 2021). Sweeps end when the cloud no longer correlates with
where it started.
"""

from collections.abc import Sequence

import numpy as np

from pymc_arm.models.moves.fit import fit_cloud
from pymc_arm.models.moves.kernel import Cloud, Factory, Kernel, Role
from pymc_arm.models.moves.target import MoveTarget

__all__ = ["Sweep"]

# Sweeps end when the mean squared correlation with the start is below this, or after the last.
MAX_AUTOCORRELATION = 0.05
LARGEST_REPEATS = 25
# Hamiltonian moves cost ten times as much: they pay where the other goes less than this share of
# the way that an independent draw would go.
FAR_ENOUGH = 0.08
# A view of the cloud in which moves go less than this share of the best one's way is given up.
SMALLEST_SHARE = 0.3


class Sweep:
    """Sweeps over a cloud of particles.

    Parameters
    ----------
    target
        The distribution that stays invariant.
    factories
        They make the kernels, in the order in which a sweep applies them.
    """

    def __init__(self, target: MoveTarget, factories: Sequence[Factory]) -> None:
        self._target, self._factories = target, factories

    def run(self, rng: np.random.Generator, points: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the moved particles and the mean acceptance rate."""
        moving = self._target.moving
        if not len(moving):
            return points, 1.0
        fit, log_density = fit_cloud(rng, self._target, points)
        cloud = Cloud(points, log_density)
        kernels = [kernel for make in self._factories for kernel in make(self._target, fit)]
        rates: list[float] = []
        for repeat in range(LARGEST_REPEATS):
            cloud, kernels, some = _sweep(rng, cloud, kernels)
            rates += some
            if repeat and autocorrelation(
                points[:, moving], cloud.points[:, moving]
            ) < MAX_AUTOCORRELATION + 4 / len(points):
                break
        return cloud.points, float(np.mean(rates))


def _sweep(
    rng: np.random.Generator, cloud: Cloud, kernels: Sequence[Kernel]
) -> tuple[Cloud, list[Kernel], list[float]]:
    """Apply each kernel once; return the cloud, the kernels to go on with, and their rates."""
    rates: list[float] = []
    jumps: dict[Kernel, float] = {}
    for kernel in kernels:
        if kernel.role is Role.RESERVE and max(jumps.values(), default=0.0) >= FAR_ENOUGH:
            continue
        cloud, rate, jump_fraction = kernel.move(rng, cloud)
        rates.append(rate)
        if kernel.role is Role.BLOCK:
            jumps[kernel] = jump_fraction
    least = SMALLEST_SHARE * max(jumps.values(), default=0.0)
    kept = [kernel for kernel in kernels if jumps.get(kernel, least) >= least]
    return cloud, kept, rates


def autocorrelation(start: np.ndarray, now: np.ndarray) -> float:
    """Return the mean squared correlation between where particles were and where they are."""
    first = start - start.mean(axis=0)
    second = now - now.mean(axis=0)
    scale = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    varied = scale > 0
    if not varied.any():
        return 0.0
    correlation = (first * second).sum(axis=0)[varied] / scale[varied]
    return float(np.mean(correlation**2))
