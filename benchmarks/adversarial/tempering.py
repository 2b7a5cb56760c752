"""Log-likelihoods that range over 1e8 to 1e12 under the prior.

The first steps of tempering have powers of 1e-8 and below. All but one of the truths are Gaussian.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.adversarial.exact import GaussianRegression, mixed, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import gauss_legendre, log_multivariate_normal

__all__ = ["PROBLEMS"]


def precise_readings(name: str, size: int, prior: float, noise: float) -> Adversary:
    """Make sums of neighbours read precisely, so that no coordinate stands alone."""
    rng = np.random.default_rng(size)
    design = np.eye(size) + np.tril(np.full((size, size), 0.5), -1)
    readings = design @ rng.normal(0, prior, size)

    def build() -> pm.Model:
        with pm.Model() as model:
            position = pm.Normal("position", 0, prior, shape=size)
            pm.Normal("reading", pm.math.dot(design, position), noise, observed=readings)
        return model

    def solve() -> Answer:
        regression = GaussianRegression(readings, design, prior)
        level = np.array(noise)
        mean, variance = regression.coefficient(0, level)
        covariance = np.linalg.inv(design.T @ design / noise**2 + np.eye(size) / prior**2)
        # The difference of two variances has no digits left here; the inverse has.
        spread = float(np.sqrt(covariance[0, 0])) if variance < 1e-6 * prior**2 else variance**0.5
        return Answer(
            float(regression.log_evidence(level)), {"position[0]": (float(mean), float(spread))}
        )

    def second() -> float:
        covariance = prior**2 * design @ design.T + noise**2 * np.eye(size)
        return log_multivariate_normal(readings, 0.0, covariance)

    return Adversary(
        name,
        build,
        solve,
        "Gaussian algebra",
        f"{size} dimensions, prior over noise {prior / noise:g}",
        Plan(gaussian=("position",)),
        second,
    )


def precise_regression() -> Adversary:
    rng = np.random.default_rng(8)
    design = rng.normal(size=(50, 4))
    response = design @ np.array([2.0, -1.0, 0.5, 3.0]) + 1e-4 * rng.normal(size=50)

    def build() -> pm.Model:
        with pm.Model() as model:
            weight = pm.Normal("weight", 0, 10, shape=4)
            pm.Normal("response", pm.math.dot(design, weight), 1e-4, observed=response)
        return model

    def solve() -> Answer:
        regression = GaussianRegression(response, design, 10.0)
        mean, _ = regression.coefficient(0, np.array(1e-4))
        covariance = np.linalg.inv(design.T @ design / 1e-8 + np.eye(4) / 100)
        return Answer(
            float(regression.log_evidence(np.array(1e-4))),
            {"weight[0]": (float(mean), float(np.sqrt(covariance[0, 0])))},
        )

    def second() -> float:
        precision = design.T @ design / 1e-8 + np.eye(4) / 100
        center = np.linalg.solve(precision, design.T @ response / 1e-8)
        log_joint = stats.norm.logpdf(response, design @ center, 1e-4).sum()
        log_joint += stats.norm.logpdf(center, 0, 10).sum()
        return float(log_joint + 2 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1])

    return Adversary(
        "precise_regression",
        build,
        solve,
        "Gaussian algebra",
        "noise of 1e-4 and coefficients ~ N(0, 10): a range of 1e13",
        Plan(gaussian=("weight",)),
        second,
    )


def large_counts() -> Adversary:
    counts = np.array([9_998_210, 10_004_433, 10_001_977])

    def build() -> pm.Model:
        with pm.Model() as model:
            log_rate = pm.Normal("log_rate", 0, 10)
            pm.Poisson("count", pm.math.exp(log_rate), observed=counts)
        return model

    def solve() -> Answer:
        center = np.log(counts.mean())
        # Relative to the peak, since the terms themselves are 1e8.
        total = counts.sum()

        def log_joint(shift: np.ndarray) -> np.ndarray:
            log_ratio = total * (shift - np.expm1(shift))
            return stats.norm.logpdf(center + shift, 0, 10) + log_ratio

        peak = float((counts * center - counts.mean() - gammaln(counts + 1.0)).sum())
        found = solve_on_grid(
            log_joint, gauss_legendre(-3e-3, 3e-3, 60), moments={"shift": lambda shift: shift}
        )
        mean, spread = found.moments["shift"]
        return Answer(peak + found.log_evidence, {"log_rate": (center + mean, spread)})

    def second() -> float:
        mean = counts.mean()
        at_peak = stats.poisson.logpmf(counts, mean).sum()
        total = counts.sum()
        laplace = 0.5 * np.log(2 * np.pi / total) + stats.norm.logpdf(np.log(mean), 0, 10)
        return float(at_peak + laplace)

    return Adversary(
        "large_counts",
        build,
        solve,
        "1-D quadrature around the peak",
        "counts of 1e7 whose log rate is N(0, 10): likelihoods of -1e20",
        Plan(grid={"log_rate": gauss_legendre(16.115, 16.122, 60, 8)}),
        second,
    )


def chain_of_scales() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            first = pm.Normal("first", 0, 1e3)
            second_ = pm.Normal("second", first, 1.0)
            third = pm.Normal("third", second_, 1e-3)
            pm.Normal("reading", third, 1e-6, observed=123.456)
        return model

    def solve() -> Answer:
        spread = np.sqrt(1e6 + 1 + 1e-6 + 1e-12)
        rest = 1 + 1e-6 + 1e-12
        moments = {
            "third": (123.456, 1e-6),
            "first": (123.456 * 1e6 / (1e6 + rest), np.sqrt(1e6 * rest / (1e6 + rest))),
        }
        return Answer(float(stats.norm.logpdf(123.456, 0, spread)), moments)

    return Adversary(
        "chain_of_scales",
        build,
        solve,
        "Gaussian algebra",
        "each level is a thousandth of the one above",
        Plan(gaussian=("first", "second", "third")),
        second=lambda: float(
            log_multivariate_normal(np.array([123.456]), 0.0, np.array([[1e6 + 1 + 1e-6 + 1e-12]]))
        ),
    )


def many_rows() -> Adversary:
    rows = 100_000
    rng = np.random.default_rng(100)
    values = 3.0 + 2.0 * rng.normal(size=rows)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 100)
            scale = pm.HalfNormal("scale", 100)
            pm.Normal("value", mean, scale, observed=values)
        return model

    def solve() -> Answer:
        center = values.mean()
        squares = ((values - center) ** 2).sum()
        log_scale, log_weights = gauss_legendre(np.log(2) - 0.1, np.log(2) + 0.1, 100)
        variance = np.exp(2 * log_scale)
        log_terms = -0.5 * (rows - 1) * np.log(2 * np.pi * variance) - 0.5 * squares / variance
        log_terms += -0.5 * np.log(rows)
        log_terms += stats.norm.logpdf(center, 0, np.sqrt(1e4 + variance / rows))
        log_terms += stats.halfnorm.logpdf(np.exp(log_scale), scale=100) + log_scale + log_weights
        precision = rows / variance + 1e-4
        means = rows * center / variance / precision
        return Answer(
            float(logsumexp(log_terms)),
            {
                "mean": mixed(log_terms, means, 1 / precision),
                "scale": mixed(log_terms, np.exp(log_scale), np.zeros_like(log_scale)),
            },
        )

    def second() -> float:
        regression = GaussianRegression(values, np.ones((rows, 1)), 100.0)
        return solve_on_grid(
            lambda log_scale: (
                regression.log_evidence(np.exp(log_scale))
                + stats.halfnorm.logpdf(np.exp(log_scale), scale=100)
                + log_scale
            ),
            gauss_legendre(0.6, 0.8, 150, 8),
        ).log_evidence

    return Adversary(
        "many_rows",
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "a hundred thousand rows, and a scale that may be near zero under the prior",
        Plan(gaussian=("mean",), grid={"scale": gauss_legendre(0.66, 0.72, 5, 8)}),
        second,
    )


PROBLEMS: tuple[Adversary, ...] = (
    precise_readings("precise_2", 2, 1.0, 1e-6),
    precise_readings("precise_5", 5, 1.0, 1e-6),
    precise_readings("precise_10", 10, 100.0, 1e-3),
    precise_regression(),
    large_counts(),
    chain_of_scales(),
    many_rows(),
)
