"""Step sizes drawn at random for each particle, and reweighted by how far they went."""

from collections.abc import Sequence

import numpy as np

__all__ = ["StepSizes"]


class StepSizes:
    """A few step sizes with weights (Buchholz, Chopin and Jacob, 2021)."""

    def __init__(self, sizes: Sequence[float]) -> None:
        self.sizes = np.asarray(sizes)
        self.weights = np.ones(len(self.sizes)) / len(self.sizes)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return the number of a step size for each particle."""
        return rng.choice(len(self.sizes), size=count, p=self.weights)

    def learn(self, choice: np.ndarray, jump: np.ndarray) -> float:
        """Reweight by the expected squared jump; return the mean jump of the best step size."""
        count = len(self.sizes)
        used = np.bincount(choice, minlength=count)
        mean = np.bincount(choice, weights=jump, minlength=count) / np.maximum(used, 1)
        best = mean.max()
        if not best > 0:
            self.weights = np.ones(count) / count
            return 0.0
        weights = (mean / best) ** 4 + 0.01
        self.weights = weights / weights.sum()
        return float(best)
