"""Increments of ordered vectors, seen as they are where they are well above zero.

The ``ordered`` transform has the logarithms of the increments of a vector as coordinates. Cut
points between many observations are nearly normal in the vector itself, and linear in parameters
that shift or stretch all of them. In logarithms that is bent: a cut 8 above the first, with a scale
known to 10 %, is 0.04 off a line, where its own width may be 0.1. Cut points around an empty
category differ by next to nothing, where only the logarithm keeps the order.

So increments are seen as d = F^-1(Phi(z)), with F a normal distribution that is cut off below
zero. Far from zero that is a line; if nothing but the order is known F is nearly exponential, and z
is normal even then. F has the mean and the standard deviation of the particles' increments. It need
not be right: log Z is the same in any view.
"""

import numpy as np
import scipy
from scipy.special import log_ndtr

from pymc_arm.models.path import GenericPath
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.reference.quantiles import NODES, Quantiles

__all__ = ["find_increments", "join", "see_increments"]

# Distances of the middle of the normal from zero, in its standard deviations: at the first it is
# exponential to 3 %, and a line to all digits that matter at the last.
MIDDLES = np.concatenate([np.linspace(-6.0, 6.0, 241), np.geomspace(6.1, 1000.0, 100)])
# Fewer points tell no mean and standard deviation.
FEWEST = 20


def find_increments(path: GenericPath, kept: np.ndarray) -> np.ndarray:
    """Return the coordinates that stand for increments of vectors whose prior keeps one order.

    Parameters
    ----------
    path
        The path of a model.
    kept
        The coordinates that are looked at.
    """
    found = [np.zeros(0, dtype=int)]
    parts = path.prior.kept if isinstance(path.prior, PriorSampler) else {}
    for slot in path.plan.layout.slots:
        part = parts.get(slot.name)
        if part is not None and (part.orders or part.part in ("ascending", "descending")):
            own = np.array(slot.coordinates).reshape(slot.shape)
            found.append(own[..., 1:].ravel())
    return np.intersect1d(np.concatenate(found), kept)


def see_increments(coordinates: np.ndarray, points: np.ndarray) -> Quantiles | None:
    """Return the maps from z to the logarithms of increments that points suggest.

    Parameters
    ----------
    coordinates
        From :func:`find_increments`.
    points
        Points of the model near the posterior, (size, dimension).
    """
    if not len(coordinates) or len(points) < FEWEST:
        return None
    logs = points[:, coordinates]
    largest = logs.max(axis=0)
    increments = np.exp(logs - largest)
    mean, spread = increments.mean(axis=0), increments.std(axis=0)
    means, spreads = _moments(MIDDLES)
    middle = np.interp(-spread / mean, -spreads / means, MIDDLES)
    # The part of the cut normal above a place is Phi(-z).
    log_above = log_ndtr(-NODES)[:, None] + log_ndtr(middle)
    places = np.maximum(middle - scipy.special.ndtri_exp(log_above), 1e-300)
    values = np.log(places) + np.log(mean / _moments(middle)[0]) + largest
    spline = scipy.interpolate.CubicSpline(NODES, values)
    fine = np.linspace(NODES[0], NODES[-1], 8 * len(NODES))
    good = (spline(fine, 1) > 0).all(axis=0)
    number = np.arange(good.sum())
    return Quantiles(coordinates[good], number, spline.c[..., good]) if good.any() else None


def join(first: Quantiles | None, second: Quantiles | None) -> Quantiles | None:
    """Return maps of the coordinates of both."""
    if first is None or second is None:
        return second if first is None else first
    return Quantiles(
        np.concatenate([first.coordinates, second.coordinates]),
        np.concatenate([first.place, first.coefficients.shape[2] + second.place]),
        np.concatenate([first.coefficients, second.coefficients], axis=2),
    )


def _moments(middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of a normal of unit scale that is cut off below zero."""
    ratio = np.exp(-0.5 * middle**2 - log_ndtr(middle)) / np.sqrt(2 * np.pi)
    return middle + ratio, np.sqrt(1 - ratio * (ratio + middle))
