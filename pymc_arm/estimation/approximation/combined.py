"""A mixture of densities of any kind: one fitted to particles, and others at modes they missed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_arm.algorithm.resampling import normalize

__all__ = ["Combined"]

# Half of the draws are in proportion to the masses that are expected, and half of them equal: a
# mass that is expected e^3 times too small then costs a factor of two, not of twenty.
EQUAL_SHARE = 0.5


@dataclass(frozen=True)
class Combined:
    """A mixture of a fitted density, which comes first, and others."""

    log_weights: np.ndarray
    parts: tuple[Any, ...]

    @classmethod
    def of(cls, parts: Sequence[Any], log_masses: Sequence[float]) -> "Combined":
        """Return a mixture with weights by mass, none of them small."""
        shares = np.exp(normalize(np.asarray(log_masses, dtype=float)))
        weights = EQUAL_SHARE / len(parts) + (1 - EQUAL_SHARE) * shares
        return cls(np.log(weights), tuple(parts))

    @property
    def components(self) -> int:
        """The number of components of all parts."""
        return sum(part.components for part in self.parts)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension), in random order."""
        counts = rng.multinomial(size, np.exp(normalize(self.log_weights)))
        drawn = [
            part.draw(rng, int(count))
            for part, count in zip(self.parts, counts, strict=True)
            if count
        ]
        return rng.permutation(np.concatenate(drawn))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        return np.logaddexp.reduce(self._parts_log_density(points), axis=1)

    def share_of_others(self, points: np.ndarray) -> np.ndarray:
        """Return the probability that each point was drawn from another part than the first."""
        logs = self._parts_log_density(points)
        return -np.expm1(logs[:, 0] - np.logaddexp.reduce(logs, axis=1))

    def _parts_log_density(self, points: np.ndarray) -> np.ndarray:
        columns = [
            log_weight + part.log_density(points)
            for log_weight, part in zip(self.log_weights, self.parts, strict=True)
        ]
        return np.stack(columns, axis=1)
