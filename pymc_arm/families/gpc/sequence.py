r"""The Gaussian part of every f_n, plain or with a look-ahead.

The target is N(u; mean, C) times one likelihood for each of u_1, ..., u_N: u is z with C = K + I
and step functions, or x with C = K and probit functions, labels absorbed. The paper's sequence
does not use the labels that are still to come. A look-ahead puts a Gaussian site
t_j(u) = exp(nu_j u - tau_j u^2 / 2) in the place of each:

    f_n(u_[n]) = prod_{i <= n} l_i(u_i) \int N(u; mean, C) prod_{j > n} t_j(u_j) du_{n+1} ... du_N.

The sites leave with their labels, so that f_N is the target itself, and any sites give a valid
sequence; those of EP give one whose steps are almost independent of where the particles are.

Everything follows from one lower triangular matrix V with V^T V = C^{-1} + T, where T = diag(tau).
With v_k its rows, w = V^{-T} (C^{-1} mean + nu),

    precision of u_[n]:    S^(n) = sum_{k <= n} v_k v_k^T - T_[n],
    its natural mean:      h^(n) = sum_{k <= n} v_k w_k - nu_[n],

which grow by O(n^2) a step. Without sites V is the inverse Cholesky factor L^{-1}, C = L L^T. With
sites V = F L^{-1}, where F^T F = I + L^T T L has no eigenvalue below one: no accuracy is lost,
however ill-conditioned C is.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf, dtrtri

from pymc_arm.families.gpc.ep import Sites

__all__ = ["Sequence", "build_sequence", "informative_order", "reorder_sites", "sites_on_z"]


@dataclass(frozen=True)
class Sequence:
    """V, w and the sites of the sequence, and log of the mass of prior times all sites."""

    rows: np.ndarray
    coordinates: np.ndarray
    site_precision: np.ndarray
    site_shift: np.ndarray
    log_mass: float

    def conditional(self, index: int) -> tuple[np.ndarray, float, float]:
        """Return (b, a, s) of u_n | u_[n-1] ~ N(a - b u_[n-1], s^2), n = index + 1, under f_n.

        The labels to come are known through their sites, that of u_n itself is left out.
        """
        row = self.rows[index]
        pivot = row[index]
        precision = pivot**2 - self.site_precision[index]
        constant = pivot * self.coordinates[index] - self.site_shift[index]
        return row[:index] * (pivot / precision), constant / precision, precision**-0.5


def build_sequence(factor: np.ndarray, mean: np.ndarray, sites: Sites | None = None) -> Sequence:
    """Build the sequence of N(mean, L L^T), plain or with sites.

    Parameters
    ----------
    factor
        L, the lower Cholesky factor of C.
    mean
        The prior mean.
    sites
        Sites on u, or None for the paper's sequence.
    """
    size = len(mean)
    inverse = dtrtri(factor, lower=1)[0]
    whitened = inverse @ mean
    if sites is None:
        zero = np.zeros(size)
        return Sequence(np.ascontiguousarray(inverse), whitened, zero, zero, 0.0)
    scaled = np.sqrt(sites.precision)[:, None] * factor
    matrix = scaled.T @ scaled
    matrix.flat[:: size + 1] += 1
    # F^T F instead of F F^T: the Cholesky factor of the matrix with its order reversed.
    reverse = cholesky(matrix[::-1, ::-1], lower=False, check_finite=False)[::-1, ::-1]
    coordinates = solve_triangular(
        reverse, whitened + factor.T @ sites.shift, trans="T", lower=True, check_finite=False
    )
    log_mass = 0.5 * (coordinates @ coordinates - whitened @ whitened) - np.sum(
        np.log(reverse.diagonal())
    )
    rows = np.ascontiguousarray(np.tril(reverse @ inverse))
    return Sequence(rows, coordinates, sites.precision, sites.shift, float(log_mass))


def reorder_sites(sites: Sites, order: np.ndarray) -> Sites:
    """Return the sites in another order."""
    return sites._replace(
        precision=sites.precision[order], shift=sites.shift[order], score=sites.score[order]
    )


def sites_on_z(sites: Sites) -> Sites:
    """Move sites from x to z = x + noise of variance one.

    A site on z of variance s^2 - 1 looks, from x, like one of variance s^2; sites of probit
    likelihoods always have s^2 > 1.
    """
    remainder = 1 - sites.precision
    return sites._replace(precision=sites.precision / remainder, shift=sites.shift / remainder)


def informative_order(covariance: np.ndarray, sites: Sites | None = None) -> np.ndarray:
    """Return an order in which the variables that tell most come first.

    With EP sites these are the labels EP is least sure of: what a site gets wrong about its
    label is then corrected while few variables have come in. Over the whole sequence of the
    hardest setting of the paper, independent draws are about 70 % effective in this order and
    about 10 % as given; it was the best of eleven orders tried there.
    Without sites each variable is the one least determined by those before it: the order of the
    pivots of a Cholesky factorisation. It does not look at the labels, so that data
    sorted by label, which make the order as given useless there, do no harm.
    """
    if sites is not None:
        return np.argsort(sites.score, kind="stable")
    pivots = dpstrf(covariance, lower=1)[1]
    return np.asarray(pivots, dtype=np.int64) - 1
