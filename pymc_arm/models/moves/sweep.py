"""Sweeps of all kernels over a cloud, repeated until the particles have moved.

Kernels adapt to the particles that they move, in three ways: proposals are fitted to one half of
the cloud for the other, step sizes are reweighted from sweep to sweep, and the number of sweeps is
decided by looking. Each of them biases Z-hat by the order of one over the number of particles.
:class:`FrozenSweep` takes all three decisions from another run, and has no such bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.algorithm.path import Moved
from pymc_arm.models.moves.decorrelation import Decorrelation
from pymc_arm.models.moves.fit import Fit, fit_cloud, fit_for_others
from pymc_arm.models.moves.kernel import Cloud, Factory, Kernel, Role
from pymc_arm.models.moves.target import MoveTarget

__all__ = ["LARGEST_REPEATS", "FrozenSweep", "Sweep"]

# Sweeps end when the worst memory of the start is below this, and what chance shows with it: the
# largest of some twenty correlations of independent clouds is 2.5 / sqrt(particles). At 0.1 a
# regression with heavy priors takes 1.15 times as long, with the same error (-0.53 and -0.49, six
# chains each); other models were not tried.
MAX_AUTOCORRELATION = 0.2
CHANCE, MARGIN = 2.5, 0.05
# The hardest stage of that regression took ten; a sweep that gets here says so.
LARGEST_REPEATS = 50
# Hamiltonian moves cost ten times as much as the others: they pay where these go less than this
# share of the way that an independent draw would go, or have not arrived after so many sweeps.
FAR_ENOUGH = 0.08
SWEEPS_BEFORE_URGENT = 3
# A view of the cloud in which moves go less than this share of the best one's way is given up.
SMALLEST_SHARE = 0.3


class Sweep:
    """Adaptive sweeps over a cloud of particles.

    Parameters
    ----------
    target
        The distribution that stays invariant.
    factories
        They make the kernels, in the order in which a sweep applies them.
    repeats
        The largest number of sweeps.
    """

    def __init__(
        self, target: MoveTarget, factories: Sequence[Factory], repeats: int = LARGEST_REPEATS
    ) -> None:
        self._target, self._factories, self._repeats = target, factories, repeats
        self._kernels: list[Kernel] = []
        self._applied: list[str] = []

    def run(self, rng: np.random.Generator, points: np.ndarray) -> Moved:
        """Return the moved particles, the mean acceptance rate, and the memory that is left."""
        moving = self._target.moving
        if not len(moving):
            return Moved(points, 1.0)
        fit, log_density = fit_cloud(rng, self._target, points)
        cloud = Cloud(points, log_density)
        self._kernels = _make(self._target, self._factories, fit)
        self._applied = []
        decorrelation = Decorrelation(points, log_density, moving)
        limit = max(MAX_AUTOCORRELATION, MARGIN + CHANCE / np.sqrt(len(points)))
        active, rates, memory = self._kernels, [], 1.0
        for number in range(self._repeats):
            cloud, active, some = self._sweep(
                rng, cloud, active, urgent=number >= SWEEPS_BEFORE_URGENT
            )
            rates += some
            memory = decorrelation.worst(*cloud)
            if memory < limit:
                break
        return Moved(cloud.points, float(np.mean(rates)), memory)

    def freeze(self, points: np.ndarray) -> "FrozenSweep":
        """Return what the last :meth:`run` did from ``points``, for other runs to repeat."""
        weights = {
            kernel.name: kernel.steps.weights
            for kernel in self._kernels
            if kernel.steps is not None
        }
        return FrozenSweep(fit_for_others(self._target, points), weights, tuple(self._applied))

    def _sweep(
        self, rng: np.random.Generator, cloud: Cloud, kernels: Sequence[Kernel], *, urgent: bool
    ) -> tuple[Cloud, list[Kernel], list[float]]:
        """Apply each kernel once; return the cloud, the kernels to go on with, and their rates."""
        rates: list[float] = []
        jumps: dict[str, float] = {}
        for kernel in kernels:
            furthest = max(jumps.values(), default=0.0)
            if kernel.role is Role.RESERVE and furthest >= FAR_ENOUGH and not urgent:
                continue
            cloud, rate, jump_fraction = kernel.move(rng, cloud)
            rates.append(rate)
            self._applied.append(kernel.name)
            if kernel.role is Role.BLOCK:
                jumps[kernel.name] = jump_fraction
        least = SMALLEST_SHARE * max(jumps.values(), default=0.0)
        return cloud, [k for k in kernels if jumps.get(k.name, least) >= least], rates


@dataclass(frozen=True)
class FrozenSweep:
    """Kernels that were fitted, and applied in this order, in another run.

    Nothing in it depends on the particles that it moves, so that it leaves the target invariant
    exactly.
    """

    fit: Fit
    weights: dict[str, np.ndarray]
    applied: tuple[str, ...]

    def run(
        self,
        rng: np.random.Generator,
        target: MoveTarget,
        factories: Sequence[Factory],
        points: np.ndarray,
    ) -> Moved:
        """Return the moved particles, the mean acceptance rate, and the memory that is left."""
        kernels = {kernel.name: kernel for kernel in _make(target, factories, self.fit)}
        for name, kernel in kernels.items():
            if kernel.steps is not None:
                kernel.steps.freeze(self.weights.get(name, kernel.steps.weights))
        cloud = Cloud(points, target.log_density(points))
        decorrelation = Decorrelation(*cloud, target.moving)
        rates = []
        # A view that only one of the two fits found has no kernel here.
        for name in self.applied:
            if name in kernels:
                cloud, rate, _ = kernels[name].move(rng, cloud)
                rates.append(rate)
        if not rates:
            return Moved(points, 1.0)
        return Moved(cloud.points, float(np.mean(rates)), decorrelation.worst(*cloud))


def _make(target: MoveTarget, factories: Sequence[Factory], fit: Fit) -> list[Kernel]:
    return [kernel for make in factories for kernel in make(target, fit)]
