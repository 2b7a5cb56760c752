"""Where a log-density is nothing but rounding error.

Log-gamma functions of 1e23 cancel to no digit: of a hierarchy of beta distributions whose size is
e^53 what is left is 1e7, with any sign. Such a point must be no mode, and no draw with a weight:
it would have all of it.
"""

from collections.abc import Callable

import numpy as np

__all__ = ["is_noise"]

# A step that is far below any width, and a change of the log-density over it that only noise makes.
STEP, CHANGE = 1e-9, 1.0


def is_noise(
    log_density: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    values: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """Whether the density at points is rounding error: whether tiny steps change its log.

    Parameters
    ----------
    log_density
        At points (size, dimension).
    points, values
        Points, and the log-density there.
    scale
        The widths of coordinates, (dimension,).
    """
    step = STEP * np.maximum(scale, np.abs(points))
    step *= np.random.default_rng(0).choice([-1.0, 1.0], size=points.shape)
    with np.errstate(invalid="ignore"):
        change = np.abs(log_density(points + step) - values)
    return ~(change < CHANGE)
