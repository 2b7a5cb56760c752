"""What a cloud of particles tells about its distribution, for the kernels that move it.

A Student-t is fitted to each half of the cloud and used to move the other. A kernel fitted to the
very particles that it moves is not invariant, and log Z drifts: by 0.3 for a Gaussian in 20
dimensions with 1000 particles.

With scores (gradients of the log-density), the covariance is the one that brings the scores of a
Gaussian closest to them. That minimises the Fisher divergence; for a Gaussian target it is exact
with any d + 1 points, where the covariance of the points has an error of order d / points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

__all__ = ["CrossFit", "Student", "independent_halves", "score_covariance", "shrink"]


@dataclass(frozen=True)
class Student:
    """A multivariate Student-t fitted to a cloud, with scale L L^T."""

    mean: np.ndarray
    factor: np.ndarray
    inverse_factor: np.ndarray
    freedom: float
    conditional_deviation: np.ndarray

    @classmethod
    def fit(cls, points: np.ndarray, scores: np.ndarray | None = None) -> "Student":
        """Fit by moments, with a covariance that is never singular, and scores if there are."""
        dimension = points.shape[1]
        finite = np.isfinite(points).all(axis=1)
        if finite.sum() > 1:
            points, scores = points[finite], None if scores is None else scores[finite]
        else:
            points, scores = np.zeros((2, dimension)), None
        mean = points.mean(axis=0)
        if scores is not None and len(points) > 2 * dimension:
            mean, covariance = score_covariance(points, scores)
        else:
            # Few particles can't tell correlations: shrink towards none.
            shrinkage = min(1.0, (dimension + 1) / (len(points) + dimension + 1))
            covariance = shrink(_covariance(points - mean), shrinkage)
        factor = np.linalg.cholesky(covariance)
        inverse_factor = scipy.linalg.solve_triangular(factor, np.eye(dimension), lower=True)
        distances = (((points - mean) @ inverse_factor.T) ** 2).sum(axis=1)
        # The kurtosis of the distances tells the degrees of freedom.
        kurtosis = float((distances**2).mean() / (dimension * (dimension + 2)))
        freedom = float(np.clip(4 + 2 / max(kurtosis - 1, 1e-2), 4.5, 100.0))
        shape = np.sqrt((freedom - 2) / freedom)
        deviation = 1 / np.sqrt((inverse_factor**2).sum(axis=0))
        return cls(mean, factor * shape, inverse_factor / shape, freedom, deviation)


class CrossFit:
    """Two Student-t, each fitted to one half of the cloud and used to move the other."""

    def __init__(
        self,
        halves: Sequence[np.ndarray],
        points: np.ndarray,
        scores: np.ndarray | None = None,
    ) -> None:
        size, dimension = points.shape
        self._parts = [
            (mine, Student.fit(points[other], None if scores is None else scores[other]))
            for mine, other in zip(halves, halves[::-1], strict=True)
        ]
        self.freedom = np.empty(size)
        self.conditional_deviation = np.empty((size, dimension))
        for mine, student in self._parts:
            self.freedom[mine] = student.freedom
            self.conditional_deviation[mine] = student.conditional_deviation

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """Return L^-1 (x - m)."""
        result = np.empty_like(points)
        for mine, student in self._parts:
            result[mine] = (points[mine] - student.mean) @ student.inverse_factor.T
        return result

    def color(self, points: np.ndarray) -> np.ndarray:
        """Return m + L z."""
        result = np.empty_like(points)
        for mine, student in self._parts:
            result[mine] = student.mean + points[mine] @ student.factor.T
        return result

    def pull(self, gradients: np.ndarray) -> np.ndarray:
        """Return L^T g, the gradient with respect to z."""
        result = np.empty_like(gradients)
        for mine, student in self._parts:
            result[mine] = gradients[mine] @ student.factor
        return result


def score_covariance(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the Gaussian of least Fisher divergence.

    The covariance S solves S C_s S = C_x for the covariances of the scores and of the points: it is
    L (L^T C_s L)^(-1/2) L^T with C_x = L L^T. The mean is that of the points plus S times that of
    the scores.
    """
    mean, average = points.mean(axis=0), scores.mean(axis=0)
    covariance = shrink(_covariance(points - mean), 0.0)
    factor = np.linalg.cholesky(covariance)
    pulled = (scores - average) @ factor
    values, vectors = np.linalg.eigh(pulled.T @ pulled / (len(scores) - 1))
    if not np.isfinite(values).all():
        return mean, covariance
    half = factor @ vectors * np.clip(values, 1e-2, 1e6) ** -0.25
    fitted = half @ half.T
    return mean + fitted @ average, fitted


def _covariance(centered: np.ndarray) -> np.ndarray:
    return centered.T @ centered / max(len(centered) - 1, 1)


def shrink(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    """Return a covariance that is never singular, shrunk towards no correlation."""
    variances = np.diag(covariance).copy()
    variances = np.maximum(variances, 1e-12 * max(float(variances.max()), 1e-12))
    covariance = (1 - shrinkage) * covariance + shrinkage * np.diag(variances)
    covariance[np.diag_indices(len(variances))] += 1e-9 * variances
    return covariance


def independent_halves(rng: np.random.Generator, points: np.ndarray) -> list[np.ndarray]:
    """Divide particles at random (residual resampling sorts them), with copies kept together."""
    size = len(points)
    _, number = np.unique(points[:, 0], return_inverse=True)
    groups = int(number.max()) + 1
    if size < 4 or groups < 4:
        return [np.arange(size)]
    # Groups in random order, cut where half of the particles are reached.
    order = rng.permutation(groups)
    counts = np.bincount(number)[order]
    cut = int(np.searchsorted(np.cumsum(counts), size / 2)) + 1
    cut = min(max(cut, 1), groups - 1)
    first = np.isin(number, order[:cut])
    return [np.flatnonzero(first), np.flatnonzero(~first)]
