"""Expectation propagation for a Gaussian process with probit likelihoods.

EP replaces each likelihood Phi(x_i) by a Gaussian site exp(nu_i x_i - tau_i x_i^2 / 2), chosen so
that the site and the likelihood give the same first two moments when either is put in the place
of the other. All sites are updated at once, with a step that is halved while it fails to bring the
sites closer to their fixed point. Labels are absorbed: the process is y_i x_i.

References
----------
Minka (2001), Expectation propagation for approximate Bayesian inference.
Rasmussen and Williams (2006), Gaussian processes for machine learning, section 3.6.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_ndtr

from pymc_arm.errors import ArmWarning

__all__ = ["Sites", "expectation_propagation", "log_site_mass"]

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
SMALLEST_STEP = 0.05


class Sites(NamedTuple):
    """Gaussian sites on x, in natural parameters, and what EP says of labels and of log Z.

    ``score`` is mean / (1 + variance)^(1/2) of each x_i in the approximation; Phi of it is the
    probability that the approximation gives to the label.
    """

    precision: np.ndarray
    shift: np.ndarray
    score: np.ndarray
    log_evidence: float
    iterations: int
    converged: bool


def log_site_mass(
    precision: np.ndarray | float,
    shift: np.ndarray | float,
    mean: np.ndarray,
    variance: np.ndarray | float,
) -> np.ndarray:
    """Return log of the integral of exp(nu x - tau x^2 / 2) N(x; mean, variance)."""
    growth = 1 + precision * variance
    exponent = 2 * mean * shift + shift**2 * variance - precision * mean**2
    return 0.5 * (exponent / growth - np.log(growth))


class _Marginals(NamedTuple):
    """Means and variances of the approximation, and half the log-determinant of B."""

    mean: np.ndarray
    variance: np.ndarray
    half_log_determinant: float


def _marginals(
    covariance: np.ndarray, mean: np.ndarray, precision: np.ndarray, shift: np.ndarray
) -> _Marginals:
    """Multiply prior and sites, with B = I + T^(1/2) K T^(1/2), whose eigenvalues are 1 or more."""
    root = np.sqrt(precision)
    matrix = root[:, None] * covariance * root
    matrix.flat[:: len(matrix) + 1] += 1
    factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    half = solve_triangular(
        factor, root[:, None] * covariance, lower=True, overwrite_b=True, check_finite=False
    )
    variance = covariance.diagonal() - np.einsum("ij,ij->j", half, half)
    pull = shift - precision * mean
    posterior_mean = mean + covariance @ pull - half.T @ (half @ pull)
    return _Marginals(posterior_mean, variance, float(np.sum(np.log(factor.diagonal()))))


def _cavities(
    marginals: _Marginals, precision: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each x_i with its own site taken out."""
    variance = marginals.variance / (1 - precision * marginals.variance)
    mean = variance * (marginals.mean / marginals.variance - shift)
    return mean, variance


def _match_moments(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sites that match the moments of Phi(x) N(x; mean, variance)."""
    total = 1 + variance
    score = mean / np.sqrt(total)
    hazard = np.exp(-0.5 * score**2 - HALF_LOG_TWO_PI - log_ndtr(score))
    slope = hazard / np.sqrt(total)
    curvature = hazard * (score + hazard) / total
    precision = curvature / (1 - curvature * variance)
    shift = (slope + mean * curvature) / (1 - curvature * variance)
    return precision, shift


def expectation_propagation(
    covariance: np.ndarray,
    mean: np.ndarray | None = None,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
) -> Sites:
    """Run EP to convergence on N(x; mean, K) prod_i Phi(x_i).

    Parameters
    ----------
    covariance
        K with labels absorbed, y_i y_j K_ij.
    mean
        Prior mean with labels absorbed, y_i m_i; zero by default.
    tolerance
        The largest change of a site, relative to the largest site, at which EP has converged.
    max_iterations
        The largest number of updates; a warning says when it is reached.

    Returns
    -------
    Sites
        With ``log_evidence`` = log Z_EP, the log of the integral of prior times sites, each
        scaled so that it has the mass of its likelihood in its cavity.
    """
    size = len(covariance)
    prior_mean = np.zeros(size) if mean is None else mean
    precision, shift = np.zeros(size), np.zeros(size)
    step, last_change, change = 1.0, np.inf, np.inf
    iteration = 0
    marginals = _marginals(covariance, prior_mean, precision, shift)
    while iteration < max_iterations:
        iteration += 1
        wanted_precision, wanted_shift = _match_moments(*_cavities(marginals, precision, shift))
        change = max(
            np.max(np.abs(wanted_precision - precision)) / np.max(wanted_precision),
            np.max(np.abs(wanted_shift - shift)) / np.max(np.abs(wanted_shift)),
        )
        step = max(step / 2, SMALLEST_STEP) if change > last_change else min(step * 1.1, 1.0)
        last_change = change
        precision = precision + step * (wanted_precision - precision)
        shift = shift + step * (wanted_shift - shift)
        marginals = _marginals(covariance, prior_mean, precision, shift)
        if change < tolerance:
            break
    converged = bool(change < tolerance)
    if not converged:
        warnings.warn(
            f"EP has not converged in {max_iterations} iterations: its sites still change by "
            f"{change:.1e}. The look-ahead stays valid, but may help less.",
            ArmWarning,
            stacklevel=2,
        )
    cavity_mean, cavity_variance = _cavities(marginals, precision, shift)
    log_scales = log_ndtr(cavity_mean / np.sqrt(1 + cavity_variance)) - log_site_mass(
        precision, shift, cavity_mean, cavity_variance
    )
    pull = shift - precision * prior_mean
    exponent = (
        0.5 * pull @ (marginals.mean - prior_mean)
        + prior_mean @ shift
        - 0.5 * precision @ prior_mean**2
    )
    log_evidence = float(np.sum(log_scales) + exponent - marginals.half_log_determinant)
    score = marginals.mean / np.sqrt(1 + marginals.variance)
    return Sites(precision, shift, score, log_evidence, iteration, converged)
