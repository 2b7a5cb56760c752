"""The exact arithmetic that the adversaries share, besides that of `benchmarks.suite.numerics`.

Scales and precisions are integrated over their logarithm, and everything conditionally Gaussian is
integrated in closed form in the coordinates in which its covariance is diagonal. So a vague prior,
a raw predictor or a noise of 1e-6 costs no digits.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

from benchmarks.adversarial.problem import Answer
from benchmarks.suite.numerics import Rule

__all__ = [
    "GaussianRegression",
    "log_gamma_poisson",
    "log_half_cauchy",
    "log_half_student",
    "log_inverse_gamma",
    "log_order_probability",
    "log_unknown_mean",
    "mixed",
    "solve_on_grid",
    "whitened_rules",
]


def solve_on_grid(
    log_joint: Callable[..., np.ndarray],
    *rules: Rule,
    moments: Mapping[str, Callable[..., np.ndarray]] | None = None,
) -> Answer:
    """Integrate a density on a product grid, with posterior moments of functions of the nodes.

    Parameters
    ----------
    log_joint
        Log-density, called with one sparse array of nodes for each rule.
    rules
        Nodes and log weights of each axis.
    moments
        Label to a function of the nodes, whose posterior mean and standard deviation are wanted.
    """
    nodes = np.meshgrid(*(rule[0] for rule in rules), indexing="ij", sparse=True)
    log_weights = np.meshgrid(*(rule[1] for rule in rules), indexing="ij", sparse=True)
    log_terms = log_joint(*nodes) + sum(log_weights)
    total = float(logsumexp(log_terms))
    posterior = np.exp(log_terms - total)
    found = {}
    for label, function in (moments or {}).items():
        values = np.broadcast_to(function(*nodes), posterior.shape)
        mean = float((posterior * values).sum())
        found[label] = mean, float(np.sqrt((posterior * (values - mean) ** 2).sum()))
    return Answer(total, found)


def mixed(log_weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of a mixture; the log weights need not be normalised."""
    weights = np.exp(log_weights - logsumexp(log_weights))
    mean = float((weights * means).sum())
    return mean, float(np.sqrt((weights * (variances + (means - mean) ** 2)).sum()))


class GaussianRegression:
    r"""Linear regression with independent normal coefficients, for many noise levels at once.

    With :math:`y = X\beta + \sigma\varepsilon` and :math:`\beta_j \sim N(0, s_j^2)`, the singular
    values of X diag(s) make the marginal covariance of y diagonal for every sigma.

    Parameters
    ----------
    response, design
        y and X.
    prior_scales
        s, one for each column.
    """

    def __init__(
        self, response: np.ndarray, design: np.ndarray, prior_scales: np.ndarray | float
    ) -> None:
        self._scales = np.broadcast_to(np.asarray(prior_scales, float), design.shape[1])
        left, self._singular, self._right = np.linalg.svd(
            design * self._scales, full_matrices=False
        )
        self._along = left.T @ response
        # Twice, so that rounding of a large response does not remain in the small residual.
        residual = response - left @ self._along
        residual = residual - left @ (left.T @ residual)
        self._squares = float(residual @ residual)
        self._free = len(response) - len(self._singular)

    def log_evidence(self, noise: np.ndarray) -> np.ndarray:
        """Log density of y at each noise standard deviation."""
        variances = noise[..., None] ** 2 + self._singular**2
        inside = -0.5 * (np.log(2 * np.pi * variances) + self._along**2 / variances).sum(-1)
        outside = -0.5 * (self._free * np.log(2 * np.pi * noise**2) + self._squares / noise**2)
        return inside + outside

    def coefficient(self, column: int, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of one coefficient at each noise standard deviation."""
        variances = noise[..., None] ** 2 + self._singular**2
        loadings = self._right[:, column] * self._scales[column]
        mean = (loadings * self._singular * self._along / variances).sum(-1)
        explained = (loadings**2 * self._singular**2 / variances).sum(-1)
        return mean, self._scales[column] ** 2 - explained


def log_unknown_mean(
    values: np.ndarray, variances: np.ndarray, prior_variance: float
) -> np.ndarray:
    """Log density of independent normals whose common mean is N(0, prior_variance), integrated.

    ``variances`` has the values along its last axis, and any number of leading axes.
    """
    precisions = 1 / variances
    total = precisions.sum(-1) + 1 / prior_variance
    center = (precisions * values).sum(-1) / total
    squares = (precisions * (values - center[..., None]) ** 2).sum(-1)
    squares = squares + center**2 / prior_variance
    log_determinant = np.log(variances).sum(-1) + np.log(prior_variance) + np.log(total)
    return -0.5 * (squares + log_determinant + values.shape[-1] * np.log(2 * np.pi))


def log_half_cauchy(log_scale: np.ndarray, width: float) -> np.ndarray:
    """Log density of the logarithm of a half-Cauchy variable."""
    ratio = log_scale - np.log(width)
    return np.log(2 / np.pi) + ratio - np.logaddexp(0, 2 * ratio)


def log_half_student(log_scale: np.ndarray, freedom: float, width: float) -> np.ndarray:
    """Log density of the logarithm of a half-t variable."""
    return np.log(2) + stats.t.logpdf(np.exp(log_scale), freedom, scale=width) + log_scale


def log_inverse_gamma(log_value: np.ndarray, shape: float, rate: float) -> np.ndarray:
    """Log density of the logarithm of an inverse-gamma variable."""
    normalizer = shape * np.log(rate) - gammaln(shape)
    return normalizer - shape * log_value - rate * np.exp(-log_value)


def log_gamma_poisson(counts: np.ndarray, shape: float, rate: float) -> float:
    """Log probability of counts whose common rate has a gamma prior."""
    total, size = counts.sum(), counts.size
    result = shape * np.log(rate) - gammaln(shape) + gammaln(shape + total)
    return float(result - (shape + total) * np.log(rate + size) - gammaln(counts + 1.0).sum())


def log_order_probability(
    log_densities: list[Callable[[np.ndarray], np.ndarray]], nodes: np.ndarray
) -> float:
    r"""Log probability that independent variables come in increasing order.

    By the recursion :math:`G_k(x) = \int_{-\infty}^x p_k(t) G_{k-1}(t)\,dt` with Simpson's rule on
    equidistant nodes that hold all of the mass.
    """
    accumulated = np.ones_like(nodes)
    for log_density in log_densities:
        accumulated = integrate.cumulative_simpson(
            np.exp(log_density(nodes)) * accumulated, x=nodes, initial=0.0
        )
    return float(np.log(accumulated[-1]))


def whitened_rules(
    log_density: Callable[[np.ndarray], float], mode: np.ndarray, hessian: np.ndarray, rule: Rule
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and log weights of a product rule in the coordinates of a Laplace fit.

    Parameters
    ----------
    log_density
        Only asked to be finite at the mode.
    mode, hessian
        Of the negative log-density.
    rule
        Of each whitened axis, e.g. from -9 to 9.
    """
    if not np.isfinite(log_density(mode)):
        raise ValueError(f"the log-density at the mode {mode} is not finite; start elsewhere")
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    size = len(mode)
    mesh = np.stack(np.meshgrid(*[rule[0]] * size, indexing="ij"), -1).reshape(-1, size)
    log_weights = sum(np.meshgrid(*[rule[1]] * size, indexing="ij")).ravel()
    return mode + mesh @ root.T, log_weights + np.linalg.slogdet(root)[1]
