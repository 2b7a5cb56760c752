"""L-BFGS from many starting points at once.

One evaluation of a batch of points costs little more than one of a single point, so all starting
points take their steps together, each with its own history (Nocedal, 1980).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Mode", "maximize"]

ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# Pairs of steps and changes of the gradient that are kept: the usual 5 to 20; not tuned.
MEMORY = 15
# An increase by this share of what the slope promises is enough (Armijo).
SUFFICIENT = 1e-4
# A start that gains less than this many nats in a step is there: log Z is wanted to 0.02.
TOLERANCE = 1e-4
# So often a step is shortened before a start gives up.
SHORTENINGS = 25


@dataclass(frozen=True)
class Mode:
    """Where the optimisations ended, with their log-densities and gradients."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    evaluations: int


def maximize(
    function: ValueAndGradient,
    starts: np.ndarray,
    scale: np.ndarray,
    iterations: int = 300,
    longest: float = np.inf,
) -> Mode:
    """Climb from each start.

    Parameters
    ----------
    function
        Returns values and gradients at points.
    starts
        (size, dimension)
    scale
        About how wide the density may be in each coordinate: the unit of the first steps.
    iterations
        The largest number of steps.
    longest
        The length of the longest step, in units of the scale.
    """
    points = starts / scale
    size, dimension = points.shape

    def evaluate(where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = function(where * scale)
        return values, gradients * scale

    values, gradients = evaluate(points)
    evaluations = size
    steps, changes = np.zeros((2, size, MEMORY, dimension))
    inverse = np.zeros((size, MEMORY))  # 1 / s^T y, zero for an empty place
    active = np.isfinite(values)
    for _ in range(iterations):
        number = np.flatnonzero(active)
        if not len(number):
            break
        direction = _direction(gradients[number], steps[number], changes[number], inverse[number])
        slope = (direction * gradients[number]).sum(axis=1)
        downhill = ~(slope > 0)
        direction[downhill], slope[downhill] = (
            gradients[number][downhill],
            (gradients[number][downhill] ** 2).sum(axis=1),
        )
        length = np.ones(len(number))
        fresh = downhill | (inverse[number] == 0).all(axis=1)
        norm = np.sqrt((direction**2).sum(axis=1))
        length[fresh] = np.minimum(1.0, 1.0 / np.maximum(norm[fresh], 1e-300))
        length = np.minimum(length, longest / np.maximum(norm, 1e-300))
        old_points, old_values = points[number].copy(), values[number].copy()
        old_gradients = gradients[number].copy()
        waiting = np.arange(len(number))
        for _ in range(SHORTENINGS):
            where = old_points[waiting] + length[waiting, None] * direction[waiting]
            new_values, new_gradients = evaluate(where)
            evaluations += len(waiting)
            enough = new_values >= old_values[waiting] + (
                SUFFICIENT * length[waiting] * slope[waiting]
            )
            done = number[waiting[enough]]
            points[done], values[done] = where[enough], new_values[enough]
            gradients[done] = new_gradients[enough]
            waiting = waiting[~enough]
            length[waiting] *= 0.3
            if not len(waiting):
                break
        step, change = points[number] - old_points, old_gradients - gradients[number]
        curvature = (step * change).sum(axis=1)
        usable = curvature > 1e-12 * np.maximum((change**2).sum(axis=1), 1e-300)
        kept = number[usable]
        for memory, latest in ((steps, step), (changes, change)):
            memory[kept] = np.roll(memory[kept], -1, axis=1)
            memory[kept, -1] = latest[usable]
        inverse[kept] = np.roll(inverse[kept], -1, axis=1)
        inverse[kept, -1] = 1 / curvature[usable]
        gain = values[number] - old_values
        # A poor step may be due to an old history: try once more without it.
        stuck = ~(gain > TOLERANCE)
        restart = number[stuck & ~fresh]
        inverse[restart] = 0.0
        active[number[stuck & fresh]] = False
        small = (slope < TOLERANCE) & (gain < TOLERANCE)
        active[number[small]] = False
    return Mode(points * scale, values, gradients / scale, evaluations)


def _direction(
    gradients: np.ndarray, steps: np.ndarray, changes: np.ndarray, inverse: np.ndarray
) -> np.ndarray:
    """Return the two-loop recursion's approximation of H^-1 g, of each start."""
    direction = gradients.copy()
    weights = np.zeros(inverse.shape)
    for k in range(MEMORY - 1, -1, -1):
        weights[:, k] = inverse[:, k] * (steps[:, k] * direction).sum(axis=1)
        direction -= weights[:, k, None] * changes[:, k]
    square = (changes[:, -1] ** 2).sum(axis=1)
    known = inverse[:, -1] > 0
    direction[known] /= (inverse[known, -1] * square[known])[:, None]
    for k in range(MEMORY):
        again = inverse[:, k] * (changes[:, k] * direction).sum(axis=1)
        direction += (weights[:, k] - again)[:, None] * steps[:, k]
    return direction
