"""Which coordinates are a Gaussian field, and which are its parameters.

A field has a log-prior that is a polynomial of second degree in all of its coordinates together,
given the parameters, and each term of the data depends on one linear combination of them. Both are
asked of values, never of the names of distributions: third differences of the prior vanish, and the
slopes of a term along two directions have the same ratio everywhere. Variables come in from the
largest to the smallest. So the states of an autoregression are the field, and its coefficients,
which they are multiplied with, are parameters; so is the logarithm of a length scale, though its
prior may be normal.
"""

import numpy as np

from pymc_arm.models.density import Density
from pymc_arm.models.path import GenericPath
from pymc_arm.models.terms import Layout

__all__ = ["FEWEST", "find_field"]

# A field is worth its linear algebra from so many coordinates on, if no more parameters than these
# are left: a polynomial of second degree in eight variables has 45 coefficients.
FEWEST, MOST_PARAMETERS = 12, 8
# Points at which differences are taken, and how far apart those of the prior are, in its standard
# deviations.
POINTS, STEP = 4, 0.7
# The largest third difference of a parabola, relative to the second one: rounding.
TOLERANCE = 1e-6
# The step of slopes of the data, how far from zero the points are where they are taken (at draws of
# vague priors all digits are lost), and how far ratios of slopes may differ.
SLOPE_STEP, NEAR, LARGEST_CHANGE = 1e-4, 0.5, 1e-3


def find_field(path: GenericPath, prior: np.ndarray, fewest: int = FEWEST) -> np.ndarray:
    """Return the coordinates of the field; none if there is no field with few parameters.

    Parameters
    ----------
    path
        The path of a model without discrete variables.
    prior
        Prior draws, (size, dimension), all finite.
    fewest
        The smallest number of coordinates of a field.
    """
    layout = path.plan.layout
    nothing = np.zeros(0, dtype=int)
    if layout.dimension < fewest + 1 or len(prior) < 2 * POINTS:
        return nothing
    asked = _Questions(path.density, layout, prior)
    chosen = nothing
    for slot in sorted(layout.slots, key=lambda each: -each.size):
        own = np.array(slot.coordinates, dtype=int)
        # Alone too: beside a large field, what else a small variable does is lost in rounding.
        if not asked.quadratic(own) or not asked.quadratic(np.concatenate([chosen, own])):
            continue
        if not len(chosen) or asked.linear(chosen, own):
            chosen = np.concatenate([chosen, own])
    left = layout.dimension - len(chosen)
    return np.sort(chosen) if len(chosen) >= fewest and 0 < left <= MOST_PARAMETERS else nothing


class _Questions:
    """What is asked of the terms of a model."""

    def __init__(self, density: Density, layout: Layout, prior: np.ndarray) -> None:
        self._density, self._points = density, prior[:POINTS]
        kinds = np.repeat([block.kind for block in density.blocks], density.sizes)
        self._prior = (kinds == "prior").astype(float)
        self._data = np.flatnonzero(kinds != "prior")
        low, high = np.quantile(prior, [0.16, 0.84], axis=0)
        self._scale = np.clip(0.5 * (high - low), 1e-8, 1e8)
        self._rng = np.random.default_rng(0)

    def quadratic(self, coordinates: np.ndarray) -> bool:
        """Whether the log-prior is of second degree in these coordinates.

        Near zero, if not at draws of the prior: those of a vague one have lost all digits.
        """
        near = self._rng.uniform(-NEAR, NEAR, size=self._points.shape)
        ones = np.ones_like(self._scale)
        return self._quadratic(coordinates, self._points, self._scale) or self._quadratic(
            coordinates, near, ones
        )

    def _quadratic(self, coordinates: np.ndarray, points: np.ndarray, scale: np.ndarray) -> bool:
        directions = self._directions(coordinates, points.shape) * scale
        places = [points + k * STEP * directions for k in range(-1, 4)]
        with np.errstate(all="ignore"):
            values = np.array([self._density.sum(place, self._prior) for place in places])
            second, third = (np.abs(np.diff(values, n, axis=0)).max(axis=0) for n in (2, 3))
        rounding = 1e-12 * np.abs(values).max(axis=0)
        return bool(((third <= TOLERANCE * second + rounding) & (second > rounding)).all())

    def linear(self, chosen: np.ndarray, own: np.ndarray) -> bool:
        """Whether terms of the data depend on one combination of both, as far as can be seen."""
        shape = self._points.shape
        points = np.tile(self._rng.uniform(-NEAR, NEAR, size=shape[1]), (shape[0], 1))
        both = np.concatenate([chosen, own])
        points[:, both] = self._rng.uniform(-NEAR, NEAR, size=(shape[0], len(both)))
        first, second = (self._directions(part, (1, shape[1])) for part in (chosen, own))
        with np.errstate(all="ignore"):
            slopes = [
                self._density.terms(points + SLOPE_STEP * each, self._data)
                - self._density.terms(points - SLOPE_STEP * each, self._data)
                for each in (first, second)
            ]
            # a_1 b_2 = a_2 b_1 for the slopes a and b at two points.
            one, two = slopes[0][:-1] * slopes[1][1:], slopes[0][1:] * slopes[1][:-1]
            size = np.abs(one) + np.abs(two)
            usable = np.isfinite(size) & (size > 1e-6 * np.nanmax(np.nan_to_num(size), initial=0))
            change = np.abs(one - two)[usable] / size[usable]
        return not len(change) or bool(np.quantile(change, 0.9) < LARGEST_CHANGE)

    def _directions(self, coordinates: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        directions = np.zeros(shape)
        directions[:, coordinates] = self._rng.normal(size=(shape[0], len(coordinates)))
        return directions
