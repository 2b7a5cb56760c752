r"""Expectation propagation for Gaussian process classification, and its second-order correction.

EP's log Z leaves out how the likelihoods differ from the Gaussian sites beyond two moments. Opper,
Paquet and Winther expand what is left out in the cumulants of the tilted marginals; to second
order, with V the covariance of EP's Gaussian,

    log Z - log Z_EP ~ sum_{i < j} sum_{l >= 3} c_li c_lj / l! (V_ij / (V_ii V_jj))^l.

The cumulants of Phi(u) N(u; mu, s^2) beyond the second are derivatives of log Phi,
c_l = (s^2 / (1 + s^2)^(1/2))^l (log Phi)^(l)(mu / (1 + s^2)^(1/2)); the paper keeps l = 3 and 4.

References
----------
Opper, Paquet and Winther (2013), Perturbative corrections for approximate inference in Gaussian
latent variable models.
"""

import math
import time
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_ndtr

from pymc_arm._compat import InferenceTree, make_tree
from pymc_arm.families.gpc.ep import Sites, expectation_propagation
from pymc_arm.families.gpc.validation import check_covariance, check_labels, check_mean, factorize
from pymc_arm.results import make_dataset
from pymc_arm.running.chains import spawn_generators

__all__ = ["ep", "second_order_correction"]

LARGEST_CUMULANT = 4


def ep(
    K: Any,
    y: Any,
    *,
    mean: Any = 0.0,
    corrected: bool = True,
    draws: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    name: str = "f",
) -> InferenceTree:
    """Approximate log p(y) of a Gaussian process classifier, and draw from EP's Gaussian q(x).

    Parameters
    ----------
    K
        Covariance matrix of the process at the inputs, positive definite.
    y
        Labels: 0/1, booleans or -1/+1.
    mean
        Prior mean, a number or a vector.
    corrected
        Whether log Z has the second-order correction; both numbers are in ``attrs``.
    draws, chains
        Draws from q(x), which come back as ``posterior``.
    random_seed
        Seed of the draws; log Z does not depend on it.
    name
        Name of the latent process.

    Returns
    -------
    InferenceData or DataTree
        With ``posterior`` and ``sample_stats``, and log Z in ``attrs``. EP has no statistical
        error: the ``log_marginal_likelihood_se`` is the size of the correction, which is the
        error of EP itself to leading order, and a cautious one after correction.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.baselines import ep
    >>> result = ep(np.array([[4.0, 2.0], [2.0, 4.0]]), [1, 1])
    >>> exact = np.log(0.25 + np.arcsin(2 / 5) / (2 * np.pi))
    >>> bool(abs(result.attrs["log_marginal_likelihood"] - exact) < 1e-3)
    True
    """
    started = time.perf_counter()
    covariance = check_covariance(K)
    factorize(covariance)
    signs = check_labels(y, len(covariance))
    prior_mean = check_mean(mean, len(covariance)) * signs
    absorbed = covariance * (signs[:, None] * signs)
    sites = expectation_propagation(absorbed, prior_mean)
    posterior_mean, posterior_covariance = _posterior(absorbed, prior_mean, sites)
    correction = second_order_correction(posterior_mean, posterior_covariance, sites)
    log_evidence = sites.log_evidence + (correction if corrected else 0.0)
    factor = factorize(posterior_covariance, "the covariance of q")
    generators = spawn_generators(random_seed, chains)[:-1]
    noise = np.stack([rng.standard_normal((draws, len(signs))) for rng in generators])
    processes = signs * (posterior_mean + noise @ factor.T)
    seconds = time.perf_counter() - started
    attributes = {
        "inference_library": "pymc_arm",
        "method": "ep",
        "log_marginal_likelihood": log_evidence,
        "log_marginal_likelihood_se": abs(correction),
        "log_marginal_likelihood_df": math.inf,
        "ep_log_marginal_likelihood": sites.log_evidence,
        "second_order_correction": correction,
        "iterations": sites.iterations,
        "converged": int(sites.converged),
        "sampling_time": seconds,
    }
    statistics = xr.Dataset(
        {"log_marginal_likelihood": ("chain", np.full(chains, log_evidence))},
        coords={"chain": np.arange(chains)},
    )
    posterior = make_dataset({name: processes}, ("chain", "draw"), {}, {})
    return make_tree({"posterior": posterior, "sample_stats": statistics}, attributes)


def second_order_correction(mean: np.ndarray, covariance: np.ndarray, sites: Sites) -> float:
    """Return the second-order estimate of log Z - log Z_EP.

    Parameters
    ----------
    mean, covariance
        Of EP's Gaussian, with labels absorbed.
    sites
        The sites at EP's fixed point.
    """
    variance = covariance.diagonal()
    cavity_variance = variance / (1 - sites.precision * variance)
    cavity_mean = cavity_variance * (mean / variance - sites.shift)
    spread = np.sqrt(1 + cavity_variance)
    score = cavity_mean / spread
    hazard = np.exp(-0.5 * score**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(score))
    relative = covariance / (variance[:, None] * variance)
    total = 0.0
    for order in range(3, LARGEST_CUMULANT + 1):
        cumulants = (cavity_variance / spread) ** order * _derivative(order, score, hazard)
        pairs = np.outer(cumulants, cumulants) * relative**order / math.factorial(order)
        total += 0.5 * float(pairs.sum() - pairs.trace())
    return total


def _derivative(order: int, score: np.ndarray, hazard: np.ndarray) -> np.ndarray:
    """Return a derivative of log Phi, a polynomial in z and h with h' = -h (z + h)."""
    terms = {(0, 1): 1.0}
    for _ in range(order - 1):
        following: dict[tuple[int, int], float] = {}
        for (powers, hazards), factor in terms.items():
            pieces = [
                ((powers - 1, hazards), factor * powers),
                ((powers + 1, hazards), -factor * hazards),
                ((powers, hazards + 1), -factor * hazards),
            ]
            for place, value in pieces:
                if value:
                    following[place] = following.get(place, 0.0) + value
        terms = following
    return np.sum([f * score**p * hazard**q for (p, q), f in terms.items()], axis=0)


def _posterior(
    covariance: np.ndarray, mean: np.ndarray, sites: Sites
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the prior times the sites."""
    root = np.sqrt(sites.precision)
    matrix = root[:, None] * covariance * root
    matrix.flat[:: len(matrix) + 1] += 1
    factor = cholesky(matrix, lower=True)
    half = solve_triangular(factor, root[:, None] * covariance, lower=True)
    posterior = covariance - half.T @ half
    pull = sites.shift - sites.precision * mean
    return mean + posterior @ pull, (posterior + posterior.T) / 2
