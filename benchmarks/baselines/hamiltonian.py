"""Hamiltonian Monte Carlo with unit masses on x, all particles at once.

The potential is U(u) = (u - m)^T S (u - m) / 2 - sum_i l_i(u_i) with S = K^{-1} and
l_i(u) = beta log Phi(u) + nu_i u - tau_i u^2 / 2. The only matrix product of a leapfrog step is
S (u - m), shared by all particles; the rest is one compiled loop.
"""

import numpy as np
from numba import njit

from benchmarks.baselines.probit import hazard, log_probit_array
from pymc_arm.algorithm.path import Moved

__all__ = ["hamiltonian_move", "leapfrog", "potential"]

Sites = tuple[np.ndarray, np.ndarray]


@njit(
    "void(f8[:, ::1], f8[:, ::1], f8[:, ::1], f8[::1], f8[::1], f8, f8)",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _kick(
    momentum: np.ndarray,
    points: np.ndarray,
    pull: np.ndarray,
    site_precision: np.ndarray,
    site_shift: np.ndarray,
    beta: float,
    step: float,
) -> None:
    """Subtract the gradient of U, times ``step``; ``pull`` is S (u - m)."""
    for row in range(points.shape[0]):
        for column in range(points.shape[1]):
            u = points[row, column]
            slope = site_shift[column] - site_precision[column] * u
            if beta > 0:
                slope += beta * hazard(u)
            momentum[row, column] -= step * (pull[row, column] - slope)


def potential(
    points: np.ndarray, precision: np.ndarray, mean: np.ndarray, sites: Sites, beta: float
) -> np.ndarray:
    """Return U of each particle."""
    centred = points - mean
    site_precision, site_shift = sites
    quadratic = 0.5 * np.einsum("ij,ij->i", centred @ precision, centred)
    log_likelihood = beta * log_probit_array(points).sum(axis=1)
    log_sites = points @ site_shift - 0.5 * points**2 @ site_precision
    return quadratic - log_likelihood - log_sites


def leapfrog(
    points: np.ndarray,
    momentum: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    sites: Sites,
    beta: float,
    step_size: float,
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return where ``steps`` leapfrog steps lead."""
    points, momentum = points.copy(), momentum.copy()
    for step in range(steps + 1):
        size = step_size if 0 < step < steps else 0.5 * step_size
        _kick(momentum, points, (points - mean) @ precision, *sites, beta, size)
        if step < steps:
            points += step_size * momentum
    return points, momentum


def hamiltonian_move(
    rng: np.random.Generator,
    points: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    sites: Sites,
    beta: float,
    step_size: float,
    steps: int,
) -> Moved:
    """Propose one trajectory for each particle, and accept or reject it.

    Parameters
    ----------
    rng
        Randomness.
    points
        u, (particle, variable).
    precision, mean
        S and m of the prior.
    sites
        Precisions tau and shifts nu of the Gaussian sites, as they count at this beta.
    beta
        The power of the probit likelihoods.
    step_size, steps
        epsilon and l_max.
    """
    momentum = rng.standard_normal(points.shape)
    before = potential(points, precision, mean, sites, beta) + 0.5 * np.sum(momentum**2, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        proposed, ending = leapfrog(
            points, momentum, precision, mean, sites, beta, step_size, steps
        )
        after = potential(proposed, precision, mean, sites, beta) + 0.5 * np.sum(ending**2, axis=1)
        change = np.nan_to_num(before - after, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    probability = np.exp(np.minimum(change, 0.0))
    accepted = rng.random(len(points)) < probability
    return Moved(np.where(accepted[:, None], proposed, points), float(probability.mean()))
