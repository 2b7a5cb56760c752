"""The exact arithmetic that the truths share: quadrature in logs and Gaussian algebra.

Every truth of the suite is one of four things: a closed form, a finite sum, a Gaussian integral, or
a low-dimensional integral of one of these. The integrals are composite Gauss-Legendre rules over a
box that holds all of the mass; the rule is plain on purpose, since it can be judged by refining it.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg
from scipy.special import betaln, gammaln, logsumexp

__all__ = [
    "Rule",
    "binary_configurations",
    "configurations",
    "gauss_legendre",
    "log_beta_binomial",
    "log_integral",
    "log_inverse_gamma_regression",
    "log_multivariate_normal",
]

Rule = tuple[np.ndarray, np.ndarray]


def gauss_legendre(lower: float, upper: float, panels: int = 10, order: int = 16) -> Rule:
    """Composite Gauss-Legendre rule on ``[lower, upper]``.

    Parameters
    ----------
    lower, upper
        End points of the interval.
    panels
        Number of equal sub-intervals.
    order
        Number of nodes in each.

    Returns
    -------
    nodes, log_weights
        One-dimensional arrays of length ``panels * order``.
    """
    unit_nodes, unit_weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(lower, upper, panels + 1)
    half_widths = np.diff(edges)[:, None] / 2
    nodes = edges[:-1, None] + half_widths * (unit_nodes + 1)
    return nodes.ravel(), np.log(half_widths * unit_weights).ravel()


def log_integral(log_integrand: Callable[..., np.ndarray], *rules: Rule) -> float:
    r"""Logarithm of :math:`\int \exp(g(x_1, \ldots, x_d))\,dx` by a product rule.

    Parameters
    ----------
    log_integrand
        ``g``, called once with ``d`` arrays that broadcast against each other to the whole grid.
    rules
        One rule for each axis.

    Returns
    -------
    float
    """
    nodes = np.meshgrid(*(rule[0] for rule in rules), indexing="ij", sparse=True)
    log_weights = np.meshgrid(*(rule[1] for rule in rules), indexing="ij", sparse=True)
    return float(logsumexp(log_integrand(*nodes) + sum(log_weights)))


def log_multivariate_normal(
    values: np.ndarray, mean: np.ndarray | float, covariance: np.ndarray
) -> float:
    """Log density of one Gaussian vector, by Cholesky."""
    factor = linalg.cholesky(covariance, lower=True)
    standardized = linalg.solve_triangular(factor, values - mean, lower=True)
    return float(
        -0.5 * standardized @ standardized
        - np.log(np.diag(factor)).sum()
        - 0.5 * len(values) * np.log(2 * np.pi)
    )


def log_inverse_gamma_regression(
    response: np.ndarray,
    design: np.ndarray,
    prior_mean: np.ndarray,
    prior_scale: np.ndarray,
    shape: float,
    rate: float,
) -> float:
    r"""Evidence of the conjugate linear regression.

    :math:`\sigma^2 \sim \mathrm{InverseGamma}(a, b)`, :math:`\beta \mid \sigma^2 \sim N(m, \sigma^2
    V)`, :math:`y \mid \beta, \sigma^2 \sim N(X\beta, \sigma^2 I)`; marginally y is multivariate
    Student-t with 2a degrees of freedom, location Xm and scale (b/a)(I + X V X').

    Parameters
    ----------
    response, design
        y and X.
    prior_mean, prior_scale
        m and V.
    shape, rate
        a and b.

    Returns
    -------
    float
    """
    count = len(response)
    scale = np.eye(count) + design @ prior_scale @ design.T
    factor = linalg.cholesky(scale, lower=True)
    standardized = linalg.solve_triangular(factor, response - design @ prior_mean, lower=True)
    return float(
        gammaln(shape + count / 2)
        - gammaln(shape)
        + shape * np.log(rate)
        - (shape + count / 2) * np.log(rate + 0.5 * standardized @ standardized)
        - np.log(np.diag(factor)).sum()
        - 0.5 * count * np.log(2 * np.pi)
    )


def log_beta_binomial(
    successes: np.ndarray | int,
    trials: np.ndarray | int,
    alpha: np.ndarray | float,
    beta: np.ndarray | float,
) -> np.ndarray:
    """Log probability of beta-binomial counts."""
    log_choose = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(trials - successes + 1)
    return log_choose + betaln(alpha + successes, beta + trials - successes) - betaln(alpha, beta)


def configurations(length: int, levels: int) -> np.ndarray:
    """All ``levels ** length`` integer vectors, one a row."""
    return np.indices((levels,) * length).reshape(length, -1).T


def binary_configurations(length: int) -> np.ndarray:
    """All ``2 ** length`` vectors of zeros and ones, one a row."""
    return configurations(length, 2)
