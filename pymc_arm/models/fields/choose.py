"""Which coordinates are a Gaussian field, and which are its parameters.

A field has a log-prior that is a polynomial of second degree in all of its coordinates together,
given the parameters. That is asked of values, never of the names of distributions: third
differences along random directions vanish. Variables come in from the largest to the smallest, so
that the states of an autoregression are the field, and its coefficients, which they are multiplied
with, are parameters.
"""

import numpy as np

from pymc_arm.models.path import GenericPath

__all__ = ["find_field"]

# A field is worth its linear algebra from so many coordinates on, if no more parameters than these
# are left: a polynomial of second degree in eight variables has 45 coefficients.
FEWEST, MOST_PARAMETERS = 12, 8
# Points at which third differences are taken, and how far apart, in prior standard deviations.
POINTS, STEP = 4, 0.7
# The largest third difference of a parabola, relative to the second one: rounding.
TOLERANCE = 1e-6


def find_field(path: GenericPath, prior: np.ndarray) -> np.ndarray:
    """Return the coordinates of the field; none if there is no field with few parameters.

    Parameters
    ----------
    path
        The path of a model without discrete variables.
    prior
        Prior draws, (size, dimension), all finite.
    """
    layout, density = path.plan.layout, path.density
    nothing = np.zeros(0, dtype=int)
    if layout.dimension < FEWEST + 1 or len(prior) < 2 * POINTS:
        return nothing
    weights = np.zeros(density.count)
    for number, block in enumerate(density.blocks):
        if block.kind == "prior":
            weights[density.offsets[number] : density.offsets[number + 1]] = 1.0
    low, high = np.quantile(prior, [0.16, 0.84], axis=0)
    scale = np.clip(0.5 * (high - low), 1e-8, 1e8)
    rng = np.random.default_rng(0)

    def quadratic(coordinates: np.ndarray) -> bool:
        directions = np.zeros((POINTS, layout.dimension))
        directions[:, coordinates] = rng.normal(size=(POINTS, len(coordinates)))
        places = [prior[:POINTS] + k * STEP * directions * scale for k in range(-1, 4)]
        with np.errstate(all="ignore"):
            values = np.array([density.sum(place, weights) for place in places])
            second, third = (np.abs(np.diff(values, n, axis=0)).max(axis=0) for n in (2, 3))
        rounding = 1e-12 * np.abs(values).max(axis=0)
        return bool(((third <= TOLERANCE * second + rounding) & (second > rounding)).all())

    chosen = nothing
    for slot in sorted(layout.slots, key=lambda each: -each.size):
        own = np.array(slot.coordinates, dtype=int)
        # Alone too: beside a large field, what else a small variable does is lost in rounding.
        if quadratic(own) and quadratic(np.concatenate([chosen, own])):
            chosen = np.concatenate([chosen, own])
    left = layout.dimension - len(chosen)
    return np.sort(chosen) if len(chosen) >= FEWEST and 0 < left <= MOST_PARAMETERS else nothing
