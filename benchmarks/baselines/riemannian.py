r"""Riemannian manifold Hamiltonian Monte Carlo for a Gaussian process with probit likelihoods.

Girolami and Calderhead's metric is the expected curvature of the negative log-posterior: here
G(u) = K^{-1} + Lambda(u), with Lambda diagonal, the expected curvature of the likelihood (see
:mod:`benchmarks.baselines.probit`) plus the precisions of Gaussian sites. The dynamics are the same
in any linear coordinates, so they run in v, u = m + L v, K = L L^T, where

    G = I + L^T Lambda L,
    H(v, p) = v^T v / 2 - sum_i l_i(u_i) + log |G| / 2 + p^T G^{-1} p / 2.

Everything comes from the Cholesky factor C of B = I + Lambda^(1/2) K Lambda^(1/2), whose
eigenvalues are 1 or more however ill-conditioned K is:

    |G| = |B|,   G^{-1} = I - L^T Lambda^(1/2) B^{-1} Lambda^(1/2) L,
    dH/dv = v - L^T [l' - t / 2 + Lambda' w^2 / 2],
    w = L G^{-1} p,   t_i = Lambda'_i (L G^{-1} L^T)_ii = (Lambda'_i / Lambda_i) (1 - (B^{-1})_ii).

G depends on v, so that the leapfrog steps for p and v are implicit; both are solved by fixed-point
iteration (the generalised leapfrog), to a tolerance at which the map is reversible. A proposal
whose iteration does not converge is rejected.

References
----------
Girolami and Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods.
Paquet and Fraccaro (2016), An efficient implementation of Riemannian manifold Hamiltonian Monte
Carlo for Gaussian process models.
"""

import numpy as np
from numba import njit

from benchmarks.baselines.probit import (
    expected_curvature,
    expected_curvature_array,
    hazard,
    log_probit,
    log_probit_array,
)

__all__ = ["hamiltonian", "inverse_diagonal", "riemannian_move", "trajectory"]

# Largest change of a coordinate of v or p in the last fixed-point iteration.
TOLERANCE = 1e-8
MOST_ITERATIONS = 60
# Beyond this a trajectory has diverged.
FAR = 1e8
BLOCK = 64

_options = {"cache": True, "nogil": True, "error_model": "numpy"}
_reorder = {"reassoc", "contract", "nsz"}


