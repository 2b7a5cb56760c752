"""Optimisations (climbs) to the modes of a log-density, from many points at once."""

from collections.abc import Callable

import numpy as np

from pymc_arm.estimation.starts import LogDensity

__all__ = ["climb", "differences"]

ITERATIONS = 120
# A climb ends when it has twice gained less than this over so many steps. Of two thousand climbs
# most arrive in 30 steps and a few take 120, so that three fifths of the evaluations would be of
# those that have arrived. At most 6 of 2100 rest on a saddle for so long and then rise by more than
# 0.01 (the pairs of ``benchmarks model-pairs``); if they had to gain every ten steps it were 16.
SMALLEST_GAIN = 1e-3
STEPS_BETWEEN_CHECKS = 10
# Nor does one go on that is so low, twice in a row, that so many times what it gained in these
# steps would not lift it to where modes are looked at: more steps than there are.
REACH = ITERATIONS / STEPS_BETWEEN_CHECKS


def differences(log_density: LogDensity, points: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return central differences, for all points and coordinates in one call."""
    size, dimension = points.shape
    shifts = np.diag(step)
    both = np.concatenate([points[:, None] + shifts, points[:, None] - shifts], axis=1)
    values = log_density(both.reshape(-1, dimension)).reshape(size, 2, dimension)
    slopes: np.ndarray = (values[:, 0] - values[:, 1]) / (2 * step)
    return slopes


def climb(
    log_density: Callable[..., np.ndarray],
    gradient: Callable[..., np.ndarray],
    starts: np.ndarray,
    scale: np.ndarray,
    *,
    by_row: bool = False,
    arrived: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None,
    lowest: float = -np.inf,
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise from all points at once, by the signs of the gradient (Riedmiller's Rprop).

    Signs do not depend on the scale of a mode, which may be a thousandth of the prior's.

    Parameters
    ----------
    log_density, gradient
        Functions of points.
    starts
        Where climbs begin.
    scale
        The largest step in each coordinate.
    by_row
        Whether each climb has a density of its own: the functions then take the numbers of the
        climbs too, since those that have arrived are left out.
    arrived
        Of points, heights and gradients, which climbs are sure to end where others have: these end
        at once.
    lowest
        The height below which ends are of no interest.

    Returns
    -------
    tuple
        Where climbs have ended, and the log-density there.
    """
    going = np.arange(len(starts))
    known = (going,) if by_row else ()
    points, heights = starts.copy(), log_density(starts, *known)
    ends, highest = points.copy(), heights.copy()
    step = np.tile(0.1 * scale, (len(starts), 1))
    previous = np.zeros_like(points)
    reached, rested = heights, np.zeros(len(starts), bool)
    slopes, moved = np.zeros_like(points), np.ones(len(starts), bool)
    for number in range(1, ITERATIONS + 1):
        # Where a step was refused the gradient is known.
        if moved.any():
            own = (going[moved],) if by_row else ()
            slopes[moved] = np.nan_to_num(gradient(points[moved], *own))
        if arrived is not None and np.any(there := arrived(points, heights, slopes)):
            ends[going], highest[going] = points, heights
            left = ~there
            going, points, heights = going[left], points[left], heights[left]
            step, previous, slopes = step[left], previous[left], slopes[left]
            reached, rested = reached[left], rested[left]
            known = (going,) if by_row else ()
            if not len(going):
                break
        sign = np.sign(slopes)
        agreement = sign * previous
        step = np.clip(
            step * np.where(agreement > 0, 1.3, np.where(agreement < 0, 0.5, 1.0)), 1e-12, scale
        )
        new = points + step * sign
        new_heights = log_density(new, *known)
        better = moved = new_heights >= heights
        points = np.where(better[:, None], new, points)
        heights = np.where(better, new_heights, heights)
        step = np.where(better[:, None], step, 0.5 * step)
        previous = np.where(better[:, None], sign, 0.0)
        if number % STEPS_BETWEEN_CHECKS == 0:
            ends[going], highest[going] = points, heights
            gained = heights - reached
            with np.errstate(invalid="ignore"):
                resting = ~(gained > SMALLEST_GAIN) | (heights + REACH * gained < lowest)
            if np.all(resting):
                break
            kept = ~(resting & rested)
            if not np.all(kept):
                going, points = going[kept], points[kept]
                step, previous = step[kept], previous[kept]
                slopes, moved = slopes[kept], moved[kept]
                known = (going,) if by_row else ()
                # A density that is estimated by draws has other errors in other rows.
                heights = log_density(points, *known)
            reached, rested = heights, resting[kept]
    return ends, highest
