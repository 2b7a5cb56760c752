"""The variance of log Z-hat from the family tree of a single run.

Theorem 1 takes the errors of the steps as independent. If moves do not make particles forget, they
are not: what helped the descendants of one particle in one step helps them again in the next. The
final weight of each family, the descendants of one particle, tells how much: with S_e its share,
Var(log Z-hat) is 1 - (1 - sum S_e^2) / prod (1 - d_k), where d_k is what the chance of the k-th
resampling alone would do to the shares (Lee and Whiteley, 2018, who have d_k = 1 / R for the
multinomial scheme; other schemes leave less to chance).

Families die out, and few of them tell little. When a handful of them is left, the variance
so far is put aside, and every particle founds a family again: a memory that is longer than the time
in which families die out is not seen.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Genealogy"]

# Families are founded anew when their effective number is below this.
FEWEST_FAMILIES = 10


@dataclass(frozen=True)
class Genealogy:
    """The founder of each particle, and the chance that two particles have different ones.

    ``survival`` is that chance if all weights had been equal; ``settled`` is the variance from
    families that were put aside.
    """

    founders: np.ndarray
    survival: float
    settled: float = 0.0

    @classmethod
    def of(cls, count: int, settled: float = 0.0) -> "Genealogy":
        """Return a genealogy in which every particle founds a family."""
        return cls(np.arange(count), 1 - 1 / count, settled)

    def variance(self, log_weights: np.ndarray) -> float:
        """Return the predicted variance of log Z-hat, given normalised log-weights.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_arm.algorithm.genealogy import Genealogy
        >>> weights = np.array([0.3, 0.2, 0.3, 0.2])
        >>> round(Genealogy.of(4).variance(np.log(weights)), 4)
        0.0133
        """
        shares = np.bincount(self.founders, weights=np.exp(log_weights))
        if self.survival <= 0:  # a single particle
            return np.inf
        return self.settled + max(1 - (1 - float(shares @ shares)) / self.survival, 0.0)

    def extend(self, origins: np.ndarray) -> "Genealogy":
        """Go on to particles with these origins."""
        return Genealogy(self.founders[origins], self.survival, self.settled)

    def resample(self, log_weights: np.ndarray, indices: np.ndarray, scheme: str) -> "Genealogy":
        """Keep the particles with these indices; found families anew when few are left."""
        size = len(indices)
        shares = np.bincount(self.founders, weights=np.exp(log_weights))
        different = 1 - float(shares @ shares)
        founders = self.founders[indices]
        sizes = np.bincount(founders) / size
        chance = self._chance(np.exp(log_weights), size, scheme)
        if 1 / float(sizes @ sizes) < FEWEST_FAMILIES or different <= chance:
            return Genealogy.of(size, self.variance(log_weights))
        return Genealogy(founders, self.survival * (1 - chance / different), self.settled)

    def _chance(self, weights: np.ndarray, size: int, scheme: str) -> float:
        """Return the sum over families of the variance of their share after resampling."""
        expected = size * weights
        if scheme == "multinomial":
            random, count = expected, float(size)
        else:
            random = expected - np.floor(expected + 1e-9)
            count = float(random.sum())
        if scheme in ("stratified", "systematic"):
            return float(np.sum(random * (1 - random))) / size**2
        families = np.bincount(self.founders, weights=np.maximum(random, 0))
        return max(count - float(families @ families) / max(count, 1e-300), 0.0) / size**2
