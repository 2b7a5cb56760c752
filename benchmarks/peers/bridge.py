"""Warp-3 bridge sampling: log Z from posterior draws.

The draws are halved. The first half gives a mean m and a covariance L L'. The second is compared
with a standard normal g, after the posterior q has been moved, scaled and made symmetric like it,

    w(z) = |L| (q(m + L z) + q(m - L z)) / 2,

which has the same integral (Meng and Schilling, 2002). With l = w / g at the n1 (effective) draws
of the posterior and at n2 of g, the optimal bridge is the fixed point of

    Z = mean_g[l / (s1 l + s2 Z)] / mean_w[1 / (s1 l + s2 Z)],   s1 = n1 / (n1 + n2) = 1 - s2

(Gronau et al., 2017, and their package bridgesampling).
"""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

__all__ = ["warp3_bridge", "warp3_bridge_with_error"]

TOLERANCE = 1e-10
MOST_ITERATIONS = 1000


def warp3_bridge(
    draws: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    effective_sample_size: float | None = None,
) -> float:
    """Return log Z; the parameters are those of `warp3_bridge_with_error`."""
    return warp3_bridge_with_error(draws, log_density, rng, effective_sample_size)[0]


def warp3_bridge_with_error(
    draws: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    effective_sample_size: float | None = None,
) -> tuple[float, float]:
    """Return log Z and its standard error.

    The error is the square root of the approximate relative mean squared error of
    Frühwirth-Schnatter (2004), with dependent draws counted by their effective number.

    Parameters
    ----------
    draws
        (chains, draws, dimension) draws from the posterior, in an unconstrained space. The first
        half of every chain fits the proposal.
    log_density
        The log of likelihood times prior at (n, dimension) points.
    rng
        Draws from the proposal.
    effective_sample_size
        Of the second half; all of its draws by default.
    """
    half = draws.shape[1] // 2
    dimension = draws.shape[-1]
    fitting = draws[:, :half].reshape(-1, dimension)
    estimating = draws[:, half:].reshape(-1, dimension)
    mean = fitting.mean(axis=0)
    factor = np.linalg.cholesky(np.cov(fitting, rowvar=False).reshape(dimension, dimension))
    log_volume = np.log(np.diag(factor)).sum()

    def log_ratio(z: np.ndarray) -> np.ndarray:
        """Return log w(z) - log g(z)."""
        shift = z @ factor.T
        both = np.logaddexp(log_density(mean + shift), log_density(mean - shift))
        normal = -0.5 * (z**2).sum(axis=1) - 0.5 * dimension * np.log(2 * np.pi)
        return both + log_volume - np.log(2) - normal

    posterior = log_ratio(np.linalg.solve(factor, (estimating - mean).T).T)
    proposal = log_ratio(rng.standard_normal(estimating.shape))
    size = len(estimating) if effective_sample_size is None else effective_sample_size
    log_evidence = _optimal_bridge(posterior, proposal, size)
    return log_evidence, _relative_error(posterior, proposal, size, log_evidence)


def _optimal_bridge(posterior: np.ndarray, proposal: np.ndarray, size: float) -> float:
    """Iterate to the fixed point, from log ratios at draws of both densities."""
    log_share = np.log(size) - np.log(size + len(proposal))
    log_rest = np.log(len(proposal)) - np.log(size + len(proposal))
    log_evidence = float(np.median(posterior))
    for _ in range(MOST_ITERATIONS):
        above = logsumexp(
            proposal - np.logaddexp(log_share + proposal, log_rest + log_evidence)
        ) - np.log(len(proposal))
        below = logsumexp(-np.logaddexp(log_share + posterior, log_rest + log_evidence)) - np.log(
            len(posterior)
        )
        previous, log_evidence = log_evidence, float(above - below)
        if abs(log_evidence - previous) < TOLERANCE * max(1.0, abs(log_evidence)):
            return log_evidence
    raise RuntimeError(f"bridge sampling did not converge in {MOST_ITERATIONS} iterations")


def _relative_error(
    posterior: np.ndarray, proposal: np.ndarray, size: float, log_evidence: float
) -> float:
    share = size / (size + len(proposal))
    # p / (s1 p + s2 g) at draws of g, and g / (s1 p + s2 g) at draws of the posterior p.
    of_proposal = 1 / (share + (1 - share) * np.exp(log_evidence - proposal))
    of_posterior = 1 / (share * np.exp(posterior - log_evidence) + 1 - share)
    error = of_proposal.var() / of_proposal.mean() ** 2 / len(proposal)
    error += of_posterior.var() / of_posterior.mean() ** 2 / size
    return float(np.sqrt(error))
