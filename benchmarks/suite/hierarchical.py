"""Hierarchical models: group effects under unknown scales.

Given the scales the group effects integrate out in closed form (or, for the Poisson model, one at a
time), so the truth is a quadrature over one or two hyperparameters. The funnel shape in the joint
posterior of effects and scale is what makes the centred versions hard for samplers.
"""

from functools import cache

import numpy as np
import pymc as pm
from scipy import stats

from benchmarks.suite.numerics import gauss_legendre, log_beta_binomial, log_integral
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

# Rubin (1981): the effects of coaching in eight schools, and their standard errors.
SCHOOL_EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SCHOOL_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
TUMORS = np.array([0, 0, 1, 2, 1, 5, 2, 5, 4, 9, 15, 4])
RATS = np.array([20, 19, 18, 25, 10, 49, 17, 20, 20, 24, 46, 14])
ACCIDENTS = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])
FUNNEL_READINGS = np.array([0.41, -0.86, 0.12, 1.37, -0.25, -0.63, 0.94, 0.08, -1.15])


def log_normal_means(means: np.ndarray, variances: np.ndarray, prior_variance: float) -> np.ndarray:
    r"""Log density of independent normal values, their common mean integrated out.

    The mean has prior :math:`\mu \sim N(0, v)`.

    Parameters
    ----------
    means
        The values, along the last axis.
    variances
        Their variances given the common mean, broadcast over the leading axes.
    prior_variance
        v.
    """
    precisions = 1 / variances
    total = precisions.sum(-1) + 1 / prior_variance
    weighted = (precisions * means).sum(-1)
    quadratic = (precisions * means**2).sum(-1) - weighted**2 / total
    log_determinant = np.log(variances).sum(-1) + np.log(prior_variance) + np.log(total)
    return -0.5 * (quadratic + log_determinant + len(means) * np.log(2 * np.pi))


def build_eight_schools_centered() -> pm.Model:
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mean = pm.Normal("mean", 0, 5)
        scale = pm.HalfCauchy("scale", 5)
        effect = pm.Normal("effect", mean, scale, dims="school")
        pm.Normal("estimate", effect, SCHOOL_ERRORS, observed=SCHOOL_EFFECTS, dims="school")
    return model


def build_eight_schools_non_centered() -> pm.Model:
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mean = pm.Normal("mean", 0, 5)
        scale = pm.HalfCauchy("scale", 5)
        standardized = pm.Normal("standardized", 0, 1, dims="school")
        effect = pm.Deterministic("effect", mean + scale * standardized, dims="school")
        pm.Normal("estimate", effect, SCHOOL_ERRORS, observed=SCHOOL_EFFECTS, dims="school")
    return model


@cache
def eight_schools_evidence() -> float:
    def log_joint(log_scale: np.ndarray) -> np.ndarray:
        scale = np.exp(log_scale)
        variances = SCHOOL_ERRORS**2 + scale[:, None] ** 2
        log_prior = stats.halfcauchy.logpdf(scale, scale=5) + log_scale
        return log_prior + log_normal_means(SCHOOL_EFFECTS, variances, 25.0)

    return log_integral(log_joint, gauss_legendre(-20, 12, panels=40))


@cache
def grouped_measurements() -> tuple[np.ndarray, np.ndarray]:
    """Group index and measurement, 24 groups of two to six, as in a survey of houses by county."""
    rng = np.random.default_rng(24)
    group = np.repeat(np.arange(24), rng.integers(2, 7, size=24))
    return group, 1.2 + rng.normal(0, 0.6, size=24)[group] + rng.normal(0, 0.8, size=len(group))


def build_random_intercept() -> pm.Model:
    group, measurement = grouped_measurements()
    coords = {"county": [f"county {index}" for index in range(24)], "house": np.arange(len(group))}
    with pm.Model(coords=coords) as model:
        group_index = pm.Data("group_index", group, dims="house")
        mean = pm.Normal("mean", 0, 2)
        between = pm.HalfNormal("between", 1)
        within = pm.HalfNormal("within", 1)
        intercept = pm.Normal("intercept", mean, between, dims="county")
        pm.Normal("measurement", intercept[group_index], within, observed=measurement, dims="house")
    return model


