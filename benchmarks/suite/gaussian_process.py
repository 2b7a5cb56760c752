"""Gaussian processes with Gaussian noise, through every PyMC front end.

With known hyperparameters the observations are jointly Gaussian. The covariance functions are
written out again here, with the diagonal jitter that PyMC adds, so that truth and model share no
code.
"""

from functools import cache, partial

import numpy as np
import pymc as pm
from scipy import stats

from benchmarks.suite.numerics import gauss_legendre, log_integral, log_multivariate_normal
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

INPUTS = np.linspace(-2.5, 2.5, 18)
AMPLITUDE = 1.3
LENGTHSCALE = 0.9
NOISE = 0.3
JITTER = 1e-6
BASIS_SIZE, BOUNDARY = 14, 4.0


@cache
def curve_readings() -> np.ndarray:
    rng = np.random.default_rng(18)
    return np.sin(1.7 * INPUTS) + 0.3 * INPUTS + rng.normal(0, NOISE, size=len(INPUTS))


def matern_covariance(lengthscale: float) -> np.ndarray:
    """Matern 5/2 covariance of the inputs, with jitter."""
    distance = np.sqrt(5) * np.abs(np.subtract.outer(INPUTS, INPUTS)) / lengthscale
    covariance = AMPLITUDE**2 * (1 + distance + distance**2 / 3) * np.exp(-distance)
    return covariance + JITTER * np.eye(len(INPUTS))


def build_latent(reparameterize: bool) -> pm.Model:
    with pm.Model() as model:
        covariance = AMPLITUDE**2 * pm.gp.cov.Matern52(1, ls=LENGTHSCALE)
        process = pm.gp.Latent(cov_func=covariance)
        curve = process.prior(
            "curve", X=INPUTS[:, None], reparameterize=reparameterize, jitter=JITTER
        )
        pm.Normal("reading", curve, NOISE, observed=curve_readings())
    return model


@cache
def latent_evidence() -> float:
    covariance = matern_covariance(LENGTHSCALE) + NOISE**2 * np.eye(len(INPUTS))
    return log_multivariate_normal(curve_readings(), 0.0, covariance)


def build_unknown_lengthscale() -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.InverseGamma("lengthscale", alpha=4, beta=4)
        covariance = AMPLITUDE**2 * pm.gp.cov.Matern52(1, ls=lengthscale)
        process = pm.gp.Latent(cov_func=covariance)
        curve = process.prior("curve", X=INPUTS[:, None], jitter=JITTER)
        pm.Normal("reading", curve, NOISE, observed=curve_readings())
    return model


def build_marginal_unknown_lengthscale() -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.InverseGamma("lengthscale", alpha=4, beta=4)
        covariance = AMPLITUDE**2 * pm.gp.cov.Matern52(1, ls=lengthscale)
        process = pm.gp.Marginal(cov_func=covariance)
        process.marginal_likelihood(
            "reading", X=INPUTS[:, None], y=curve_readings(), sigma=NOISE, jitter=JITTER
        )
    return model


@cache
def unknown_lengthscale_evidence() -> float:
    noise = NOISE**2 * np.eye(len(INPUTS))

    def log_joint(log_lengthscale: np.ndarray) -> np.ndarray:
        lengthscale = np.exp(log_lengthscale)
        log_likelihood = [
            log_multivariate_normal(curve_readings(), 0.0, matern_covariance(value) + noise)
            for value in lengthscale
        ]
        return (
            stats.invgamma.logpdf(lengthscale, 4, scale=4)
            + log_lengthscale
            + np.array(log_likelihood)
        )

    return log_integral(log_joint, gauss_legendre(-4, 6, panels=20))


def build_hilbert_space() -> pm.Model:
    with pm.Model() as model:
        covariance = AMPLITUDE**2 * pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE)
        process = pm.gp.HSGP(m=[BASIS_SIZE], L=[BOUNDARY], cov_func=covariance)
        curve = process.prior("curve", X=INPUTS[:, None])
        pm.Normal("reading", curve, NOISE, observed=curve_readings())
    return model


@cache
def hilbert_space_evidence() -> float:
    frequencies = np.pi * np.arange(1, BASIS_SIZE + 1) / (2 * BOUNDARY)
    basis = np.sin(frequencies * (INPUTS[:, None] + BOUNDARY)) / np.sqrt(BOUNDARY)
    spectral_density = (
        AMPLITUDE**2
        * np.sqrt(2 * np.pi)
        * LENGTHSCALE
        * np.exp(-0.5 * (LENGTHSCALE * frequencies) ** 2)
    )
    covariance = (basis * spectral_density) @ basis.T + NOISE**2 * np.eye(len(INPUTS))
    return log_multivariate_normal(curve_readings(), 0.0, covariance)


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "gaussian_process_whitened",
        partial(build_latent, True),
        latent_evidence,
        "Gaussian algebra",
        ("continuous", "gaussian process"),
        hard="each whitened coordinate enters every later observation",
    ),
    Problem(
        "gaussian_process_direct",
        partial(build_latent, False),
        latent_evidence,
        "Gaussian algebra",
        ("continuous", "gaussian process", "multivariate normal"),
        hard="neighbouring values are almost equal a priori",
    ),
    Problem(
        "gaussian_process_unknown_lengthscale",
        build_unknown_lengthscale,
        unknown_lengthscale_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "gaussian process", "hierarchical"),
    ),
    Problem(
        "gaussian_process_marginal",
        build_marginal_unknown_lengthscale,
        unknown_lengthscale_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "gaussian process"),
    ),
    Problem(
        "gaussian_process_hilbert_space",
        build_hilbert_space,
        hilbert_space_evidence,
        "Gaussian algebra",
        ("continuous", "gaussian process"),
    ),
)
