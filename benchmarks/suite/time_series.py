"""Latent time series with Gaussian observations.

Given the parameters the models are linear and Gaussian, so that a scalar Kalman filter gives their
evidence exactly; one unknown parameter adds a one-dimensional quadrature.
"""

from functools import cache

import numpy as np
import pymc as pm
from scipy import stats

from benchmarks.suite.numerics import gauss_legendre, log_integral
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

INNOVATION_SCALE = 0.5
OBSERVATION_SCALE = 0.8
PERSISTENCE = 0.85


def log_kalman(
    observations: np.ndarray,
    persistence: np.ndarray | float,
    innovation_variance: np.ndarray | float,
    observation_variance: np.ndarray | float,
    start_variance: np.ndarray | float,
) -> np.ndarray:
    r"""Log evidence of a noisy autoregression by the Kalman filter.

    The model is :math:`x_t = \phi x_{t-1} + q_t`, :math:`y_t = x_t + r_t`.

    Parameters
    ----------
    observations
        One-dimensional array, none missing.
    persistence
        :math:`\phi`; this and the variances may be arrays, over which the filter is vectorised.
    innovation_variance, observation_variance
        Variances of q and r.
    start_variance
        Variance of the first state, whose mean is zero.
    """
    mean, variance, total = np.zeros(()), start_variance, np.zeros(())
    for observation in observations:
        predictive_variance = variance + observation_variance
        residual = observation - mean
        total = total + stats.norm.logpdf(residual, 0, np.sqrt(predictive_variance))
        gain = variance / predictive_variance
        mean = persistence * (mean + gain * residual)
        variance = persistence**2 * (1 - gain) * variance + innovation_variance
    return total


@cache
def random_walk_observations() -> np.ndarray:
    rng = np.random.default_rng(30)
    return np.cumsum(rng.normal(0, INNOVATION_SCALE, size=30)) + rng.normal(
        0, OBSERVATION_SCALE, size=30
    )


def build_random_walk() -> pm.Model:
    observations = random_walk_observations()
    with pm.Model(coords={"time": np.arange(len(observations))}) as model:
        level = pm.GaussianRandomWalk(
            "level", sigma=INNOVATION_SCALE, init_dist=pm.Normal.dist(0, 2), dims="time"
        )
        pm.Normal("observation", level, OBSERVATION_SCALE, observed=observations, dims="time")
    return model


@cache
def random_walk_evidence() -> float:
    return float(
        log_kalman(random_walk_observations(), 1.0, INNOVATION_SCALE**2, OBSERVATION_SCALE**2, 4.0)
    )


def build_random_walk_unknown_scale() -> pm.Model:
    observations = random_walk_observations()
    with pm.Model(coords={"time": np.arange(len(observations))}) as model:
        scale = pm.HalfNormal("scale", 1)
        level = pm.GaussianRandomWalk(
            "level", sigma=scale, init_dist=pm.Normal.dist(0, 2), dims="time"
        )
        pm.Normal("observation", level, OBSERVATION_SCALE, observed=observations, dims="time")
    return model


@cache
def random_walk_unknown_scale_evidence() -> float:
    def log_joint(scale: np.ndarray) -> np.ndarray:
        log_evidence = log_kalman(
            random_walk_observations(), 1.0, scale**2, OBSERVATION_SCALE**2, 4.0
        )
        return stats.halfnorm.logpdf(scale) + log_evidence

    return log_integral(log_joint, gauss_legendre(0, 8, panels=20))