@cache
def random_intercept_evidence() -> float:
    group, measurement = grouped_measurements()
    sizes = np.bincount(group)
    means = np.bincount(group, measurement) / sizes
    within_squares = ((measurement - means[group]) ** 2).sum()
    degrees = len(measurement) - len(sizes)

    def log_joint(between: np.ndarray, within: np.ndarray) -> np.ndarray:
        variances = between[..., None] ** 2 + within[..., None] ** 2 / sizes
        log_within_groups = (
            -0.5 * degrees * np.log(2 * np.pi * within**2)
            - 0.5 * np.log(sizes).sum()
            - 0.5 * within_squares / within**2
        )
        log_prior = stats.halfnorm.logpdf(between) + stats.halfnorm.logpdf(within)
        return log_prior + log_within_groups + log_normal_means(means, variances, 4.0)

    return log_integral(log_joint, gauss_legendre(0, 8), gauss_legendre(0.2, 4))


@cache
def growth_curves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subject index, time and height for twelve subjects seen five times."""
    rng = np.random.default_rng(12)
    subject = np.repeat(np.arange(12), 5)
    time = np.tile(np.linspace(-1, 1, 5), 12)
    intercept, slope = 0.5 + rng.normal(0, 0.8, size=12), 1.0 + rng.normal(0, 0.4, size=12)
    return subject, time, intercept[subject] + slope[subject] * time + rng.normal(0, 0.5, size=60)


def build_random_slope() -> pm.Model:
    subject, time, height = growth_curves()
    with pm.Model(
        coords={"subject": np.arange(12), "coefficient": ["intercept", "slope"]}
    ) as model:
        mean = pm.Normal("mean", 0, 2, dims="coefficient")
        scale = pm.HalfNormal("scale", 1, dims="coefficient")
        coefficient = pm.Normal("coefficients", mean, scale, dims=("subject", "coefficient"))
        expected = coefficient[subject, 0] + coefficient[subject, 1] * time
        pm.Normal("height", expected, 0.5, observed=height)
    return model


@cache
def random_slope_evidence() -> float:
    _, time, height = growth_curves()
    design = np.stack([np.ones(5), time[:5]], axis=1)
    curves = height.reshape(12, 5)
    # The balanced design reduces each curve to its least-squares coefficients, whose covariance is
    # 0.25 (X'X)^-1.
    coefficients = np.linalg.lstsq(design, curves.T, rcond=None)[0]
    residual_squares = ((curves.T - design @ coefficients) ** 2).sum()
    gram = np.diag(design.T @ design)
    log_residual = (
        -0.5 * 36 * np.log(2 * np.pi * 0.25)
        - 0.5 * residual_squares / 0.25
        - 6 * np.log(gram).sum()
    )

    def log_joint(intercept_scale: np.ndarray, slope_scale: np.ndarray) -> np.ndarray:
        total = log_residual
        for index, scale in enumerate((intercept_scale, slope_scale)):
            variances = np.repeat(scale[..., None] ** 2 + 0.25 / gram[index], 12, axis=-1)
            total = (
                total
                + stats.halfnorm.logpdf(scale)
                + log_normal_means(coefficients[index], variances, 4.0)
            )
        return total

    return log_integral(log_joint, gauss_legendre(0, 8, panels=16), gauss_legendre(0, 8, panels=16))


def build_rat_tumors() -> pm.Model:
    with pm.Model() as model:
        center = pm.Uniform("center", 0, 1)
        concentration = pm.Gamma("concentration", alpha=2, beta=0.1)
        probability = pm.Beta(
            "probability", center * concentration, (1 - center) * concentration, shape=len(RATS)
        )
        pm.Binomial("tumors", n=RATS, p=probability, observed=TUMORS)
    return model


@cache
def rat_tumors_evidence() -> float:
    def log_joint(center: np.ndarray, concentration: np.ndarray) -> np.ndarray:
        alpha, beta = (center * concentration)[..., None], ((1 - center) * concentration)[..., None]
        log_prior = stats.gamma.logpdf(concentration, 2, scale=10)
        return log_prior + log_beta_binomial(TUMORS, RATS, alpha, beta).sum(-1)

    return log_integral(log_joint, gauss_legendre(0, 1), gauss_legendre(0, 350, panels=20))


def build_poisson_random_effects() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 1, 1)
        scale = pm.HalfNormal("scale", 1)
        log_rate = pm.Normal("log_rate", mean, scale, shape=len(ACCIDENTS))
        pm.Poisson("accidents", pm.math.exp(log_rate), observed=ACCIDENTS)
    return model


@cache
def poisson_random_effects_evidence() -> float:
    standard_nodes, standard_log_weights = gauss_legendre(-9, 9, panels=10)
    log_standard = standard_log_weights + stats.norm.logpdf(standard_nodes)

    def log_joint(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        # Whitened effects keep the inner integrand smooth however small the scale is.
        log_rate = mean[..., None] + scale[..., None] * standard_nodes
        total = stats.norm.logpdf(mean, 1, 1) + stats.halfnorm.logpdf(scale)
        for count in ACCIDENTS:
            log_terms = (
                stats.poisson.logpmf(count, np.exp(np.minimum(log_rate, 30.0))) + log_standard
            )
            total = total + np.logaddexp.reduce(log_terms, axis=-1)
        return total

    return log_integral(log_joint, gauss_legendre(-4, 6, panels=4), gauss_legendre(0, 6, panels=5))


def build_funnel() -> pm.Model:
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0, 3)
        signal = pm.Normal("signal", 0, pm.math.exp(log_variance / 2), shape=len(FUNNEL_READINGS))
        pm.Normal("reading", signal, 1, observed=FUNNEL_READINGS)
    return model


@cache
def funnel_evidence() -> float:
    def log_joint(log_variance: np.ndarray) -> np.ndarray:
        scale = np.sqrt(1 + np.exp(log_variance))[:, None]
        return stats.norm.logpdf(log_variance, 0, 3) + stats.norm.logpdf(
            FUNNEL_READINGS, 0, scale
        ).sum(-1)

    return log_integral(log_joint, gauss_legendre(-40, 40, panels=40))


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "eight_schools_centered",
        build_eight_schools_centered,
        eight_schools_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "hierarchical", "coords"),
        hard="the effects form a funnel as their scale goes to zero",
    ),
    Problem(
        "eight_schools_non_centered",
        build_eight_schools_non_centered,
        eight_schools_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "hierarchical", "coords", "deterministic"),
    ),
    Problem(
        "random_intercept",
        build_random_intercept,
        random_intercept_evidence,
        "2-D quadrature over Gaussian algebra",
        ("continuous", "hierarchical", "coords", "data"),
    ),
    Problem(
        "random_slope",
        build_random_slope,
        random_slope_evidence,
        "2-D quadrature over Gaussian algebra",
        ("continuous", "hierarchical", "coords", "matrix variable"),
        hard="28 dimensions; all chains may lack the same 2 % of the mass, and be 0.02 low",
    ),
    Problem(
        "rat_tumors",
        build_rat_tumors,
        rat_tumors_evidence,
        "2-D quadrature over the beta-binomial",
        ("continuous", "hierarchical", "logodds transform", "interval transform"),
        hard="prior draws of a probability can round to zero or one",
    ),
    Problem(
        "poisson_random_effects",
        build_poisson_random_effects,
        poisson_random_effects_evidence,
        "2-D quadrature over 1-D quadratures",
        ("continuous", "hierarchical"),
    ),
    Problem(
        "funnel",
        build_funnel,
        funnel_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "hierarchical", "funnel"),
        hard="Neal's funnel: the data do not exclude a scale of zero",
    ),
)
