"""Variables that PyMC transforms: intervals, circles, zero sums, order, Cholesky factors.

The evidence is that of the properly normalised prior, which is not always what the model's
log-density integrates to:

* with the ``ordered`` transform PyMC leaves the density of the unordered vector, which is k! too
  small on the cone;
* ``LKJCholeskyCov`` adds the log of its normalising constant instead of subtracting it (n = 2: too
  large by twice log B(1/2, eta));
* the ``circular`` transform maps the whole line to the circle, so that the density on the line is
  periodic and has no integral; one period is meant.
"""

from functools import cache

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, gammaln, i0e

from benchmarks.suite.numerics import gauss_legendre, log_integral, log_multivariate_normal
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

MEASUREMENTS = np.array([1.9, 0.4, 2.6, 1.1, 0.7, 2.2])
DIRECTIONS = np.array([2.8, -3.0, 2.2, 3.1, -2.5])
GROUP = np.repeat(np.arange(6), 3)
ORDERED_GROUP = np.array([0, 0, 1, 1, 1, 2, 2])
ORDERED_VALUES = np.array([-0.3, 0.4, 0.2, 0.9, 0.1, 1.6, 0.5])
ORDERED_MIXTURE_VALUES = np.array([-1.1, 0.3, 2.0, 1.2, 1.7, -0.4, 2.6, 1.4])
ETA = 2.0


def build_half_normal_scale() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 3)
        scale = pm.HalfNormal("scale", 2)
        pm.Normal("measurement", mean, scale, observed=MEASUREMENTS)
    return model


@cache
def half_normal_scale_evidence() -> float:
    def log_joint(scale: np.ndarray) -> np.ndarray:
        identity, ones = np.eye(len(MEASUREMENTS)), np.ones((len(MEASUREMENTS),) * 2)
        log_likelihood = [
            log_multivariate_normal(MEASUREMENTS, 0.0, s**2 * identity + 9 * ones) for s in scale
        ]
        return stats.halfnorm.logpdf(scale, 0, 2) + np.array(log_likelihood)

    return log_integral(log_joint, gauss_legendre(0.02, 20, panels=30))


def build_uniform_mean_and_scale() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Uniform("mean", -5, 5)
        scale = pm.Uniform("scale", 0, 10)
        pm.Normal("measurement", mean, scale, observed=MEASUREMENTS)
    return model


@cache
def uniform_mean_and_scale_evidence() -> float:
    def log_joint(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        log_likelihood = stats.norm.logpdf(MEASUREMENTS, mean[..., None], scale[..., None]).sum(-1)
        return log_likelihood - np.log(100.0)

    return log_integral(
        log_joint, gauss_legendre(-5, 5, panels=30), gauss_legendre(0, 10, panels=30)
    )


def build_truncated_prior() -> pm.Model:
    with pm.Model() as model:
        rate = pm.TruncatedNormal("rate", mu=0, sigma=1, lower=0.5, upper=2)
        pm.Normal("measurement", rate, 0.7, observed=MEASUREMENTS)
    return model


@cache
def truncated_prior_evidence() -> float:
    """Evidence without truncation, times the posterior over the prior mass of the interval."""
    count = len(MEASUREMENTS)
    log_untruncated = log_multivariate_normal(MEASUREMENTS, 0.0, 0.49 * np.eye(count) + 1.0)
    precision = 1 + count / 0.49
    posterior = stats.norm(MEASUREMENTS.sum() / 0.49 / precision, precision**-0.5)
    log_mass = np.log(posterior.cdf(2) - posterior.cdf(0.5)) - np.log(
        stats.norm.cdf(2) - stats.norm.cdf(0.5)
    )
    return float(log_untruncated + log_mass)


def build_von_mises() -> pm.Model:
    with pm.Model() as model:
        heading = pm.VonMises("heading", mu=0.5, kappa=0.8)
        pm.VonMises("direction", mu=heading, kappa=2, observed=DIRECTIONS)
    return model


@cache
def von_mises_evidence() -> float:
    """Multiply the von Mises kernels: their weighted unit vectors add up."""
    resultant = np.abs(0.8 * np.exp(0.5j) + 2 * np.exp(1j * DIRECTIONS).sum())

    def log_normalizer(kappa: float) -> float:
        return np.log(2 * np.pi * i0e(kappa)) + kappa

    return float(
        log_normalizer(resultant) - log_normalizer(0.8) - len(DIRECTIONS) * log_normalizer(2.0)
    )


@cache
def treatment_readings() -> np.ndarray:
    rng = np.random.default_rng(66)
    return (
        1.0
        + np.array([0.8, -0.5, 0.1, -0.9, 0.6, -0.1])[GROUP]
        + rng.normal(0, 0.6, size=len(GROUP))
    )


def build_zero_sum() -> pm.Model:
    with pm.Model(coords={"treatment": np.arange(6)}) as model:
        mean = pm.Normal("mean", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        effect = pm.ZeroSumNormal("effect", sigma=scale, dims="treatment")
        pm.Normal("reading", mean + effect[GROUP], 0.6, observed=treatment_readings())
    return model


@cache
def zero_sum_evidence() -> float:
    centering = np.eye(6) - 1 / 6

    def log_joint(scale: np.ndarray) -> np.ndarray:
        noise = 0.36 * np.eye(len(GROUP)) + 4.0
        between = centering[GROUP][:, GROUP]
        log_likelihood = [
            log_multivariate_normal(treatment_readings(), 0.0, noise + s**2 * between)
            for s in scale
        ]
        return stats.halfnorm.logpdf(scale) + np.array(log_likelihood)

    return log_integral(log_joint, gauss_legendre(0, 8, panels=20))


def build_ordered_means() -> pm.Model:
    with pm.Model() as model:
        means = pm.Normal(
            "means",
            0,
            1.5,
            shape=3,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 0.0, 1.0]),
        )
        pm.Normal("value", means[ORDERED_GROUP], 0.8, observed=ORDERED_VALUES)
    return model


