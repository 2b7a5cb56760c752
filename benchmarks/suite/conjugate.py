"""Models with a closed form: conjugate pairs and Gaussian algebra.

An estimator that misses one of these has a bug, not a hard problem; the exceptions are the
likelihood ten thousand times narrower than its prior, and the Gaussian vectors, which ask what
dimension costs.
"""

from functools import cache, partial

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln

from benchmarks.suite.numerics import (
    log_beta_binomial,
    log_inverse_gamma_regression,
    log_multivariate_normal,
)
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

HEADS, TOSSES = 14, 20
MEASUREMENTS = np.array([1.31, 0.42, 2.05, 1.77, 0.63, 1.12, 2.40, 0.95])
COUNTS = np.array([3, 5, 2, 7, 4, 4, 6])
WAITING_TIMES = np.array([0.31, 0.12, 0.45, 0.08, 0.22])
CATEGORY_COUNTS = np.array([12, 5, 3, 20, 2])
DIRICHLET_CONCENTRATION = np.array([0.5, 1.0, 2.0, 3.0, 0.8])


def build_coin() -> pm.Model:
    with pm.Model() as model:
        probability = pm.Beta("probability", alpha=2, beta=3)
        pm.Binomial("heads", n=TOSSES, p=probability, observed=HEADS)
    return model


@cache
def coin_evidence() -> float:
    return float(log_beta_binomial(HEADS, TOSSES, 2.0, 3.0))


def build_normal_mean() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        pm.Normal("measurements", mean, 0.8, observed=MEASUREMENTS)
    return model


@cache
def normal_mean_evidence() -> float:
    covariance = 0.64 * np.eye(len(MEASUREMENTS)) + 4.0
    return log_multivariate_normal(MEASUREMENTS, 0.0, covariance)


def build_narrow_likelihood() -> pm.Model:
    with pm.Model() as model:
        position = pm.Normal("position", 0, 1)
        pm.Normal("reading", position, 1e-4, observed=1.2345678)
    return model


@cache
def narrow_likelihood_evidence() -> float:
    return float(stats.norm.logpdf(1.2345678, 0, np.hypot(1, 1e-4)))


def build_normal_inverse_gamma() -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", alpha=3, beta=2)
        mean = pm.Normal("mean", 0.5, pm.math.sqrt(variance / 0.25))
        pm.Normal("measurements", mean, pm.math.sqrt(variance), observed=MEASUREMENTS)
    return model


@cache
def normal_inverse_gamma_evidence() -> float:
    design = np.ones((len(MEASUREMENTS), 1))
    return log_inverse_gamma_regression(
        MEASUREMENTS, design, np.array([0.5]), np.array([[4.0]]), 3.0, 2.0
    )


def build_counts_and_waiting_times() -> pm.Model:
    """Two observed variables that inform one rate; the Deterministic must not change the answer."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", alpha=2, beta=0.5)
        pm.Deterministic("mean_waiting_time", 1 / rate)
        pm.Poisson("counts", rate, observed=COUNTS)
        pm.Exponential("waiting_times", rate, observed=WAITING_TIMES)
    return model


@cache
def counts_and_waiting_times_evidence() -> float:
    shape = 2 + COUNTS.sum() + len(WAITING_TIMES)
    rate = 0.5 + len(COUNTS) + WAITING_TIMES.sum()
    return float(
        2 * np.log(0.5)
        - gammaln(2)
        + gammaln(shape)
        - shape * np.log(rate)
        - gammaln(COUNTS + 1).sum()
    )


def build_dirichlet_multinomial() -> pm.Model:
    with pm.Model() as model:
        proportions = pm.Dirichlet("proportions", DIRICHLET_CONCENTRATION)
        pm.Multinomial("counts", n=CATEGORY_COUNTS.sum(), p=proportions, observed=CATEGORY_COUNTS)
    return model


@cache
def dirichlet_multinomial_evidence() -> float:
    return float(
        stats.dirichlet_multinomial.logpmf(
            CATEGORY_COUNTS, DIRICHLET_CONCENTRATION, CATEGORY_COUNTS.sum()
        )
    )


@cache
def correlated_prior() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Prior mean and covariance, design and response of the MvNormal problem."""
    rng = np.random.default_rng(11)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T / 5 + 0.1 * np.eye(5)
    design = rng.normal(size=(12, 5))
    response = design @ np.array([1.0, -0.5, 0.0, 0.8, -1.2]) + rng.normal(0, 0.7, size=12)
    return np.array([0.5, 0.0, 0.0, -0.5, 0.0]), covariance, design, response


