"""Step sizes drawn at random for each particle, and reweighted by how far they went."""

from collections.abc import Sequence

import numpy as np

__all__ = ["StepSizes"]

# Every step size keeps this share of the particles, ten of them half. With 0.01 the large steps,
# which the bulk likes, were nearly all that particles in the tails were offered. A regression with
# heavy priors came out 2.5 too low with 0.02, 0.1 with 0.05 and 0.8 with 0.09 (three runs each,
# before funnels were standardised).
FLOOR = 0.05
# Weights of the rest follow this power of the mean jump: the best takes most, twice as far as
# another sixteen times its share.
POWER = 4


class StepSizes:
    """A few step sizes with weights (Buchholz, Chopin and Jacob, 2021).

    Jumps are averaged as distances, not as their squares, so that what a few particles gain by a
    large step does not outweigh what most gain by a smaller one.
    """

    def __init__(self, sizes: Sequence[float] | np.ndarray) -> None:
        self.sizes = np.asarray(sizes)
        self.weights = np.ones(len(self.sizes)) / len(self.sizes)
        self.frozen = False

    def freeze(self, weights: np.ndarray) -> None:
        """Keep these weights, whatever is seen from now on."""
        self.weights, self.frozen = weights, True

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return the number of a step size for each particle."""
        return rng.choice(len(self.sizes), size=count, p=self.weights)

    def learn(self, choice: np.ndarray, squares: np.ndarray) -> float:
        """Reweight by expected jumps; return the mean squared jump of the best step size.

        ``squares`` are the squared jumps of the particles times their acceptance probabilities.
        """
        count = len(self.sizes)
        used = np.maximum(np.bincount(choice, minlength=count), 1)
        mean = np.bincount(choice, weights=squares, minlength=count) / used
        distance = np.bincount(choice, weights=np.sqrt(squares), minlength=count) / used
        if not self.frozen:
            weights = np.ones(count)
            if distance.max() > 0:
                weights = (distance / distance.max()) ** POWER
            self.weights = (1 - count * FLOOR) * weights / weights.sum() + FLOOR
        return float(mean.max())
