"""A funnel made straight: all coordinates as they are given the one that drives them.

The coefficients of a regression are as wide as the noise is large. Where likelihood and prior are
in balance the cloud reaches over many scales of the noise, and no Student-t has that shape.
"""

from collections.abc import Sequence

import numpy as np

from pymc_arm.evidence.approximation.funnel import (
    ConditionalLocationScale,
    find_driving_coordinate,
)
from pymc_arm.models.moves.student import Rows

__all__ = ["Straightened"]

# Points a coordinate that a course of five parameters is fitted to.
FEWEST = 10


class Straightened:
    """z = (x - m(u)) / s(u) with u the driving coordinate; each half by the fit of the other."""

    def __init__(
        self, parts: Sequence[tuple[Rows, ConditionalLocationScale]], block: np.ndarray
    ) -> None:
        self._parts, self._block = parts, block

    @classmethod
    def fit(
        cls, halves: Sequence[tuple[Rows, Rows]], points: np.ndarray, block: np.ndarray
    ) -> "Straightened | None":
        """Fit to each half; None if one of them has no coordinate that drives the others."""
        parts = []
        for mine, other in halves:
            some = points[:, block][other]
            if len(some) < FEWEST * len(block) or not np.isfinite(some).all():
                return None
            driver = find_driving_coordinate(some)
            if driver is None:
                return None
            parts.append((mine, ConditionalLocationScale.fit(some, driver)))
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
        for mine, course in self._parts:
            result[mine] = course.transform_scores(seen[mine], result[mine])
        whole = gradients.copy()
        whole[:, self._block] = result
        return whole

    def _transform(self, points: np.ndarray, *, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
        seen, log_scale = points[:, self._block], np.zeros(len(points))
        # The driver's own mean is zero and its width one, so that it is the same in both.
        with np.errstate(over="ignore", invalid="ignore"):
            for mine, course in self._parts:
                mean, log_width = course.predict(seen[mine])
                width = np.exp(log_width)
                given = seen[mine]
                seen[mine] = mean + width * given if inverse else (given - mean) / width
                log_scale[mine] = log_width.sum(axis=1)
        result = points.copy()
        result[:, self._block] = seen
        return result, log_scale
