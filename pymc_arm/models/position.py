"""Positions along a plan, and which terms and coordinates are in at each of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_arm.models.coloring import color_coordinates
from pymc_arm.models.plan import Plan, Step

__all__ = ["Position", "TermSchedule"]


@dataclass(frozen=True)
class Position:
    """After ``step`` steps of the plan, with the data of the last one raised to ``fraction``.

    ``previous`` is the fraction that the position before had reached in the same step: zero on
    entering it, which is also when its coordinate comes in.
    """

    step: int
    fraction: float = 1.0
    previous: float = 0.0


class TermSchedule:
    """Which terms of a density are active at a position, and which coordinates are in.

    Parameters
    ----------
    plan
        The steps of the path.
    count
        The number of terms.
    """

    def __init__(self, plan: Plan, count: int) -> None:
        self._plan = plan
        #: The step in which each term is activated; 0 is the start.
        self.activated = np.zeros(count, dtype=int)
        self.tempered = np.zeros(count, dtype=bool)
        self._introduced = np.zeros(plan.layout.dimension, dtype=int)
        for number, step in enumerate(plan.steps, start=1):
            self.activated[step.prior_terms] = number
            self.activated[step.data_terms] = number
            self.tempered[step.data_terms] = True
            if step.coordinate is not None:
                self._introduced[step.coordinate] = number

    def step(self, n: Position) -> Step:
        """Return the step of the plan that a position is in."""
        return self._plan.steps[n.step - 1]

    def introduces(self, n: Position) -> bool:
        """Whether a coordinate comes in at a position."""
        return n.previous == 0.0 and self.step(n).coordinate is not None

    def weights(self, n: Position) -> np.ndarray:
        """Return the power of each term at a position."""
        current = np.where(self.tempered, n.fraction, 1.0)
        return np.where(
            self.activated < n.step, 1.0, np.where(self.activated == n.step, current, 0.0)
        )

    def affected(self, n: Position) -> tuple[np.ndarray, np.ndarray]:
        """Return the active terms that the new coordinate of a step touches, with weights."""
        step = self.step(n)
        weights = self.weights(n)
        touched = self._plan.scopes[:, step.coordinate].copy()
        touched[step.prior_terms] = True
        touched[step.data_terms] = True
        affected = np.flatnonzero(touched & (weights > 0))
        return affected, weights[affected]

    def sets_to_move(self, step: int, group: np.ndarray) -> tuple[np.ndarray, list[Any], list[Any]]:
        """Return the continuous coordinates that are in, and the sets to move together.

        ``group`` has the number of the variable of each coordinate.
        """
        coordinates = np.flatnonzero(self._introduced <= step)
        active = self._plan.scopes & (self.activated <= step)[:, None]
        discrete = self._plan.layout.discrete[coordinates]
        continuous, labels = coordinates[~discrete], coordinates[discrete]
        sets = color_coordinates(continuous, active, np.zeros_like(group))
        # Moving by coordinates pays where many go at once; the others move as a block.
        sets = [chosen for chosen in sets if len(chosen[0]) > 2]
        return continuous, sets, color_coordinates(labels, active, group)
