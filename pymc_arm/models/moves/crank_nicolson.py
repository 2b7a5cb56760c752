"""A preconditioned Crank-Nicolson step around a Student-t that was fitted to the cloud.

It needs no gradient, and where the target is that Student-t it is an independent draw (Grumitt and
others, 2022). Variables that are normal given others also move in non-centred form
(:mod:`pymc_arm.models.noncentered`), by a kernel of its own.
"""

import numpy as np

from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.kernel import Cloud, Moves, Role
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.student import CrossFit
from pymc_arm.models.moves.target import MoveTarget, View

__all__ = ["CrankNicolson", "crank_nicolson"]

# Step sizes to choose from: from an independent draw to a small perturbation.
STEPS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05)


class CrankNicolson:
    """Propose m + sqrt(1 - s^2) (x - m) + s sqrt(g) L e, reversible for the Student-t."""

    role = Role.BLOCK

    def __init__(
        self, target: MoveTarget, view: View, student: CrossFit, name: str = "crank-nicolson"
    ) -> None:
        self._target, self._view, self._student = target, view, student
        self.name: str = name
        self.steps: StepSizes = StepSizes(STEPS)

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move all continuous coordinates of each particle."""
        block, view, student = self._target.continuous, self._view, self._student
        size, dimension = len(cloud.points), len(block)
        choice = self.steps.draw(rng, size)
        step = self.steps.sizes[choice]
        seen, log_scale = view.forward(cloud.points)
        current = student.whiten(seen[:, block])
        distance = (current**2).sum(axis=1)
        shape = 0.5 * (dimension + student.freedom)
        spread = 0.5 * (student.freedom + distance) / rng.gamma(shape, size=size)
        noise = np.sqrt(spread)[:, None] * rng.normal(size=(size, dimension))
        proposed = np.sqrt(1 - step**2)[:, None] * current + step[:, None] * noise
        trial = seen.copy()
        trial[:, block] = student.color(proposed)
        new_points, new_log_scale = view.inverse(trial)
        new_log_density = self._target.log_density(new_points)
        new_distance = (proposed**2).sum(axis=1)
        with np.errstate(invalid="ignore"):
            log_ratio = new_log_density - cloud.log_density
            log_ratio += shape * (np.log(student.freedom + new_distance))
            log_ratio -= shape * (np.log(student.freedom + distance))
            log_ratio += new_log_scale - log_scale
            probability = np.exp(np.minimum(log_ratio, 0.0))
        probability = np.nan_to_num(probability, nan=0.0)
        accepted = rng.random(size) < probability
        points = np.where(accepted[:, None], new_points, cloud.points)
        log_density = np.where(accepted, new_log_density, cloud.log_density)
        jump = np.nan_to_num(probability * ((proposed - current) ** 2).sum(axis=1), nan=0.0)
        best = self.steps.learn(choice, jump)
        jump_fraction = best / max(2 * float(np.nanmean(distance)), 1e-12)
        return Moves(Cloud(points, log_density), float(probability.mean()), jump_fraction)


def crank_nicolson(target: MoveTarget, fit: Fit) -> list[CrankNicolson]:
    """Return a kernel for each view of the cloud."""
    return [
        CrankNicolson(target, view, student, f"crank-nicolson in {name}")
        for name, view, student in fit.bind(target)
    ]
