"""What the data say about vectors that are normal given others, about and on the average.

The log-density of a block is that of its prior plus something that is close to a parabola where the
posterior is. Its second derivatives are differences of gradients at some points; the means over
points of J, and of what makes the parabola touch the gradients, are good enough, since any would
leave log Z as it is. How J changes with the other coordinates, such as the noise of normal data, is
told by differences of J.
"""

import numpy as np

from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.models.reference.vectors import Information, VectorLevel

__all__ = ["find_information"]

# Points that are looked at: a gradient each, and one for each coordinate of a block.
MOST_POINTS = 24
# The step of the differences, in standard deviations of the prior given its parameters, or in units
# where those are large.
DIFFERENCE = 1e-4
# The step of other coordinates, and how many of them there may be: each takes as many gradients as
# two points.
OTHER_STEP, MOST_OTHERS = 0.05, 60


def find_information(
    target: SharedTarget, points: np.ndarray, rng: np.random.Generator
) -> tuple[Information, ...]:
    """Return what the data say about each of the target's vectors near points of the model.

    Parameters
    ----------
    target
        The target of the model.
    points
        Where the posterior is, (size, dimension), with all coordinates.
    rng
        For the directions of differences.
    """
    points = points[:MOST_POINTS]
    return tuple(_information(target, level, points, rng) for level in target.vectors)


def _information(
    target: SharedTarget, level: VectorLevel, points: np.ndarray, rng: np.random.Generator
) -> Information:
    precision, linear = _local(target, level, points, rng)
    good = np.isfinite(precision).all(axis=(1, 2, 3)) & np.isfinite(linear).all(axis=(1, 2))
    if not good.any():
        return level.nothing()
    precision, linear = _convex(precision[good].mean(axis=0), linear[good].mean(axis=0))
    origin = points[good].mean(axis=0)
    slope = _slope(target, level, precision, origin, rng)
    return Information(precision, linear, slope, origin)


def _local(
    target: SharedTarget, level: VectorLevel, points: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return J and b of the blocks at each point."""
    order = level.order
    shape = (len(points), *level.blocks.shape)
    known = points.copy()
    known[:, level.coordinates] = 0.0
    precision, linear = level.prior(known)
    diagonal = np.diagonal(precision, axis1=-2, axis2=-1)
    step = DIFFERENCE * np.minimum(1.0, np.maximum(diagonal, 1e-300) ** -0.5)
    values, slopes = target.evaluate(points)
    own = slopes[:, level.coordinates].reshape(shape)
    # Blocks are shifted all at once, to random sides: what they do to each other averages out.
    curvature = np.empty((*shape, order))
    for column in range(order):
        sides = rng.choice([-1.0, 1.0], size=shape[:2]) * step[..., column]
        shifted = points.copy()
        shifted[:, level.blocks[:, column]] += sides
        moved = target.evaluate(shifted)[1][:, level.coordinates].reshape(shape)
        curvature[..., column] = -(moved - own) / sides[..., None]
    x = points[:, level.coordinates].reshape(shape)
    data = 0.5 * (curvature + np.swapaxes(curvature, -1, -2)) - precision
    gradient = own - linear + np.einsum("pbij,pbj->pbi", precision, x)
    data[~np.isfinite(values)] = np.nan
    return data, gradient + np.einsum("pbij,pbj->pbi", data, x)


def _convex(precision: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return J and b in the directions in which the data say anything."""
    values, vectors = np.linalg.eigh(precision)
    share = np.where(values > 1e-8 * np.maximum(values.max(axis=1, keepdims=True), 1e-300), 1.0, 0)
    kept = np.einsum("bik,bk,bjk->bij", vectors, share, vectors)
    cut = np.einsum("bik,bk,bjk->bij", vectors, share * np.maximum(values, 0.0), vectors)
    return cut, np.einsum("bij,bj->bi", kept, linear)


def _slope(
    target: SharedTarget,
    level: VectorLevel,
    precision: np.ndarray,
    origin: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how the logarithm of J changes with other coordinates, the vectors where they are."""
    slope = np.zeros(len(origin))
    vectors = np.concatenate([each.coordinates for each in target.vectors])
    others = np.setdiff1d(target.kept, vectors)
    if not len(others) or len(others) > MOST_OTHERS:
        return slope
    shifts = np.zeros((2 * len(others), len(origin)))
    each = np.arange(len(others))
    shifts[each, others], shifts[len(others) + each, others] = OTHER_STEP, -OTHER_STEP
    found = _local(target, level, origin + shifts, rng)[0]
    # Each direction counts by what it says: a mean of J' / J.
    values, vectors = np.linalg.eigh(precision)
    known = values > 1e-3 * values.max(axis=1, keepdims=True)
    own = np.einsum("bik,pbij,bjk->pbk", vectors, found, vectors)
    with np.errstate(all="ignore"):
        ratio = np.where(known, own / values, np.nan).reshape(len(found), -1)
        above, below = np.nanmedian(np.maximum(ratio, 1e-3), axis=1).reshape(2, -1)
        change = (np.log(above) - np.log(below)) / (2 * OTHER_STEP)
    slope[others] = np.where(np.isfinite(change), change, 0.0)
    return slope
