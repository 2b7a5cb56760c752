"""Hamiltonian dynamics in coordinates that the fitted Student-t whitens.

Its gradients lead along ridges that a fitted covariance does not describe.
"""

import numpy as np

from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.kernel import Cloud, Moves, Role
from pymc_arm.models.moves.standardized import Standardized
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.student import CrossFit
from pymc_arm.models.moves.target import GradientView, Identity, MoveTarget

__all__ = ["Hamiltonian", "hamiltonian"]

# Leapfrog steps, as multiples of d^(-1/4), and the length of a trajectory in whitened space.
LEAPS = np.array([1.4, 1.0, 0.7, 0.5, 0.35, 0.2, 0.1])
TRAJECTORY = 1.5
LARGEST_LEAPS = 12


class Hamiltonian:
    """Follow Hamilton's equations, all particles for the same number of leapfrog steps."""

    role = Role.RESERVE
    name = "hamiltonian"

    def __init__(self, target: MoveTarget, view: GradientView, student: CrossFit) -> None:
        assert target.gradient is not None
        self._target, self._view, self._student = target, view, student
        self._gradient = target.gradient
        self.steps = StepSizes(LEAPS * len(target.continuous) ** -0.25)

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move all continuous coordinates of each particle."""
        block, student, steps = self._target.continuous, self._student, self.steps
        points = cloud.points
        size, dimension = len(points), len(block)
        choice = steps.draw(rng, size)
        leap = steps.sizes[choice][:, None]
        average = float(steps.sizes @ steps.weights)
        count = int(np.clip(round(TRAJECTORY / average), 1, LARGEST_LEAPS))
        seen, _ = self._view.forward(points)
        current = place = student.whiten(seen[:, block])
        momentum = rng.normal(size=(size, dimension))
        with np.errstate(all="ignore"):  # a trajectory that diverges is not accepted
            _, log_density, value, force = self._at(seen, place)
            if np.isnan(force).all():  # there is no gradient
                return Moves(cloud, 0.0, 0.0)
            energy = 0.5 * (momentum**2).sum(axis=1) - value
            momentum = momentum + 0.5 * leap * force
            for number in range(count):
                place = place + leap * momentum
                new_points, new_log_density, value, force = self._at(seen, place)
                share = 0.5 if number == count - 1 else 1.0
                momentum = momentum + share * leap * force
            change = energy - (0.5 * (momentum**2).sum(axis=1) - value)
            probability = np.nan_to_num(np.exp(np.minimum(change, 0.0)), nan=0.0)
            jump = np.nan_to_num(probability * ((place - current) ** 2).sum(axis=1), nan=0.0)
        accepted = rng.random(size) < probability
        points = np.where(accepted[:, None], new_points, points)
        log_density = np.where(accepted, new_log_density, log_density)
        best = steps.learn(choice, jump)
        jump_fraction = best / max(2 * float(np.nanmean((current**2).sum(axis=1))), 1e-12)
        return Moves(Cloud(points, log_density), float(probability.mean()), jump_fraction)

    def _at(
        self, seen: np.ndarray, place: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the points at a place of the whitened view, log f there, and log f with its force.

        The latter two are those of the view, with its Jacobian.
        """
        block = self._target.continuous
        trial = seen.copy()
        trial[:, block] = self._student.color(place)
        points, log_scale = self._view.inverse(trial)
        log_density, gradients = self._gradient(points)
        pulled = self._view.pull_gradients(trial, gradients)[:, block]
        force = self._student.whiten_gradients(pulled)
        return points, log_density, log_density + log_scale, force


def hamiltonian(target: MoveTarget, fit: Fit) -> list[Hamiltonian]:
    """Return the kernel in the view that describes the cloud best, if the target has a gradient."""
    if target.gradient is None or fit.plain is None:
        return []
    for _, view, student in fit.views:
        if isinstance(view, Standardized):
            return [Hamiltonian(target, view, student)]
    return [Hamiltonian(target, Identity(), fit.plain)]
