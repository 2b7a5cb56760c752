"""Coordinates of a funnel, standardised given the one that drives the others.

The coefficients of a regression are as wide as the noise is large. At powers of the likelihood
where it and the prior matter alike, particles have many scales of the noise, and no Student-t has
the shape of such a cloud.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.estimation.approximation.funnel import find_driving_coordinate
from pymc_arm.estimation.approximation.location_scale import (
    fit_location_scale,
    transform_gradients,
)
from pymc_arm.models.moves.student import LARGEST, Rows

__all__ = ["Standardized"]

# Points a coordinate that its six parameters are fitted to, at least.
FEWEST = 10
# Means and widths stay what they are beyond so many standard deviations of the driver.
FURTHEST = 8.0
ITERATIONS = 15
# A single point counts for no more than this, in units of the variance.
LARGEST_SQUARE = 20.0


@dataclass(frozen=True)
class PiecewiseLocationScale:
    """Means and widths of coordinates given the driver u: y = (x - m(u)) / s(u).

    m and log s are linear on each side of the median of u, with different slopes: where the noise
    is large the prior holds the coefficients, and where it is small they are as wide as the noise.
    Particles must be able to move into that end of the funnel. ``means`` and ``widths`` have a row
    for each of (1, min(u, 0), max(u, 0)); the driver's own are zero.
    """

    driver: int
    center: float
    scale: float
    means: np.ndarray
    widths: np.ndarray

    @classmethod
    def fit(cls, points: np.ndarray, driver: int) -> "PiecewiseLocationScale":
        """Fit means by weighted least squares, and widths by likelihood."""
        column = points[:, driver]
        center, scale = float(np.median(column)), float(max(column.std(), 1e-300))
        basis = _basis((column - center) / scale)
        means, widths = fit_location_scale(points, driver, basis, basis, ITERATIONS, LARGEST_SQUARE)
        return cls(driver, center, scale, means, widths)

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return m and log s."""
        basis = _basis((points[:, self.driver] - self.center) / self.scale)
        return basis @ self.means, basis @ self.widths

    def pull_gradients(self, left: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density of y, from that of x."""
        _, log_width = self.predict(left)
        distance = (left[:, self.driver] - self.center) / self.scale
        inside = np.where(np.abs(distance) < FURTHEST, 1 / self.scale, 0.0)
        slopes = np.stack([inside * (distance < 0), inside * (distance >= 0)], axis=1)
        bending, widening = slopes @ self.means[1:], slopes @ self.widths[1:]
        return transform_gradients(gradients, left, self.driver, log_width, bending, widening)


def _basis(distance: np.ndarray) -> np.ndarray:
    below, above = np.clip(distance, -FURTHEST, 0.0), np.clip(distance, 0.0, FURTHEST)
    return np.stack([np.ones_like(distance), below, above], axis=1)


class Standardized:
    """z = (x - m(u)) / s(u) with u the driving coordinate; each half by the fit of the other."""

    def __init__(
        self, parts: Sequence[tuple[Rows, PiecewiseLocationScale]], block: np.ndarray
    ) -> None:
        self._parts, self._block = parts, block

    @classmethod
    def fit(
        cls, halves: Sequence[tuple[Rows, Rows]], points: np.ndarray, block: np.ndarray
    ) -> "Standardized | None":
        """Fit to each half; None if one of them has no coordinate that drives the others."""
        parts = []
        for mine, other in halves:
            some = points[:, block][other]
            if len(some) < FEWEST * len(block) or not (np.abs(some) < LARGEST).all():
                return None
            driver = find_driving_coordinate(some)
            if driver is None:
                return None
            parts.append((mine, PiecewiseLocationScale.fit(some, driver)))
        return cls(parts, block)

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points with z in place of x, and log |dx / dz|."""
        return self._transform(points, inverse=False)

    def inverse(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points with x in place of z, and log |dx / dz|."""
        return self._transform(points, inverse=True)

    def pull_gradients(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density of z, from that of x."""
        result = gradients[:, self._block]
        seen = points[:, self._block]
        for mine, fitted in self._parts:
            result[mine] = fitted.pull_gradients(seen[mine], result[mine])
        whole = gradients.copy()
        whole[:, self._block] = result
        return whole

    def _transform(self, points: np.ndarray, *, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
        seen, log_scale = points[:, self._block], np.zeros(len(points))
        # The driver's own mean is zero and its width one, so that it is the same in both.
        with np.errstate(over="ignore", invalid="ignore"):
            for mine, fitted in self._parts:
                mean, log_width = fitted.predict(seen[mine])
                width = np.exp(log_width)
                given = seen[mine]
                seen[mine] = mean + width * given if inverse else (given - mean) / width
                log_scale[mine] = log_width.sum(axis=1)
        result = points.copy()
        result[:, self._block] = seen
        return result, log_scale
