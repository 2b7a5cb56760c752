"""The variables that are left when others are summed: their coordinates, and prior draws."""

from dataclasses import replace

import numpy as np

from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.terms import Layout

__all__ = ["RemainingPrior", "remaining_layout"]


def remaining_layout(layout: Layout, summed: frozenset[str]) -> Layout:
    """Return the layout of the variables that are not summed."""
    slots, start = [], 0
    for slot in layout.slots:
        if slot.name not in summed:
            slots.append(replace(slot, start=start))
            start += slot.size
    return Layout(tuple(slots))


class RemainingPrior:
    """Prior draws of the variables that are not summed: joint draws, with the others left out.

    Parameters
    ----------
    prior
        That of all variables.
    kept
        Whether each variable is left.
    """

    def __init__(self, prior: PriorSampler, kept: list[bool]) -> None:
        #: The prior of all variables.
        self.whole = prior
        self._kept = kept

    @property
    def log_mass(self) -> float:
        """As of the prior of all variables."""
        return self.whole.log_mass

    @property
    def integrated(self) -> frozenset[str]:
        """The variables that a transform restricts, element by element."""
        return self.whole.integrated

    def draw(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Return an array (size, ...) for each variable that is left."""
        arrays = self.whole.draw(rng, size)
        return [array for array, kept in zip(arrays, self._kept, strict=True) if kept]
