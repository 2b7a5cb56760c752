"""Means and widths of coordinates, given one of them that drives the others.

Means m(u) and logs of widths log s(u) are linear in functions of the driver u, the columns of a
basis. Means are fitted by weighted least squares, and widths by likelihood.
"""

import numpy as np

__all__ = ["fit_location_scale", "transform_gradients"]

# Means and widths are fitted in turn, so often.
ROUNDS = 2
# Of the variance, so that means of collinear columns have a solution.
RIDGE = 1e-9
# The largest change of a coefficient of log s in one iteration.
LARGEST_STEP = 0.5


def fit_location_scale(
    points: np.ndarray,
    driver: int,
    basis: np.ndarray,
    width_basis: np.ndarray,
    iterations: int,
    largest_square: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of m and of log s, with a column for each coordinate.

    Parameters
    ----------
    points
        (size, dimension).
    driver
        The number of the driving coordinate, whose own coefficients are zero.
    basis, width_basis
        The functions of the driver that m and log s are linear in, (size, functions); the first is
        one.
    iterations
        Iterations of Fisher's scoring for the widths.
    largest_square
        A single point counts for no more than this, in units of the variance.
    """
    ridge = RIDGE * np.eye(basis.shape[1])
    information = np.linalg.pinv(2 * width_basis.T @ width_basis)
    weights = np.ones_like(points)
    for _ in range(ROUNDS):
        normal = np.einsum("nk,nd,nl->dkl", basis, weights, basis, optimize=True)
        normal += np.trace(normal, axis1=1, axis2=2)[:, None, None] * ridge
        right = (basis.T @ (weights * points)).T
        means = np.linalg.solve(normal, right[..., None])[..., 0].T
        residual = points - basis @ means
        widths = np.zeros((width_basis.shape[1], points.shape[1]))
        widths[0] = np.log(np.maximum(residual.std(axis=0), 1e-300))
        for _ in range(iterations):  # Fisher's scoring
            square = np.minimum((residual * np.exp(-width_basis @ widths)) ** 2, largest_square)
            step = information @ (width_basis.T @ (square - 1))
            widths += np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        weights = np.exp(-2 * (width_basis @ widths - widths[0]))
    means[:, driver], widths[:, driver] = 0.0, 0.0
    return means, widths


def transform_gradients(
    gradients: np.ndarray,
    standardized: np.ndarray,
    driver: int,
    log_width: np.ndarray,
    mean_slopes: np.ndarray,
    width_slopes: np.ndarray,
) -> np.ndarray:
    """Return the gradient of the log-density of y = (x - m(u)) / s(u), from that of x.

    Parameters
    ----------
    gradients
        Those of x.
    standardized
        y, whose driver is that of x.
    driver
        The number of the driving coordinate.
    log_width
        log s at each point.
    mean_slopes, width_slopes
        The derivatives of m and of log s with respect to the driver.
    """
    transformed = gradients * np.exp(log_width)
    through_driver = gradients * mean_slopes + width_slopes * (transformed * standardized + 1)
    transformed[:, driver] += through_driver.sum(axis=1)
    return transformed
