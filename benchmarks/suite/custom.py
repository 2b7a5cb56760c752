"""Densities that the user writes: potentials and custom distributions.

A potential is a factor, not a density: the evidence of a model with only potentials is the prior
expectation of their product.
"""

from functools import cache

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable
from scipy import stats
from scipy.special import gammaln, log_expit, logsumexp

from benchmarks.suite.numerics import binary_configurations, gauss_legendre, log_integral
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

MEASUREMENTS = np.array([0.3, -0.4, 0.9, 0.1])
LOSSES = np.array([0.2, 1.7, 0.6, 4.1, 0.1, 0.9, 2.2])
DIE_READINGS = np.array([4.1, 5.0, 3.2])
COUPLING = 0.7
# Neighbours on a lattice of three rows and four columns.
BONDS = np.array(
    [(4 * row + column, 4 * row + column + 1) for row in range(3) for column in range(3)]
    + [(4 * row + column, 4 * row + column + 4) for row in range(2) for column in range(4)]
)


def build_potential_only() -> pm.Model:
    with pm.Model() as model:
        position = pm.Normal("position", 0, 1, shape=2)
        pm.Potential("spring", -0.5 * ((position[0] - position[1] - 1) / 0.4) ** 2)
        pm.Potential("wall", pm.math.log(pm.math.sigmoid(5 * position)))
    return model


@cache
def potential_only_evidence() -> float:
    def log_joint(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        log_spring = -0.5 * ((first - second - 1) / 0.4) ** 2
        log_prior = stats.norm.logpdf(first) + stats.norm.logpdf(second)
        return log_prior + log_spring + log_expit(5 * first) + log_expit(5 * second)

    rule = gauss_legendre(-9, 9, panels=30)
    return log_integral(log_joint, rule, rule)


def build_potential_and_data() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Potential("penalty", -3 * mean**2 / scale)
        pm.Normal("measurement", mean, scale, observed=MEASUREMENTS)
    return model


@cache
def potential_and_data_evidence() -> float:
    def log_joint(mean: np.ndarray, log_scale: np.ndarray) -> np.ndarray:
        scale = np.exp(log_scale)
        log_prior = stats.norm.logpdf(mean) + stats.halfnorm.logpdf(scale) + log_scale
        log_likelihood = stats.norm.logpdf(MEASUREMENTS, mean[..., None], scale[..., None]).sum(-1)
        return log_prior + log_likelihood - 3 * mean**2 / scale

    return log_integral(
        log_joint, gauss_legendre(-6, 6, panels=30), gauss_legendre(-5, 2.5, panels=20)
    )


def build_ising() -> pm.Model:
    with pm.Model() as model:
        up = pm.Bernoulli("up", 0.5, shape=12)
        spin = 2 * up - 1
        pm.Potential(
            "energy",
            COUPLING * pm.math.sum(spin[BONDS[:, 0]] * spin[BONDS[:, 1]]) + 0.1 * pm.math.sum(spin),
        )
    return model


@cache
def ising_evidence() -> float:
    spin = 2 * binary_configurations(12) - 1
    log_factor = COUPLING * (spin[:, BONDS[:, 0]] * spin[:, BONDS[:, 1]]).sum(-1) + 0.1 * spin.sum(
        -1
    )
    return float(logsumexp(log_factor) - 12 * np.log(2))


def lomax_log_density(value: TensorVariable, tail: TensorVariable) -> TensorVariable:
    return pm.math.log(tail) - (tail + 1) * pm.math.log(1 + value)


def lomax_draw(tail: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.pareto(tail, size=size)


def build_custom_likelihood() -> pm.Model:
    with pm.Model() as model:
        tail = pm.Gamma("tail", alpha=2, beta=1)
        pm.CustomDist("loss", tail, logp=lomax_log_density, random=lomax_draw, observed=LOSSES)
    return model


@cache
def custom_likelihood_evidence() -> float:
    total, count = np.log1p(LOSSES).sum(), len(LOSSES)
    return float(gammaln(2 + count) - (2 + count) * np.log(1 + total) - total)


def secant_log_density(value: TensorVariable, center: TensorVariable) -> TensorVariable:
    return -pm.math.log(np.pi * pm.math.cosh(value - center))


def secant_draw(center: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return center + np.log(np.tan(0.5 * np.pi * rng.uniform(size=size)))


def build_custom_prior() -> pm.Model:
    with pm.Model() as model:
        mean = pm.CustomDist("mean", 0.5, logp=secant_log_density, random=secant_draw)
        pm.Normal("measurement", mean, 0.8, observed=MEASUREMENTS)
    return model


@cache
def custom_prior_evidence() -> float:
    def log_joint(mean: np.ndarray) -> np.ndarray:
        return stats.hypsecant.logpdf(mean, 0.5) + stats.norm.logpdf(
            MEASUREMENTS, mean[:, None], 0.8
        ).sum(-1)

    return log_integral(log_joint, gauss_legendre(-10, 10, panels=40))


def loaded_die_log_probability(value: TensorVariable, faces: TensorVariable) -> TensorVariable:
    possible = pm.math.and_(pm.math.ge(value, 1), pm.math.le(value, faces))
    weight = pm.math.switch(possible, value, 1)
    return pm.math.switch(
        possible, pm.math.log(weight) - pm.math.log(faces * (faces + 1) / 2), -np.inf
    )


def loaded_die_draw(
    faces: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]
) -> np.ndarray:
    sides = np.arange(1, int(np.max(faces)) + 1)
    return rng.choice(sides, size=size, p=sides / sides.sum())


def build_custom_discrete() -> pm.Model:
    """Build a die with P(f) proportional to f, whose support only its log probability knows."""
    with pm.Model() as model:
        face = pm.CustomDist(
            "face",
            6,
            logp=loaded_die_log_probability,
            random=loaded_die_draw,
            dtype="int64",
            initval=1,
        )
        pm.Normal("reading", face, 1, observed=DIE_READINGS)
    return model


@cache
def custom_discrete_evidence() -> float:
    face = np.arange(1, 7)
    return float(
        logsumexp(np.log(face / 21) + stats.norm.logpdf(DIE_READINGS[:, None], face).sum(0))
    )


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "potential_only",
        build_potential_only,
        potential_only_evidence,
        "2-D quadrature",
        ("continuous", "potential", "no observed"),
    ),
    Problem(
        "potential_and_data",
        build_potential_and_data,
        potential_and_data_evidence,
        "2-D quadrature",
        ("continuous", "potential"),
    ),
    Problem(
        "ising",
        build_ising,
        ising_evidence,
        "enumeration",
        ("discrete", "potential", "no observed", "multimodal"),
        hard="two modes, all up and all down",
    ),
    Problem(
        "custom_likelihood",
        build_custom_likelihood,
        custom_likelihood_evidence,
        "closed form",
        ("continuous", "custom distribution"),
    ),
    Problem(
        "custom_prior",
        build_custom_prior,
        custom_prior_evidence,
        "1-D quadrature",
        ("continuous", "custom distribution"),
    ),
    Problem(
        "custom_discrete",
        build_custom_discrete,
        custom_discrete_evidence,
        "enumeration",
        ("discrete", "custom distribution"),
        hard="the support is not declared",
    ),
)