def build_random_walk_increments() -> pm.Model:
    """Build the same walk, whitened: independent steps and a cumulative sum."""
    observations = random_walk_observations()
    with pm.Model(coords={"time": np.arange(len(observations))}) as model:
        start = pm.Normal("start", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        step = pm.Normal("step", 0, 1, shape=len(observations) - 1)
        walk = pm.math.concatenate([start[None], start + scale * pm.math.cumsum(step)])
        level = pm.Deterministic("level", walk, dims="time")
        pm.Normal("observation", level, OBSERVATION_SCALE, observed=observations, dims="time")
    return model


@cache
def autoregressive_observations() -> np.ndarray:
    rng = np.random.default_rng(25)
    state, observations = rng.normal(), []
    for _ in range(25):
        observations.append(state + rng.normal(0, OBSERVATION_SCALE))
        state = PERSISTENCE * state + rng.normal(0, INNOVATION_SCALE)
    return np.array(observations)


def build_autoregression() -> pm.Model:
    observations = autoregressive_observations()
    with pm.Model() as model:
        state = pm.AR(
            "state",
            rho=np.array([PERSISTENCE]),
            sigma=INNOVATION_SCALE,
            init_dist=pm.Normal.dist(0, 1),
            steps=len(observations) - 1,
        )
        pm.Normal("observation", state, OBSERVATION_SCALE, observed=observations)
    return model


@cache
def autoregression_evidence() -> float:
    return float(
        log_kalman(
            autoregressive_observations(),
            PERSISTENCE,
            INNOVATION_SCALE**2,
            OBSERVATION_SCALE**2,
            1.0,
        )
    )


def build_autoregression_unknown_scale() -> pm.Model:
    observations = autoregressive_observations()
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        state = pm.AR(
            "state",
            rho=np.array([PERSISTENCE]),
            sigma=scale,
            init_dist=pm.Normal.dist(0, 1),
            steps=len(observations) - 1,
        )
        pm.Normal("observation", state, OBSERVATION_SCALE, observed=observations)
    return model


@cache
def autoregression_unknown_scale_evidence() -> float:
    def log_joint(scale: np.ndarray) -> np.ndarray:
        log_evidence = log_kalman(
            autoregressive_observations(), PERSISTENCE, scale**2, OBSERVATION_SCALE**2, 1.0
        )
        return stats.halfnorm.logpdf(scale) + log_evidence

    return log_integral(log_joint, gauss_legendre(0, 8, panels=20))


def build_autoregression_unknown_persistence() -> pm.Model:
    """Build a chain of scalar variables, one for each time, with its persistence unknown."""
    observations = autoregressive_observations()[:12]
    with pm.Model() as model:
        persistence = pm.Uniform("persistence", -1, 1)
        state = pm.Normal("state_0", 0, 1)
        pm.Normal("observation_0", state, OBSERVATION_SCALE, observed=observations[0])
        for time in range(1, len(observations)):
            state = pm.Normal(f"state_{time}", persistence * state, INNOVATION_SCALE)
            pm.Normal(f"observation_{time}", state, OBSERVATION_SCALE, observed=observations[time])
    return model


@cache
def autoregression_unknown_persistence_evidence() -> float:
    def log_joint(persistence: np.ndarray) -> np.ndarray:
        observations = autoregressive_observations()[:12]
        return np.log(0.5) + log_kalman(
            observations, persistence, INNOVATION_SCALE**2, OBSERVATION_SCALE**2, 1.0
        )

    return log_integral(log_joint, gauss_legendre(-1, 1))


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "random_walk",
        build_random_walk,
        random_walk_evidence,
        "Kalman filter",
        ("continuous", "time series", "coords"),
    ),
    Problem(
        "random_walk_unknown_scale",
        build_random_walk_unknown_scale,
        random_walk_unknown_scale_evidence,
        "1-D quadrature over the Kalman filter",
        ("continuous", "time series", "coords"),
        hard="the scale of the walk and the walk itself are strongly dependent",
    ),
    Problem(
        "random_walk_increments",
        build_random_walk_increments,
        random_walk_unknown_scale_evidence,
        "1-D quadrature over the Kalman filter",
        ("continuous", "time series", "coords", "deterministic"),
        hard="each step enters every later observation",
    ),
    Problem(
        "autoregression",
        build_autoregression,
        autoregression_evidence,
        "Kalman filter",
        ("continuous", "time series"),
    ),
    Problem(
        "autoregression_unknown_scale",
        build_autoregression_unknown_scale,
        autoregression_unknown_scale_evidence,
        "1-D quadrature over the Kalman filter",
        ("continuous", "time series"),
    ),
    Problem(
        "autoregression_unknown_persistence",
        build_autoregression_unknown_persistence,
        autoregression_unknown_persistence_evidence,
        "1-D quadrature over the Kalman filter",
        ("continuous", "time series", "interval transform", "several observed"),
    ),
)
