"""Random walks of coordinates that share no term, all at once, each accepted by itself."""

import numpy as np

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.moves.fit import Fit
from pymc_arm.models.moves.kernel import Cloud, Moves, Role, confirm
from pymc_arm.models.moves.steps import StepSizes
from pymc_arm.models.moves.student import CrossFit
from pymc_arm.models.moves.target import ColoredSet, MoveTarget, term_difference

__all__ = ["SingleCoordinates", "single_coordinates"]

# Step sizes to choose from, in conditional standard deviations of the fitted Student-t; 2.4 is the
# best for a normal (Gelman, Roberts and Gilks, 1996).
SCALES = (4.0, 2.4, 1.5, 0.8, 0.4, 0.2, 0.1)


class SingleCoordinates:
    """A random walk over one set of coordinates that share no term."""

    role = Role.PART

    def __init__(
        self, target: MoveTarget, chosen: ColoredSet, student: CrossFit, name: str = "coordinates"
    ) -> None:
        self._target, self._chosen = target, chosen
        place = np.searchsorted(target.continuous, chosen[0])
        self._deviation = student.conditional_deviation[:, place]
        self.name: str = name
        self.steps: StepSizes = StepSizes(SCALES)

    def move(self, rng: np.random.Generator, cloud: Cloud) -> Moves:
        """Move each coordinate of the set."""
        coordinates, terms, owner = self._chosen
        points = cloud.points
        choice = self.steps.draw(rng, len(points))
        scale = self.steps.sizes[choice][:, None]
        jump = scale * self._deviation * rng.normal(size=(len(points), len(coordinates)))
        new_points = points.copy()
        new_points[:, coordinates] += jump
        difference = term_difference(self._target, new_points, points, terms)
        log_ratio = add_by_owner(difference, owner, len(coordinates))
        probability = np.exp(np.minimum(log_ratio, 0.0))
        accepted = rng.random(probability.shape) < probability
        columns = np.where(accepted, new_points[:, coordinates], points[:, coordinates])
        moved = points.copy()
        moved[:, coordinates] = columns
        gain = (probability * (jump / self._deviation) ** 2).mean(axis=1)
        change = np.where(accepted, log_ratio, 0.0).sum(axis=1)
        self.steps.learn(choice, gain)
        return Moves(confirm(self._target, cloud, moved, change), float(probability.mean()))


def single_coordinates(target: MoveTarget, fit: Fit) -> list[SingleCoordinates]:
    """Return a kernel for each set of continuous coordinates."""
    if fit.plain is None:
        return []
    return [
        SingleCoordinates(target, chosen, fit.plain, f"coordinates {number}")
        for number, chosen in enumerate(target.sets)
    ]
