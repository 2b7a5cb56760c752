"""Hamiltonian dynamics in the space where the fitted Student-t is round.

Its gradients lead along ridges that a fitted covariance does not describe.
"""

import numpy as np

from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.kernel import Cloud, Moves, Role
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.student import CrossFit
from pymc_arm.models.moves.target import MoveTarget

__all__ = ["Hamiltonian", "hamiltonian"]

# Leapfrog steps, as multiples of d^(-1/4), and the length of a trajectory in whitened space.
LEAPS = np.array([1.4, 1.0, 0.7, 0.5, 0.35, 0.2, 0.1])
TRAJECTORY = 1.5
LARGEST_LEAPS = 12


class Hamiltonian:
    """Follow Hamilton's equations, all particles for the same number of leapfrog steps."""

    role = Role.RESERVE

    def __init__(self, target: MoveTarget, student: CrossFit) -> None:
        assert target.gradient is not None
        self._target, self._student, self._gradient = target, student, target.gradient
        self._steps = StepSizes(LEAPS * len(target.continuous) ** -0.25)

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move all continuous coordinates of each particle."""
        block, student, steps = self._target.continuous, self._student, self._steps
        points = cloud.points
        size, dimension = len(points), len(block)
        choice = steps.draw(rng, size)
        leap = steps.sizes[choice][:, None]
        average = float(steps.sizes @ steps.weights)
        count = int(np.clip(round(TRAJECTORY / average), 1, LARGEST_LEAPS))
        current = place = student.whiten(points[:, block])
        log_density, gradients = self._gradient(points)
        momentum = rng.normal(size=(size, dimension))
        energy = 0.5 * (momentum**2).sum(axis=1) - log_density
        new_points, new_log_density = points.copy(), log_density
        with np.errstate(all="ignore"):  # a trajectory that diverges is not accepted
            momentum = momentum + 0.5 * leap * student.whiten_gradients(gradients[:, block])
            for number in range(count):
                place = place + leap * momentum
                new_points[:, block] = student.color(place)
                new_log_density, gradients = self._gradient(new_points)
                share = 0.5 if number == count - 1 else 1.0
                momentum = momentum + share * leap * student.whiten_gradients(gradients[:, block])
            change = energy - (0.5 * (momentum**2).sum(axis=1) - new_log_density)
            probability = np.nan_to_num(np.exp(np.minimum(change, 0.0)), nan=0.0)
            jump = np.nan_to_num(probability * ((place - current) ** 2).sum(axis=1), nan=0.0)
        accepted = rng.random(size) < probability
        points = np.where(accepted[:, None], new_points, points)
        log_density = np.where(accepted, new_log_density, log_density)
        best = steps.learn(choice, jump)
        jump_fraction = best / max(2 * float(np.nanmean((current**2).sum(axis=1))), 1e-12)
        return Moves(Cloud(points, log_density), float(probability.mean()), jump_fraction)


def hamiltonian(target: MoveTarget, fit: Fit) -> list[Hamiltonian]:
    """Return the kernel, if the target has a gradient."""
    if fit.plain is None or target.gradient is None:
        return []
    return [Hamiltonian(target, fit.plain)]
