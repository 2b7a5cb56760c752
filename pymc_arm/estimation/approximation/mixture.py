"""A mixture of Gaussians."""

from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.approximation.student import regular_covariance, whiten

__all__ = ["Mixture"]


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians, for several modes."""

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self.log_weights)

    @classmethod
    def fit(cls, points: np.ndarray, components: int, rng: np.random.Generator) -> "Mixture":
        """Fit by expectation maximisation, from a spread-out start."""
        size = len(points)
        scaled = (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-12)
        seeds = [int(rng.integers(size))]
        for _ in range(components - 1):
            gaps = np.min([((scaled - scaled[s]) ** 2).sum(axis=1) for s in seeds], axis=0)
            if not 0 < gaps.sum() < np.inf:  # all alike, or squares overflow
                raise np.linalg.LinAlgError("Points have no distances to place components by.")
            seeds.append(int(rng.choice(size, p=gaps / gaps.sum())))
        nearest = np.argmin([((scaled - scaled[s]) ** 2).sum(axis=1) for s in seeds], axis=0)
        responsibilities = np.eye(components)[nearest]
        for _ in range(30):
            totals = responsibilities.sum(axis=0) + 1e-9
            means = (responsibilities.T @ points) / totals[:, None]
            factors = np.stack(
                [
                    np.linalg.cholesky(
                        regular_covariance(points - means[k], responsibilities[:, k])
                    )
                    for k in range(components)
                ]
            )
            mixture = cls(np.log(totals / totals.sum()), means, factors)
            logs = mixture._component_log_densities(points)
            responsibilities = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        return mixture

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        weights = np.exp(self.log_weights)
        chosen = rng.choice(self.components, size=size, p=weights / weights.sum())
        noise = rng.normal(size=(size, self.means.shape[1]))
        return self.means[chosen] + np.einsum("sij,sj->si", self.factors[chosen], noise)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        return np.logaddexp.reduce(self._component_log_densities(points), axis=1)

    def _component_log_densities(self, points: np.ndarray) -> np.ndarray:
        columns = []
        for log_weight, mean, factor in zip(
            self.log_weights, self.means, self.factors, strict=True
        ):
            distances = (whiten(factor, points - mean) ** 2).sum(axis=0)
            constant = log_weight - 0.5 * len(mean) * np.log(2 * np.pi)
            columns.append(constant - np.log(np.diag(factor)).sum() - 0.5 * distances)
        return np.stack(columns, axis=1)