@njit("f8[::1](f8[:, ::1], f8[::1])", fastmath=_reorder, **_options)
def _solve_lower(factor: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return C^{-1} b."""
    size = len(vector)
    out = np.empty(size)
    for row in range(size):
        total = 0.0
        for column in range(row):
            total += factor[row, column] * out[column]
        out[row] = (vector[row] - total) / factor[row, row]
    return out


@njit("f8[::1](f8[:, ::1], f8[::1])", fastmath=_reorder, **_options)
def _solve_upper(factor: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return C^{-T} b, going through C by rows."""
    size = len(vector)
    out = vector.copy()
    for row in range(size - 1, -1, -1):
        out[row] /= factor[row, row]
        value = out[row]
        for column in range(row):
            out[column] -= factor[row, column] * value
    return out


@njit("f8[:, ::1](f8[:, ::1])", **_options)
def _invert_block(factor: np.ndarray) -> np.ndarray:
    """Return the inverse of a small lower triangular matrix."""
    size = len(factor)
    out = np.zeros((size, size))
    for column in range(size):
        out[column, column] = 1 / factor[column, column]
        for row in range(column + 1, size):
            total = 0.0
            for index in range(column, row):
                total += factor[row, index] * out[index, column]
            out[row, column] = -total / factor[row, row]
    return out


@njit("f8[::1](f8[:, ::1])", **_options)
def inverse_diagonal(factor: np.ndarray) -> np.ndarray:
    """Return the diagonal of (C C^T)^{-1}, by inverting C in blocks with matrix products."""
    size = len(factor)
    inverse = np.zeros((size, size))
    for first in range(0, size, BLOCK):
        last = min(first + BLOCK, size)
        corner = _invert_block(factor[first:last, first:last].copy())
        inverse[first:last, first:last] = corner
        if first:
            across = np.dot(factor[first:last, :first].copy(), inverse[:first, :first].copy())
            inverse[first:last, :first] = -np.dot(corner, across)
    out = np.zeros(size)
    for row in range(size):
        for column in range(row + 1):
            out[column] += inverse[row, column] ** 2
    return out


@njit(**_options)
def _fill(
    u: np.ndarray,
    covariance: np.ndarray,
    site_precision: np.ndarray,
    site_shift: np.ndarray,
    beta: float,
    metric: np.ndarray,
    slope: np.ndarray,
    gradient: np.ndarray,
    root: np.ndarray,
) -> np.ndarray:
    """Set Lambda, Lambda', l' and Lambda^(1/2) at u, and return the Cholesky factor of B."""
    size = len(u)
    for index in range(size):
        value, derivative = expected_curvature(u[index], beta)
        metric[index] = value + site_precision[index]
        slope[index] = derivative
        gradient[index] = site_shift[index] - site_precision[index] * u[index]
        if beta > 0:
            gradient[index] += beta * hazard(u[index])
        root[index] = np.sqrt(metric[index])
    matrix = np.empty((size, size))
    for row in range(size):
        for column in range(size):
            matrix[row, column] = root[row] * covariance[row, column] * root[column]
        matrix[row, row] += 1.0
    return np.linalg.cholesky(matrix)


@njit(**_options)
def _velocity(
    momentum: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    root: np.ndarray,
    factor: np.ndarray,
) -> np.ndarray:
    """Return G^{-1} p."""
    inner = _solve_upper(factor, _solve_lower(factor, root * np.dot(lower, momentum)))
    return momentum - np.dot(upper, root * inner)


@njit(**_options)
def _forces(
    v: np.ndarray,
    upper: np.ndarray,
    metric: np.ndarray,
    slope: np.ndarray,
    gradient: np.ndarray,
    factor: np.ndarray,
) -> np.ndarray:
    """Return the part of dH/dv that does not depend on p."""
    diagonal = inverse_diagonal(factor)
    inside = gradient.copy()
    for index in range(len(v)):
        if metric[index] > 0:
            inside[index] -= 0.5 * slope[index] / metric[index] * (1 - diagonal[index])
    return v - np.dot(upper, inside)


@njit(**_options)
def _energy(
    v: np.ndarray,
    u: np.ndarray,
    momentum: np.ndarray,
    lower: np.ndarray,
    site_precision: np.ndarray,
    site_shift: np.ndarray,
    beta: float,
    root: np.ndarray,
    factor: np.ndarray,
) -> float:
    """Return H."""
    total = 0.0
    solved = _solve_lower(factor, root * np.dot(lower, momentum))
    for index in range(len(v)):
        total += 0.5 * (v[index] ** 2 + momentum[index] ** 2 - solved[index] ** 2)
        total += np.log(factor[index, index])
        total -= site_shift[index] * u[index] - 0.5 * site_precision[index] * u[index] ** 2
        if beta > 0:
            total -= beta * log_probit(u[index])
    return total


@njit(**_options)
def trajectory(
    start: np.ndarray,
    noise: np.ndarray,
    direct: bool,
    covariance: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    mean: np.ndarray,
    site_precision: np.ndarray,
    site_shift: np.ndarray,
    beta: float,
    step_size: float,
    steps: int,
) -> tuple[np.ndarray, np.ndarray, float, float, bool]:
    """Follow the dynamics from v; return v, p, H at the start, H at the end, and convergence.

    ``noise`` is the momentum itself if ``direct``, else two vectors of standard normal numbers in
    a row, out of which the momentum is made: p = n_1 + L^T Lambda^(1/2) n_2 has covariance G.
    """
    size = len(start)
    metric, slope = np.empty(size), np.empty(size)
    gradient, root = np.empty(size), np.empty(size)
    v = start.copy()
    u = mean + np.dot(lower, v)
    factor = _fill(u, covariance, site_precision, site_shift, beta, metric, slope, gradient, root)
    momentum = noise[:size].copy()
    if not direct:
        momentum += np.dot(upper, root * noise[size:])
    first = _energy(v, u, momentum, lower, site_precision, site_shift, beta, root, factor)
    forces = _forces(v, upper, metric, slope, gradient, factor)
    half = 0.5 * step_size
    for _ in range(steps):
        guess = momentum.copy()
        converged = False
        for _ in range(MOST_ITERATIONS):
            w = np.dot(lower, _velocity(guess, lower, upper, root, factor))
            new = momentum - half * (forces - 0.5 * np.dot(upper, slope * w * w))
            change = np.max(np.abs(new - guess))
            guess = new
            if not change < FAR:
                break
            if change < TOLERANCE:
                converged = True
                break
        if not converged:
            return v, momentum, first, np.inf, False
        momentum = guess
        velocity = _velocity(momentum, lower, upper, root, factor)
        place = v + step_size * velocity
        converged = False
        for _ in range(MOST_ITERATIONS):
            u = mean + np.dot(lower, place)
            factor = _fill(
                u, covariance, site_precision, site_shift, beta, metric, slope, gradient, root
            )
            there = _velocity(momentum, lower, upper, root, factor)
            new = v + half * (velocity + there)
            change = np.max(np.abs(new - place))
            place = new
            if not change < FAR:
                break
            if change < TOLERANCE:
                converged = True
                break
        if not converged:
            return v, momentum, first, np.inf, False
        v = place
        u = mean + np.dot(lower, v)
        factor = _fill(
            u, covariance, site_precision, site_shift, beta, metric, slope, gradient, root
        )
        forces = _forces(v, upper, metric, slope, gradient, factor)
        w = np.dot(lower, _velocity(momentum, lower, upper, root, factor))
        momentum = momentum - half * (forces - 0.5 * np.dot(upper, slope * w * w))
    last = _energy(v, u, momentum, lower, site_precision, site_shift, beta, root, factor)
    return v, momentum, first, last, True


def riemannian_move(
    rng: np.random.Generator,
    points: np.ndarray,
    covariance: np.ndarray,
    lower: np.ndarray,
    mean: np.ndarray,
    sites: tuple[np.ndarray, np.ndarray],
    beta: float,
    step_size: float,
    steps: int,
) -> tuple[np.ndarray, float]:
    """Propose one trajectory for each particle, and accept or reject it.

    Parameters
    ----------
    rng
        Randomness.
    points
        v, (particle, variable), with u = m + L v.
    covariance, lower, mean
        K, its Cholesky factor L, and m.
    sites
        Precisions and shifts of the Gaussian sites, as they count at this beta.
    beta
        The power of the probit likelihoods.
    step_size, steps
        epsilon and l_max.

    Returns
    -------
    tuple
        The particles, and the mean acceptance probability.
    """
    size, dimension = points.shape
    noise = rng.standard_normal((size, 2 * dimension))
    uniform = rng.random((size,))
    upper = np.ascontiguousarray(lower.T)
    target = (covariance, lower, upper, mean, *sites, beta, step_size, steps)
    moved = points.copy()
    probabilities = np.zeros(size)
    for particle in range(size):
        v, _, before, after, converged = trajectory(
            points[particle], noise[particle], False, *target
        )
        if converged and np.isfinite(after):
            probabilities[particle] = np.exp(min(before - after, 0.0))
            if uniform[particle] < probabilities[particle]:
                moved[particle] = v
    return moved, float(probabilities.mean())


def hamiltonian(
    v: np.ndarray,
    momentum: np.ndarray,
    covariance: np.ndarray,
    lower: np.ndarray,
    mean: np.ndarray,
    sites: tuple[np.ndarray, np.ndarray],
    beta: float,
) -> float:
    """Return H(v, p), written out with dense matrices; slow, to check the trajectory against."""
    site_precision, site_shift = sites
    u = mean + lower @ v
    metric = expected_curvature_array(u, beta)[0] + site_precision
    matrix = np.eye(len(v)) + lower.T @ (metric[:, None] * lower)
    log_likelihood = beta * log_probit_array(u[None]).sum()
    log_sites = site_shift @ u - 0.5 * site_precision @ u**2
    kinetic = 0.5 * momentum @ np.linalg.solve(matrix, momentum)
    return float(
        0.5 * v @ v - log_likelihood - log_sites + 0.5 * np.linalg.slogdet(matrix)[1] + kinetic
    )
