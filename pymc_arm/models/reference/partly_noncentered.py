"""Coordinates that are normal given others, x = m(h) + s(h) z, seen as y: x = a m(h) + s(h)^a y.

The degree a is between 0 (y is x, centred) and 1 (y is z, non-centred). The gradient in y is that
in x, pulled back through m and s: these are known from three points of the log-prior of each
coordinate, so that it takes the gradient of a weighted sum of prior terms.
"""

from collections.abc import Callable

import numpy as np

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.noncentered import NODES, Level

__all__ = ["pull_back", "shift_and_scale"]


def shift_and_scale(
    normal: tuple[np.ndarray, np.ndarray], degree: np.ndarray, given: np.ndarray, *, to_model: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return x of y or y of x of a level, and log |dx / dy|.

    Parameters
    ----------
    normal
        m and s of each coordinate.
    degree
        How far each is non-centred.
    given
        y or x, (size, coordinates).
    to_model
        Whether y is given.
    """
    mean, scale = normal
    width, moved = scale**degree, degree * mean
    found = moved + width * given if to_model else (given - moved) / width
    return found, (degree * np.log(scale)).sum(axis=1)


def pull_back(
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray],
    level: Level,
    degree: np.ndarray,
    points: np.ndarray,
    known: np.ndarray,
    adjoint: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn the gradient in the x of a level into that in its y, in place.

    Returns points of the model, and weights of the level's terms there: the gradient of these
    weighted terms is what the parents get.

    Parameters
    ----------
    terms
        The values of some terms at points of the model.
    level
        The coordinates.
    degree
        How far each is non-centred.
    points
        Points of the view, (size, dimension).
    known
        Points of the model, with this level and those that follow it at zero.
    adjoint
        The gradient.
    """
    size, count = len(points), len(level.representatives)
    nodes = np.tile(known, (len(NODES), 1))
    nodes[:, level.representatives] = np.repeat(NODES, size)[:, None]
    found = terms(nodes, level.terms)
    low, middle, high = np.split(add_by_owner(found, level.owner, count), len(NODES))
    precision = 2 * middle - low - high
    mean, log_scale = 0.5 * (high - low) / precision, -0.5 * np.log(precision)
    to_mean = degree * adjoint[:, level.coordinates]
    own = adjoint[:, level.coordinates] * np.exp(degree * log_scale[:, level.place])
    adjoint[:, level.coordinates] = own
    to_scale = degree * (own * points[:, level.coordinates] + 1)
    to_scale, to_mean = (add_by_owner(part, level.place, count) for part in (to_scale, to_mean))
    to_precision = -0.5 * to_scale / precision - to_mean * mean / precision
    tilt = 0.5 * to_mean / precision
    parts = [-tilt - to_precision, 2 * to_precision, tilt - to_precision]
    return nodes, np.concatenate(parts)[:, level.owner]