@cache
def ordered_means_evidence() -> float:
    r"""Evidence of three free means, times the posterior over the prior probability of order.

    The latter is 1/6. Unordered, the means are independent normals a posteriori; the probability
    of order is
    :math:`\int p_2(m) P_1(m) (1 - P_3(m))\,dm`.
    """
    log_unordered, posteriors = 0.0, []
    for group in range(3):
        values = ORDERED_VALUES[group == ORDERED_GROUP]
        log_unordered += log_multivariate_normal(values, 0.0, 0.64 * np.eye(len(values)) + 2.25)
        precision = 1 / 2.25 + len(values) / 0.64
        posteriors.append(stats.norm(values.sum() / 0.64 / precision, precision**-0.5))

    def log_ordered(middle: np.ndarray) -> np.ndarray:
        return (
            posteriors[1].logpdf(middle)
            + posteriors[0].logcdf(middle)
            + posteriors[2].logsf(middle)
        )

    return float(
        log_unordered + gammaln(4) + log_integral(log_ordered, gauss_legendre(-8, 8, panels=30))
    )


def build_ordered_mixture() -> pm.Model:
    with pm.Model() as model:
        means = pm.Normal(
            "means",
            0,
            2,
            shape=2,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 1.0]),
        )
        pm.NormalMixture(
            "value", w=[0.3, 0.7], mu=means, sigma=0.7, observed=ORDERED_MIXTURE_VALUES
        )
    return model


@cache
def ordered_mixture_evidence() -> float:
    def log_joint(first: np.ndarray, gap: np.ndarray) -> np.ndarray:
        second = first + gap
        total = np.log(2) + stats.norm.logpdf(first, 0, 2) + stats.norm.logpdf(second, 0, 2)
        for value in ORDERED_MIXTURE_VALUES:
            total = total + np.logaddexp(
                np.log(0.3) + stats.norm.logpdf(value, first, 0.7),
                np.log(0.7) + stats.norm.logpdf(value, second, 0.7),
            )
        return total

    return log_integral(
        log_joint, gauss_legendre(-14, 14, panels=30), gauss_legendre(0, 25, panels=30)
    )


@cache
def paired_readings() -> np.ndarray:
    rng = np.random.default_rng(15)
    return rng.multivariate_normal([0, 0], [[1.0, 0.7], [0.7, 2.0]], size=15)


def build_lkj_cholesky() -> pm.Model:
    with pm.Model() as model:
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", n=2, eta=ETA, sd_dist=pm.Exponential.dist(1.0, size=2)
        )
        pm.MvNormal("pair", mu=np.zeros(2), chol=factor, observed=paired_readings())
    return model


@cache
def lkj_cholesky_evidence() -> float:
    pairs = paired_readings()
    (first_squares, products), (_, second_squares) = pairs.T @ pairs

    def log_joint(first: np.ndarray, second: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        unexplained = 1 - correlation**2
        quadratic = first_squares / first**2 + second_squares / second**2
        quadratic = (quadratic - 2 * correlation * products / (first * second)) / unexplained
        log_determinant = 2 * np.log(first) + 2 * np.log(second) + np.log(unexplained)
        log_likelihood = -0.5 * quadratic - 0.5 * len(pairs) * (
            log_determinant + 2 * np.log(2 * np.pi)
        )
        log_prior = -first - second + (ETA - 1) * np.log(unexplained) - betaln(0.5, ETA)
        return log_prior + log_likelihood

    scale_rule = gauss_legendre(0.15, 9, panels=11)
    return log_integral(log_joint, scale_rule, scale_rule, gauss_legendre(-1, 1, panels=6))


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "half_normal_scale",
        build_half_normal_scale,
        half_normal_scale_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "log transform"),
    ),
    Problem(
        "uniform_mean_and_scale",
        build_uniform_mean_and_scale,
        uniform_mean_and_scale_evidence,
        "2-D quadrature",
        ("continuous", "interval transform"),
    ),
    Problem(
        "truncated_prior",
        build_truncated_prior,
        truncated_prior_evidence,
        "closed form",
        ("continuous", "interval transform"),
    ),
    Problem(
        "von_mises",
        build_von_mises,
        von_mises_evidence,
        "closed form",
        ("continuous", "circular transform"),
        hard="the mode is at the seam of the circle, and the density on the line is periodic",
    ),
    Problem(
        "zero_sum_normal",
        build_zero_sum,
        zero_sum_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "zero sum", "hierarchical", "coords"),
    ),
    Problem(
        "ordered_means",
        build_ordered_means,
        ordered_means_evidence,
        "closed form and 1-D quadrature",
        ("continuous", "ordered"),
        hard="forward draws of the prior are not ordered, and its log-density lacks log 3!",
    ),
    Problem(
        "ordered_mixture",
        build_ordered_mixture,
        ordered_mixture_evidence,
        "2-D quadrature",
        ("continuous", "ordered", "mixture"),
        hard="forward draws of the prior are not ordered, and its log-density lacks log 2!",
    ),
    Problem(
        "lkj_cholesky",
        build_lkj_cholesky,
        lkj_cholesky_evidence,
        "3-D quadrature",
        ("continuous", "cholesky"),
        hard="the log-density of the prior is off by a constant",
    ),
)
