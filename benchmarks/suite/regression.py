"""Regressions with a known answer: conjugate, and small enough for quadrature.

The pairs (full and reduced, the two pine models) are there for Bayes factors.
"""

import os
from functools import cache, partial
from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit

from benchmarks.suite.numerics import gauss_legendre, log_integral, log_inverse_gamma_regression
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

PREDICTORS = (
    "age",
    "income",
    "height",
    "weight",
    "distance",
    "noise_one",
    "noise_two",
    "noise_three",
)
POISSON_COUNTS = np.array([2, 0, 3, 4, 4, 9, 7, 16, 12, 20])
POISSON_EXPOSURE = np.array([2.0, 1.0, 2.0, 3.0, 2.0, 4.0, 2.0, 4.0, 3.0, 4.0])


@cache
def predictors_and_response() -> tuple[np.ndarray, np.ndarray]:
    """Forty rows of eight predictors; the last three do not matter."""
    rng = np.random.default_rng(40)
    design = rng.normal(size=(40, 8))
    weights = np.array([1.0, -0.7, 0.5, 0.0, 0.3, 0.0, 0.0, 0.0])
    return design, design @ weights + rng.normal(0, 0.9, size=40)


def build_linear_regression(predictors: int) -> pm.Model:
    design, response = predictors_and_response()
    with pm.Model(coords={"predictor": PREDICTORS[:predictors], "row": np.arange(40)}) as model:
        design_data = pm.Data("design", design[:, :predictors], dims=("row", "predictor"))
        variance = pm.InverseGamma("variance", alpha=3, beta=2)
        weights = pm.Normal("weights", 0, pm.math.sqrt(variance), dims="predictor")
        expected = pm.Deterministic("expected", pm.math.dot(design_data, weights), dims="row")
        pm.Normal("response", expected, pm.math.sqrt(variance), observed=response, dims="row")
    return model


@cache
def linear_regression_evidence(predictors: int) -> float:
    design, response = predictors_and_response()
    return log_inverse_gamma_regression(
        response, design[:, :predictors], np.zeros(predictors), np.eye(predictors), 3.0, 2.0
    )


@cache
def binary_outcomes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(60)
    design = np.column_stack([np.ones(60), rng.normal(size=60), rng.uniform(-1, 1, size=60)])
    return design, (rng.uniform(size=60) < expit(design @ np.array([-0.3, 1.1, -0.8]))).astype(int)


def build_logistic_regression() -> pm.Model:
    design, outcome = binary_outcomes()
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 2.5, shape=3)
        pm.Bernoulli("outcome", logit_p=pm.math.dot(design, weights), observed=outcome)
    return model


@cache
def logistic_regression_evidence() -> float:
    design, outcome = binary_outcomes()

    def log_joint(*weights: np.ndarray) -> np.ndarray:
        total = sum(stats.norm.logpdf(weight, 0, 2.5) for weight in weights)
        for row, success in zip(design, outcome, strict=True):
            predictor = sum(value * weight for value, weight in zip(row, weights, strict=True))
            total = total - np.logaddexp(0, -predictor if success else predictor)
        return total

    rules = (
        gauss_legendre(-4, 4, panels=4),
        gauss_legendre(-3, 7, panels=4),
        gauss_legendre(-7, 5, panels=4),
    )
    return log_integral(log_joint, *rules)


def build_poisson_regression() -> pm.Model:
    time = np.linspace(-1, 1, len(POISSON_COUNTS))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 1)
        rate = POISSON_EXPOSURE * pm.math.exp(intercept + slope * time)
        pm.Poisson("counts", rate, observed=POISSON_COUNTS)
    return model


@cache
def poisson_regression_evidence() -> float:
    time = np.linspace(-1, 1, len(POISSON_COUNTS))

    def log_joint(intercept: np.ndarray, slope: np.ndarray) -> np.ndarray:
        rate = POISSON_EXPOSURE * np.exp(intercept[..., None] + slope[..., None] * time)
        log_prior = stats.norm.logpdf(intercept, 0, 2) + stats.norm.logpdf(slope, 0, 1)
        return log_prior + stats.poisson.logpmf(POISSON_COUNTS, rate).sum(-1)

    return log_integral(log_joint, gauss_legendre(-2, 3), gauss_legendre(-2, 4))


@cache
def line_with_outliers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(30)
    position = np.linspace(-2, 2, 30)
    height = 0.4 + 0.9 * position + rng.normal(0, 0.4, size=30)
    height[[3, 17, 25]] += np.array([4.0, -3.0, 5.0])
    return position, height


