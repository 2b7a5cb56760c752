"""A density whose coordinates depend on one of them: funnels, regressions of unknown noise.

The coefficients of a regression are as wide as the noise is large, group effects as wide as their
scale, and where a parameter enters in a product the other factor shrinks as it grows. In each case
one coordinate, the *driver*, tells where the others are and how wide: their means are parabolas in
it, and the logs of their widths straight lines. What is left is close to a Student-t.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from pymc_arm.estimation.approximation.covariance import shrink
from pymc_arm.estimation.approximation.location_scale import (
    fit_location_scale,
    transform_gradients,
)
from pymc_arm.estimation.approximation.student import SinhArcsinhStudent

__all__ = ["FunnelStudent", "find_driving_coordinate"]

# Means and widths stay what they are beyond so many standard deviations of the driver.
FURTHEST = 4.0
ITERATIONS = 25
# A single draw counts for no more than this, in units of the variance.
LARGEST_SQUARE = 50.0
# How often what noise would show a driver must show.
CLEAR = 3.0


def find_driving_coordinate(points: np.ndarray) -> int | None:
    """Return the coordinate that drives the others most, if there is one.

    Of whitened coordinates z and a standardised one u, z is correlated with u^2 if means bend, and
    z^2 with u if widths change. The squares of these correlations are summed over the z's; without
    a driver each of them is one over the number of points, and those of u with itself five.
    """
    size, dimension = points.shape
    if dimension < 2:
        return None
    centered = points - points.mean(axis=0)
    factor = np.linalg.cholesky(shrink(centered.T @ centered / size, 0.0))
    white = scipy.linalg.solve_triangular(factor, centered.T, lower=True).T
    standard = centered / np.maximum(points.std(axis=0), 1e-300)
    widths, bends = _correlations(white**2, standard), _correlations(white, standard**2)
    shown = (widths**2 + bends**2).sum(axis=0)
    driver = int(np.argmax(shown))
    return driver if shown[driver] > CLEAR * (2 * dimension + 8) / size else None


def _correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return those of all columns with all others; a few far points do not decide."""
    standard = []
    for values in (first, second):
        values = np.clip(values, -9, 9)
        values = values - values.mean(axis=0)
        standard.append(values / np.maximum(values.std(axis=0), 1e-300))
    return standard[0].T @ standard[1] / len(first)


@dataclass(frozen=True)
class ConditionalLocationScale:
    """Means and widths of the others given the driver: y = (x - m(u)) / s(u).

    u is the standardised driver. ``means`` are the coefficients of m in (1, u, u^2), ``widths``
    those of log s in (1, u), with a column for each coordinate; the driver's own are zero, so that
    it is the same in x and in y.
    """

    driver: int
    center: float
    width: float
    means: np.ndarray
    widths: np.ndarray

    @classmethod
    def fit(cls, points: np.ndarray, driver: int) -> "ConditionalLocationScale":
        """Fit means by weighted least squares, and widths by likelihood."""
        column = points[:, driver]
        center, width = float(column.mean()), float(max(column.std(), 1e-300))
        basis = _basis((column - center) / width)
        means, widths = fit_location_scale(
            points, driver, basis, basis[:, :2], ITERATIONS, LARGEST_SQUARE
        )
        return cls(driver, center, width, means, widths)

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return m and log s."""
        basis = _basis((points[:, self.driver] - self.center) / self.width)
        return basis @ self.means, basis[:, :2] @ self.widths

    def standardize(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return y and log s."""
        mean, log_width = self.predict(points)
        return (points - mean) * np.exp(-log_width), log_width

    def transform_scores(self, left: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density of y, from that of x."""
        _, log_width = self.predict(left)
        distance = (left[:, self.driver] - self.center) / self.width
        inside = (np.abs(distance) < FURTHEST) / self.width
        slopes = np.stack([inside, 2 * distance * inside], axis=1) @ self.means[1:]
        widening = inside[:, None] * self.widths[1]
        return transform_gradients(scores, left, self.driver, log_width, slopes, widening)


@dataclass(frozen=True)
class FunnelStudent:
    """A skewed Student-t of coordinates that are standardised given their driver."""

    location_scale: ConditionalLocationScale
    student: SinhArcsinhStudent
    components: ClassVar[int] = 1

    @classmethod
    def fit(
        cls, points: np.ndarray, driver: int, scores: np.ndarray | None = None
    ) -> "FunnelStudent":
        """Fit means and widths given the driver, then the Student-t to what is standardised."""
        location_scale = ConditionalLocationScale.fit(points, driver)
        left, _ = location_scale.standardize(points)
        pulled = None if scores is None else location_scale.transform_scores(left, scores)
        return cls(location_scale, SinhArcsinhStudent.fit(left, pulled))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        left = self.student.draw(rng, size)
        mean, log_width = self.location_scale.predict(left)
        return mean + np.exp(log_width) * left

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        left, log_width = self.location_scale.standardize(points)
        return self.student.log_density(left) - log_width.sum(axis=1)


def _basis(distance: np.ndarray) -> np.ndarray:
    """Return (1, u, u^2) of the driver."""
    near = np.clip(distance, -FURTHEST, FURTHEST)
    return np.stack([np.ones_like(near), near, near**2], axis=1)
