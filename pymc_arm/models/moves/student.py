"""What a cloud of particles tells about its distribution, for the kernels that move it.

A Student-t is fitted to each half of the cloud and used to move the other. A kernel fitted to the
very particles that it moves is not invariant, and log Z drifts: by 0.3 for a Gaussian in 20
dimensions with 1000 particles.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pymc_arm.estimation.approximation.covariance import covariance_of, score_covariance, shrink
from pymc_arm.estimation.approximation.tails import degrees_of_freedom

__all__ = ["CrossFit", "Rows", "Student", "independent_halves"]

# Larger coordinates have squares that overflow when they are summed.
LARGEST = 1e100
# Columns whose spreads differ by more have units of their own: a variance is never taken as less
# than 1e-12 of the largest, so that beside a mean of 1e30 a scale in logarithms was never moved.
SMALLEST_SPREAD = 1e-5
# Spreads that are this small beside the values are rounding errors.
ROUNDING = 1e-13


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
        # Columns whose squares would overflow are measured in units of their largest value.
        largest = np.abs(points).max(axis=0)
        unit = np.where(largest > LARGEST, largest, 1.0)
        spread = (points / unit).std(axis=0)
        if spread.min() < SMALLEST_SPREAD * spread.max():
            known = spread > ROUNDING * largest / unit
            unit = unit * np.where(known, spread, spread.max())
        points, scores = points / unit, None if scores is None else scores * unit
        mean = points.mean(axis=0)
        if scores is not None and len(points) > 2 * dimension:
            mean, covariance = score_covariance(points, scores)
        else:
            # Few particles can't tell correlations: shrink towards none.
            shrinkage = min(1.0, (dimension + 1) / (len(points) + dimension + 1))
            covariance = shrink(covariance_of(points - mean), shrinkage)
        factor = np.linalg.cholesky(covariance)
        inverse_factor = scipy.linalg.solve_triangular(factor, np.eye(dimension), lower=True)
        distances = (((points - mean) @ inverse_factor.T) ** 2).sum(axis=1)
        freedom = degrees_of_freedom(distances, dimension, 4.5, 100.0)
        shape = np.sqrt((freedom - 2) / freedom)
        deviation = 1 / np.sqrt((inverse_factor**2).sum(axis=0))
        return cls(
            mean * unit,
            factor * shape * unit[:, None],
            inverse_factor / (shape * unit),
            freedom,
            deviation * unit,
        )


#: Which particles a fit is for: some, or all of them however many there are.
Rows = np.ndarray | slice


class CrossFit:
    """Student-t's, each for some of the particles, fitted to others.

    Parameters
    ----------
    parts
        For which particles each is.
    """

    def __init__(self, parts: Sequence[tuple[Rows, Student]]) -> None:
        self.parts = tuple(parts)

    @classmethod
    def fit(
        cls,
        halves: Sequence[tuple[Rows, Rows]],
        points: np.ndarray,
        scores: np.ndarray | None = None,
    ) -> "CrossFit":
        """Fit to one half of a cloud for the particles of the other."""
        return cls(
            [
                (mine, Student.fit(points[other], None if scores is None else scores[other]))
                for mine, other in halves
            ]
        )

    @property
    def freedom(self) -> np.ndarray:
        """The degrees of freedom for each particle, or one for all."""
        return self._each([np.array(student.freedom) for _, student in self.parts])

    @property
    def conditional_deviation(self) -> np.ndarray:
        """The deviation of each coordinate given the others, for each particle or for all."""
        return self._each([student.conditional_deviation for _, student in self.parts])

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """Return L^-1 (x - m)."""
        result = np.empty_like(points)
        for mine, student in self.parts:
            result[mine] = (points[mine] - student.mean) @ student.inverse_factor.T
        return result

    def color(self, points: np.ndarray) -> np.ndarray:
        """Return m + L z."""
        result = np.empty_like(points)
        for mine, student in self.parts:
            result[mine] = student.mean + points[mine] @ student.factor.T
        return result

    def whiten_gradients(self, gradients: np.ndarray) -> np.ndarray:
        """Return L^T g, the gradient with respect to z."""
        result = np.empty_like(gradients)
        for mine, student in self.parts:
            result[mine] = gradients[mine] @ student.factor
        return result

    def _each(self, values: list[np.ndarray]) -> np.ndarray:
        rows = [mine for mine, _ in self.parts if isinstance(mine, np.ndarray)]
        if not rows:
            return values[0][None]
        result = np.empty((sum(len(mine) for mine in rows), *values[0].shape))
        for mine, value in zip(rows, values, strict=True):
            result[mine] = value
        return result


def independent_halves(
    rng: np.random.Generator, points: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide particles at random (residual resampling sorts them), with copies kept together.

    Returns each half with the other, to which what moves it is to be fitted; all with all if there
    are too few to divide.
    """
    size = len(points)
    _, number = np.unique(points[:, 0], return_inverse=True)
    groups = int(number.max()) + 1
    if size < 4 or groups < 4:
        return [(np.arange(size), np.arange(size))]
    # Groups in random order, cut where half of the particles are reached.
    order = rng.permutation(groups)
    counts = np.bincount(number)[order]
    cut = int(np.searchsorted(np.cumsum(counts), size / 2)) + 1
    cut = min(max(cut, 1), groups - 1)
    first = np.isin(number, order[:cut])
    one, two = np.flatnonzero(first), np.flatnonzero(~first)
    return [(one, two), (two, one)]