def build_student_regression() -> pm.Model:
    position, height = line_with_outliers()
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        scale = pm.HalfNormal("scale", 2)
        pm.StudentT("height", nu=4, mu=intercept + slope * position, sigma=scale, observed=height)
    return model


@cache
def student_regression_evidence() -> float:
    position, height = line_with_outliers()

    def log_joint(intercept: np.ndarray, slope: np.ndarray, scale: np.ndarray) -> np.ndarray:
        total = (
            stats.norm.logpdf(intercept, 0, 5)
            + stats.norm.logpdf(slope, 0, 5)
            + stats.halfnorm.logpdf(scale, 0, 2)
        )
        for place, value in zip(position, height, strict=True):
            standardized = (value - intercept - slope * place) / scale
            total = total - 2.5 * np.log1p(standardized**2 / 4) - np.log(scale)
        return total + len(height) * stats.t.logpdf(0, 4)

    rules = (
        gauss_legendre(-1.2, 2.0, panels=5),
        gauss_legendre(-0.4, 2.2, panels=5),
        gauss_legendre(0.1, 2.6, panels=5),
    )
    return log_integral(log_joint, *rules)


@cache
def data_tables() -> dict[str, np.ndarray] | None:
    """Read the tables of real data, or return None where the file is not installed."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    location = Path(os.environ.get("PYMC_ARM_DATA", default))
    path = location / "tables.npz" if location.is_dir() else location
    if not path.is_file():
        return None
    with np.load(path) as tables:
        return dict(tables)


@cache
def pine(predictor: int) -> tuple[np.ndarray, np.ndarray]:
    """Centred design and strength of 42 specimens of radiata pine (Williams 1959)."""
    tables = data_tables()
    if tables is None:
        raise FileNotFoundError(
            "the pine data were not found; set PYMC_ARM_DATA to the folder that holds tables.npz"
        )
    density = tables["pine"][:, predictor]
    return np.column_stack([np.ones(len(density)), density - density.mean()]), tables["pine"][:, 0]


# Friel and Pettitt (2008): coefficients N((3000, 185), (precision * diag(0.06, 6))^-1), precision
# Gamma(3, 2 * 300^2).
PINE_PRIOR_MEAN = np.array([3000.0, 185.0])
PINE_PRIOR_PRECISION = np.array([0.06, 6.0])
PINE_SHAPE, PINE_RATE = 3.0, 2 * 300.0**2


def build_pine(predictor: int) -> pm.Model:
    design, strength = pine(predictor)
    with pm.Model() as model:
        precision = pm.Gamma("precision", alpha=PINE_SHAPE, beta=PINE_RATE)
        weights = pm.Normal("weights", PINE_PRIOR_MEAN, tau=precision * PINE_PRIOR_PRECISION)
        pm.Normal("strength", pm.math.dot(design, weights), tau=precision, observed=strength)
    return model


@cache
def pine_evidence(predictor: int) -> float:
    design, strength = pine(predictor)
    return log_inverse_gamma_regression(
        strength, design, PINE_PRIOR_MEAN, np.diag(1 / PINE_PRIOR_PRECISION), PINE_SHAPE, PINE_RATE
    )


PROBLEMS: tuple[Problem, ...] = (
    *(
        Problem(
            f"linear_regression_{name}",
            partial(build_linear_regression, predictors),
            partial(linear_regression_evidence, predictors),
            "closed form",
            ("continuous", "regression", "coords", "data", "deterministic"),
        )
        for name, predictors in (("full", 8), ("reduced", 5))
    ),
    Problem(
        "logistic_regression",
        build_logistic_regression,
        logistic_regression_evidence,
        "3-D quadrature",
        ("continuous", "regression"),
    ),
    Problem(
        "poisson_regression",
        build_poisson_regression,
        poisson_regression_evidence,
        "2-D quadrature",
        ("continuous", "regression"),
    ),
    Problem(
        "student_regression",
        build_student_regression,
        student_regression_evidence,
        "3-D quadrature",
        ("continuous", "regression", "heavy tails"),
    ),
    *(
        Problem(
            f"pine_{name}",
            partial(build_pine, predictor),
            partial(pine_evidence, predictor),
            "closed form",
            ("continuous", "regression", "real data"),
            hard="coordinates on scales from 1e-5 to 1e3",
        )
        for name, predictor in (("density", 1), ("adjusted_density", 2))
        if data_tables() is not None
    ),
)
