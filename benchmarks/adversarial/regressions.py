"""Textbook regressions: vague coefficients, unknown noise, raw and collinear predictors.

Given the noise the coefficients integrate out in closed form, in the basis of the singular vectors
of the design; the noise is integrated over its logarithm.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp

from benchmarks.adversarial.exact import (
    GaussianRegression,
    log_half_cauchy,
    log_inverse_gamma,
    mixed,
    whitened_rules,
)
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import gauss_legendre, log_inverse_gamma_regression

__all__ = ["PROBLEMS"]


def linear(
    name: str,
    design: np.ndarray,
    response: np.ndarray,
    scales: np.ndarray | float,
    noise_prior: str,
    width: float,
    reason: str,
    by_column: bool = False,
) -> Adversary:
    """Make a linear regression with independent normal coefficients.

    Parameters
    ----------
    name, reason
        Of the problem.
    design, response
        The data.
    scales
        Prior standard deviations of the coefficients.
    noise_prior, width
        ``"half Cauchy"`` or ``"half normal"`` with this width, or ``"inverse gamma"`` with both
        parameters equal to it, on the variance.
    by_column
        One variable for each coefficient, instead of a vector.
    """
    columns = design.shape[1]
    each = np.broadcast_to(np.asarray(scales, float), columns)

    def build() -> pm.Model:
        with pm.Model() as model:
            if by_column:
                weights = [pm.Normal(f"weight_{k}", 0, each[k]) for k in range(columns)]
                mean = sum(weights[k] * design[:, k] for k in range(columns))
            else:
                weights = pm.Normal("weight", 0, each, shape=columns)
                mean = pm.math.dot(design, weights)
            if noise_prior == "half Cauchy":
                noise = pm.HalfCauchy("noise", width)
            elif noise_prior == "half normal":
                noise = pm.HalfNormal("noise", width)
            else:
                noise = pm.math.sqrt(pm.InverseGamma("variance", width, width))
            pm.Normal("response", mean, noise, observed=response)
        return model

    log_prior: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "half Cauchy": lambda log_noise: log_half_cauchy(log_noise, width),
        "half normal": lambda log_noise: (
            stats.halfnorm.logpdf(np.exp(log_noise), scale=width) + log_noise
        ),
        "inverse gamma": lambda log_noise: (
            log_inverse_gamma(2 * log_noise, width, width) + np.log(2)
        ),
    }

    def solve() -> Answer:
        regression = GaussianRegression(response, design, each)
        log_noise, log_weights = gauss_legendre(-14, 14, 300)
        noise = np.exp(log_noise)
        log_terms = regression.log_evidence(noise) + log_prior[noise_prior](log_noise)
        log_terms = log_terms + log_weights
        moments = {
            "log variance" if noise_prior == "inverse gamma" else "log noise": mixed(
                log_terms,
                (2 if noise_prior == "inverse gamma" else 1) * log_noise,
                np.zeros_like(log_noise),
            )
        }
        for column in {0, columns - 1}:
            label = f"weight_{column}" if by_column else f"weight[{column}]"
            moments[label] = mixed(log_terms, *regression.coefficient(column, noise))
        return Answer(float(logsumexp(log_terms)), moments)

    gaussian = tuple(f"weight_{k}" for k in range(columns)) if by_column else ("weight",)
    fitted = np.linalg.lstsq(design, response, rcond=None)[0]
    if len(response) > columns:
        center = np.log(np.std(response - design @ fitted))
        rule = gauss_legendre(center - 1.2, center + 2, 20, 8)
    else:
        rule = gauss_legendre(-14, 4, 30, 8)
    if noise_prior == "inverse gamma":
        rule = 2 * rule[0], rule[1] + np.log(2)
    grid = {"variance" if noise_prior == "inverse gamma" else "noise": rule}
    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        reason,
        Plan(gaussian=gaussian, grid=grid),
    )


def standard(columns: int, rows: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return a standard design with an intercept, and a response."""
    rng = np.random.default_rng([columns, rows])
    design = np.column_stack([np.ones(rows), rng.normal(size=(rows, columns - 1))])
    return design, design @ rng.normal(0, 1.5, columns) + rng.normal(0, noise, rows)


def years() -> tuple[np.ndarray, np.ndarray]:
    """Return raw years with an intercept, as people pass them."""
    rng = np.random.default_rng(1900)
    year = np.arange(1951.0, 2011.0)
    design = np.column_stack([np.ones_like(year), year])
    return design, 12 + 0.02 * (year - 1980) + rng.normal(0, 0.4, len(year))


def incomes() -> tuple[np.ndarray, np.ndarray]:
    """Return incomes in dollars, ages, and a share."""
    rng = np.random.default_rng(50)
    income = rng.lognormal(10.8, 0.5, 80)
    age, share = rng.uniform(18, 80, 80), rng.uniform(0, 0.1, 80)
    design = np.column_stack([np.ones(80), income, age, share])
    response = 3 + 2e-5 * income + 0.03 * age + 8 * share + rng.normal(0, 0.6, 80)
    return design, response


def collinear() -> tuple[np.ndarray, np.ndarray]:
    """Return three columns of which two differ by a thousandth."""
    rng = np.random.default_rng(77)
    first = rng.normal(size=50)
    design = np.column_stack([first, first + 1e-3 * rng.normal(size=50), rng.normal(size=50)])
    return design, design @ np.array([1.0, 1.0, -0.5]) + rng.normal(0, 0.5, 50)