def build_multivariate_normal_prior() -> pm.Model:
    mean, covariance, design, response = correlated_prior()
    with pm.Model() as model:
        weights = pm.MvNormal("weights", mu=mean, cov=covariance)
        pm.Normal("response", pm.math.dot(design, weights), 0.7, observed=response)
    return model


@cache
def multivariate_normal_prior_evidence() -> float:
    mean, covariance, design, response = correlated_prior()
    return log_multivariate_normal(
        response, design @ mean, design @ covariance @ design.T + 0.49 * np.eye(len(response))
    )


@cache
def gaussian_vector(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Autoregressive noise covariance (correlation 0.6) and one noisy reading of the vector."""
    lags = np.abs(np.subtract.outer(np.arange(dimension), np.arange(dimension)))
    noise_covariance = 0.25 * 0.6**lags
    rng = np.random.default_rng(dimension)
    reading = rng.normal(size=dimension) + rng.multivariate_normal(
        np.zeros(dimension), noise_covariance
    )
    return noise_covariance, reading


def build_gaussian_vector(dimension: int) -> pm.Model:
    noise_covariance, reading = gaussian_vector(dimension)
    with pm.Model() as model:
        signal = pm.Normal("signal", 0, 1, shape=dimension)
        pm.MvNormal("reading", mu=signal, cov=noise_covariance, observed=reading)
    return model


@cache
def gaussian_vector_evidence(dimension: int) -> float:
    noise_covariance, reading = gaussian_vector(dimension)
    return log_multivariate_normal(reading, 0.0, noise_covariance + np.eye(dimension))


def build_no_free_variables() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("measurements", 1.0, 2.0, observed=MEASUREMENTS)
    return model


@cache
def no_free_variables_evidence() -> float:
    return float(stats.norm.logpdf(MEASUREMENTS, 1.0, 2.0).sum())


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "beta_binomial_coin",
        build_coin,
        coin_evidence,
        "closed form",
        ("continuous", "logodds transform"),
    ),
    Problem(
        "normal_mean", build_normal_mean, normal_mean_evidence, "Gaussian algebra", ("continuous",)
    ),
    Problem(
        "narrow_likelihood",
        build_narrow_likelihood,
        narrow_likelihood_evidence,
        "Gaussian algebra",
        ("continuous", "narrow"),
        hard="the likelihood is ten thousand times narrower than the prior",
    ),
    Problem(
        "normal_inverse_gamma",
        build_normal_inverse_gamma,
        normal_inverse_gamma_evidence,
        "closed form",
        ("continuous", "log transform"),
    ),
    Problem(
        "counts_and_waiting_times",
        build_counts_and_waiting_times,
        counts_and_waiting_times_evidence,
        "closed form",
        ("continuous", "several observed", "deterministic"),
    ),
    Problem(
        "dirichlet_multinomial",
        build_dirichlet_multinomial,
        dirichlet_multinomial_evidence,
        "closed form",
        ("continuous", "simplex"),
    ),
    Problem(
        "multivariate_normal_prior",
        build_multivariate_normal_prior,
        multivariate_normal_prior_evidence,
        "Gaussian algebra",
        ("continuous", "multivariate normal"),
    ),
    *(
        Problem(
            f"gaussian_vector_{dimension}",
            partial(build_gaussian_vector, dimension),
            partial(gaussian_vector_evidence, dimension),
            "Gaussian algebra",
            ("continuous", "high dimension"),
            hard="dimension" if dimension >= 50 else None,
        )
        for dimension in (20, 50, 100)
    ),
    Problem(
        "no_free_variables",
        build_no_free_variables,
        no_free_variables_evidence,
        "closed form",
        ("no free variables",),
    ),
)
