"""A log-density as a function of a field, given its parameters."""

from dataclasses import dataclass

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.reference.target import View

__all__ = ["LARGEST", "FieldTarget", "LargeFieldError", "Modes"]

# The step of the differences, in standard deviations of the prior, or in units where those are
# large: the prior of an intercept may be 1000 times as wide as its posterior.
DIFFERENCE = 1e-4
# Elements of the points that are evaluated at once.
LARGEST = 4_000_000
# Gradients that modes may take in all. Random walks take 5000, and matrices of 100 coordinates
# 100,000; where Newton's method wanders (splines for mean and log sd), it took five million.
BUDGET = 200_000
# How often a step is shortened.
HALVINGS = 12


class LargeFieldError(PathError):
    """The factor of a field has too many elements to go through each of them."""


@dataclass(frozen=True)
class Modes:
    """Of each row: the conditional mode, its factor, and log f with the field integrated out.

    That is Laplace's approximation, -inf where no mode was found. ``numbers`` are those of
    :class:`pymc_arm.models.fields.factors.SparseFactor`.
    """

    points: np.ndarray
    numbers: np.ndarray
    log_marginal: np.ndarray

    def select(self, rows: np.ndarray) -> "Modes":
        """Return some of the rows."""
        return Modes(self.points[rows], self.numbers[rows], self.log_marginal[rows])


class FieldTarget:
    """A target whose coordinates are those of a field and its parameters.

    Parameters
    ----------
    view
        The target.
    field
        The coordinates of the field.
    prior
        Prior draws in the view, all finite.
    """

    def __init__(self, view: View, field: np.ndarray, prior: np.ndarray) -> None:
        self.view, self.field = view, field
        self.parameters = np.setdiff1d(np.arange(prior.shape[1]), field)
        low, high = np.quantile(prior, [0.16, 0.84], axis=0)
        self.scale = np.clip(0.5 * (high - low), 1e-8, 1e8)
        #: The steps of differences in the field.
        self.step = DIFFERENCE * np.minimum(self.scale[field], 1.0)
        self.evaluations = 0

    def join(self, parameters: np.ndarray, field: np.ndarray) -> np.ndarray:
        """Return points of the view."""
        points = np.empty((len(parameters), len(self.parameters) + len(self.field)))
        points[:, self.parameters], points[:, self.field] = parameters, field
        return points

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, and gradients of which only those in the field need be right."""
        self.count(len(points))
        return self.view(points)

    def count(self, evaluations: int) -> None:
        """Count gradients, and raise a PathError if there were too many."""
        self.evaluations += evaluations
        if self.evaluations > BUDGET:
            raise PathError(f"The modes of a field take more than {BUDGET} gradients.")

    def hessian(self, point: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return second derivatives in the field at a point, where the gradient is ``slope``."""
        size = len(self.field)
        change = np.empty((size, size))
        rows = max(1, LARGEST // len(point))
        for first in range(0, size, rows):
            own = np.arange(first, min(first + rows, size))
            shifted = np.tile(point, (len(own), 1))
            shifted[np.arange(len(own)), self.field[own]] += self.step[own]
            moved = self.evaluate(shifted)[1][:, self.field]
            change[own] = (moved - slope) / self.step[own, None]
        return change

    def search(
        self,
        points: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray,
        active: np.ndarray,
        step: np.ndarray,
    ) -> np.ndarray:
        """Go along the steps as far as that gains anything, in place; return which rows moved."""
        length, waiting = 1.0, np.arange(len(active))
        for _ in range(HALVINGS):
            trial = points[active[waiting]]
            trial[:, self.field] += length * step[waiting]
            new_values, new_slopes = self.evaluate(trial)
            better = new_values > values[active[waiting]]
            rows = active[waiting[better]]
            points[rows], values[rows] = trial[better], new_values[better]
            slopes[rows] = new_slopes[better]
            waiting = waiting[~better]
            length *= 0.4
            if not len(waiting):
                break
        result = np.ones(len(active), dtype=bool)
        result[waiting] = False
        return result