def g_prior() -> Adversary:
    design, response = standard(4, 40, 0.8)
    gram = np.linalg.inv(design.T @ design)

    def build() -> pm.Model:
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 1, 1)
            weight = pm.MvNormal("weight", np.zeros(4), cov=40 * variance * gram)
            pm.Normal(
                "response", pm.math.dot(design, weight), pm.math.sqrt(variance), observed=response
            )
        return model

    def solve() -> Answer:
        log_evidence = log_inverse_gamma_regression(
            response, design, np.zeros(4), 40 * gram, 1.0, 1.0
        )
        shrunk = 40 / 41 * gram @ design.T @ response
        shape = 1 + len(response) / 2
        fitted = design @ shrunk
        rate = 1 + 0.5 * (response @ response - response @ fitted)
        spread = np.sqrt(rate / (shape - 1) * 40 / 41 * gram[1, 1])
        return Answer(log_evidence, {"weight[1]": (float(shrunk[1]), float(spread))})

    return Adversary(
        "g_prior",
        build,
        solve,
        "closed form",
        "Zellner's g-prior: a covariance that scales with the variance",
        Plan(gaussian=("weight",), grid={"variance": gauss_legendre(-3, 3, 10, 8)}),
    )


def poisson_regression(name: str, raw: bool) -> Adversary:
    """Make counts by age in years: the intercept and the slope are almost collinear when raw."""
    rng = np.random.default_rng(5)
    ages = np.sort(rng.uniform(25, 75, 60))
    counts = rng.poisson(np.exp(-1.5 + 0.05 * ages))
    predictor = ages if raw else (ages - 50) / 10

    def build() -> pm.Model:
        with pm.Model() as model:
            intercept = pm.Normal("intercept", 0, 10)
            slope = pm.Normal("slope", 0, 1)
            pm.Poisson("count", pm.math.exp(intercept + slope * predictor), observed=counts)
        return model

    widths = np.array([10.0, 1.0])

    def log_joint(points: np.ndarray) -> np.ndarray:
        log_rate = points[..., :1] + points[..., 1:] * predictor
        log_likelihood = (counts * log_rate - np.exp(log_rate)).sum(-1) - gammaln(counts + 1).sum()
        return stats.norm.logpdf(points, 0, widths).sum(-1) + log_likelihood

    def solve() -> Answer:
        design = np.column_stack([np.ones_like(predictor), predictor])

        def hessian(point: np.ndarray) -> np.ndarray:
            rate = np.exp(design @ point)
            return design.T @ (design * rate[:, None]) + np.diag(1 / widths**2)

        def gradient(point: np.ndarray) -> np.ndarray:
            return -design.T @ (counts - np.exp(design @ point)) + point / widths**2

        start = np.linalg.lstsq(design, np.log(counts + 0.5), rcond=None)[0]
        found = optimize.minimize(
            lambda point: -log_joint(point),
            start,
            jac=gradient,
            hess=hessian,
            method="trust-exact",
        )
        nodes, log_weights = whitened_rules(
            lambda x: float(log_joint(x)), found.x, hessian(found.x), gauss_legendre(-10, 10, 12)
        )
        log_terms = log_joint(nodes) + log_weights
        zero = np.zeros(len(nodes))
        moments = {
            label: mixed(log_terms, nodes[:, k], zero)
            for k, label in enumerate(("intercept", "slope"))
        }
        return Answer(float(logsumexp(log_terms)), moments)

    low, high = (-0.5, 0.15) if raw else (0.2, 0.8)
    grid = (
        {"intercept": gauss_legendre(-6, 3, 60, 8), "slope": gauss_legendre(low / 5, high, 60, 8)}
        if raw
        else {"intercept": gauss_legendre(0.3, 2, 10, 8), "slope": gauss_legendre(low, high, 10, 8)}
    )
    return Adversary(
        name,
        build,
        solve,
        "2-D quadrature",
        "exponentials of raw ages" if raw else "the same counts, ages standardised",
        Plan(grid=grid),
    )


PROBLEMS: tuple[Adversary, ...] = (
    *(
        linear(
            f"regression_{columns}",
            *standard(columns, rows),
            10.0,
            "half Cauchy",
            2.5,
            f"{columns} coefficients ~ N(0, 10)",
        )
        for columns, rows in ((2, 100), (5, 200), (10, 100), (30, 200))
    ),
    linear(
        "regression_small_noise",
        *standard(5, 60, 0.01),
        10.0,
        "inverse gamma",
        0.001,
        "noise a thousandth of the prior's",
    ),
    linear(
        "regression_raw_years",
        *years(),
        np.array([1000.0, 10.0]),
        "half Cauchy",
        5.0,
        "intercept and slope correlate by 0.9999",
        by_column=True,
    ),
    linear(
        "regression_raw_incomes",
        *incomes(),
        10.0,
        "half Cauchy",
        2.5,
        "predictors whose scales differ by 1e6",
    ),
    linear(
        "regression_collinear",
        *collinear(),
        10.0,
        "half normal",
        1.0,
        "two columns differ by a thousandth",
    ),
    linear(
        "regression_more_columns",
        *standard(20, 12),
        1.0,
        "half normal",
        1.0,
        "more coefficients than rows",
    ),
    g_prior(),
    poisson_regression("poisson_raw_ages", raw=True),
    poisson_regression("poisson_standardized_ages", raw=False),
)
