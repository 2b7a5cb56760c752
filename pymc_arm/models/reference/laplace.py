"""Laplace's method with gradients: the Hessian by differences, and steps to the mode."""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from pymc_arm.models.fields.view import FieldView
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.optimize import maximize
from pymc_arm.models.reference.target import View

__all__ = ["STEPS", "Laplace", "climb", "laplace"]

# The step of the differences, in prior widths; posteriors are rarely 1000 times narrower, and
# a smaller step would lose digits of gradients of 10^5 observations.
DIFFERENCE = 1e-4
# In prior widths the posterior's precision is at least this: data may widen a coordinate, but
# a flat or upward curved direction says that the mode is not reached, not that it is wide.
SMALLEST_PRECISION = 0.25
# Hessians on the way to a mode, and quasi-Newton steps between them.
HESSIANS, STEPS = 4, 40
# A mode is reached when a step of Newton's method would gain less, in nats.
SMALLEST_GAIN = 1e-3


@dataclass(frozen=True)
class Laplace:
    """A Gaussian at a mode: its mean and factor, log-mass, and what another step would gain."""

    mean: np.ndarray
    factor: np.ndarray
    precision_diagonal: np.ndarray
    height: float
    gain: float
    evaluations: int

    @property
    def log_mass(self) -> float:
        """Laplace's estimate of log Z around the mode."""
        dimension = len(self.mean)
        log_determinant = np.linalg.slogdet(self.factor)[1]
        return self.height + 0.5 * dimension * np.log(2 * np.pi) + float(log_determinant)


def laplace(view: View | FieldView, point: np.ndarray, scale: np.ndarray) -> Laplace:
    """Return the Gaussian whose curvature is that of the density at a point."""
    dimension = len(point)
    step = DIFFERENCE * scale
    shifts = np.diag(step)
    values, gradients = view(np.concatenate([point + shifts, point - shifts, point[None]]))
    ahead, behind = gradients[:dimension], gradients[dimension:-1]
    hessian = (ahead - behind) / (2 * step[:, None])
    precision = -0.5 * (hessian + hessian.T) * np.outer(scale, scale)
    broken = ~np.isfinite(precision).all(axis=1)
    precision[broken], precision[:, broken] = 0.0, 0.0
    inverse = _inverse_factor(precision)  # precision^-1 = inverse inverse^T
    slope = gradients[-1] * scale
    pulled = slope @ inverse
    return Laplace(
        point,
        scale[:, None] * inverse,
        np.diag(precision).copy(),
        float(values[-1]),
        float(0.5 * pulled @ pulled),
        2 * dimension + 1,
    )


def climb(view: View, point: np.ndarray, scale: np.ndarray) -> Laplace:
    """Go to the mode near a point by quasi-Newton steps in coordinates that its Hessian whitens.

    A Hessian costs 2 d gradients, and a step one; Newton's method took 12 Hessians on radon.
    """
    found = laplace(view, point, scale)
    evaluations = found.evaluations
    for _ in range(HESSIANS - 1):
        if found.gain < SMALLEST_GAIN:
            break
        chart = Chart(view, found.mean, found.factor, central=False)
        ended = maximize(chart, np.zeros((1, len(point))), np.ones(len(point)), STEPS)
        following = laplace(view, chart.to_view(ended.points)[0], scale)
        evaluations += ended.evaluations + following.evaluations
        if not following.height > found.height:
            break
        found = following
    return replace(found, evaluations=evaluations)


def _inverse_factor(precision: np.ndarray) -> np.ndarray:
    """Return a factor of the inverse, with eigenvalues not below the smallest."""
    dimension = len(precision)
    floor = SMALLEST_PRECISION * np.eye(dimension)
    try:
        np.linalg.cholesky(precision - floor)
        lower = np.linalg.cholesky(precision)
        inverse = scipy.linalg.solve_triangular(lower, np.eye(dimension), lower=True)
        return inverse.T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        return vectors * np.maximum(np.abs(values), SMALLEST_PRECISION) ** -0.5
