"""Observations that are not numbers: missing, censored, truncated.

PyMC turns each missing value into a free variable, discrete if the likelihood is. Where the missing
value predicts nothing else it integrates to one and leaves the evidence alone; the covariates below
do predict something.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, logsumexp

from benchmarks.suite.discrete import DISASTERS, change_point_evidence
from benchmarks.suite.numerics import (
    binary_configurations,
    gauss_legendre,
    log_integral,
    log_multivariate_normal,
)
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

INCOMPLETE = np.array([1.2, np.nan, 0.7, 2.1, np.nan, 1.6, 0.2, np.nan, 1.9])
TREATED = np.array([1, 0, -1, 1, -1, 0, 0, -1, 1, 1])
OUTCOMES = np.array([2.3, 0.4, 1.4, 1.6, -0.6, 0.2, -0.9, 2.0, 2.8, 1.1])
COVARIATE = np.array([0.5, np.nan, -1.2, 0.8, np.nan, 1.9, 0.1, -0.4])
COVARIATE_RESPONSE = np.array([1.0, 1.8, -1.6, 0.9, -0.7, 2.6, 0.3, -0.2])
CENSORING_LIMIT = 2.0
CENSORED = np.array([1.1, 2.0, 0.3, 2.0, 1.7, 2.0, -0.2, 1.4])
POSITIVE = np.array([0.3, 1.2, 0.1, 0.8, 2.1, 0.5, 1.6])


@contextmanager
def silent_imputation() -> Iterator[None]:
    """Silence PyMC's warning that it will impute; here the imputation is the point.

    A NaN among counts also makes NumPy warn as PyMC casts it to an integer that is never read.
    """
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.filterwarnings("ignore", message=".*(imputation|imputed).*")
        yield


def build_missing_normal() -> pm.Model:
    with silent_imputation(), pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("measurement", mean, scale, observed=INCOMPLETE)
    return model


@cache
def missing_normal_evidence() -> float:
    seen = INCOMPLETE[~np.isnan(INCOMPLETE)]

    def log_joint(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        log_prior = stats.norm.logpdf(mean, 0, 2) + stats.halfnorm.logpdf(scale)
        return log_prior + stats.norm.logpdf(seen, mean[..., None], scale[..., None]).sum(-1)

    return log_integral(
        log_joint, gauss_legendre(-8, 10, panels=20), gauss_legendre(0.01, 8, panels=20)
    )


def build_missing_bernoulli() -> pm.Model:
    with silent_imputation(), pm.Model() as model:
        probability = pm.Beta("probability", 2, 2)
        treated = pm.Bernoulli("treated", probability, observed=np.ma.masked_equal(TREATED, -1))
        pm.Normal("outcome", 2.0 * treated, 1, observed=OUTCOMES)
    return model


@cache
def missing_bernoulli_evidence() -> float:
    log_terms = []
    for imputed in binary_configurations(3):
        treated = TREATED.copy()
        treated[TREATED == -1] = imputed
        successes = treated.sum()
        log_prior = betaln(2 + successes, 2 + len(treated) - successes) - betaln(2, 2)
        log_terms.append(log_prior + stats.norm.logpdf(OUTCOMES, 2.0 * treated).sum())
    return float(logsumexp(log_terms))


def build_missing_covariate() -> pm.Model:
    with silent_imputation(), pm.Model() as model:
        center = pm.Normal("center", 0, 1)
        slope = pm.Normal("slope", 0, 2)
        covariate = pm.Normal("covariate", center, 1, observed=np.ma.masked_invalid(COVARIATE))
        pm.Normal("response", slope * covariate, 0.5, observed=COVARIATE_RESPONSE)
    return model


@cache
def missing_covariate_evidence() -> float:
    """Given the slope, the covariates seen and all of the responses are jointly Gaussian."""
    count = len(COVARIATE)
    seen = ~np.isnan(COVARIATE)
    values = np.concatenate([COVARIATE[seen], COVARIATE_RESPONSE])
    covariate_covariance = np.eye(count) + 1.0

    def log_given_slope(slope: float) -> float:
        loading = np.vstack([np.eye(count)[seen], slope * np.eye(count)])
        noise = np.diag(np.r_[np.zeros(seen.sum()), np.full(count, 0.25)])
        return log_multivariate_normal(
            values, 0.0, loading @ covariate_covariance @ loading.T + noise
        )

    def log_joint(slope: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(slope, 0, 2) + np.array(
            [log_given_slope(value) for value in slope]
        )

    return log_integral(log_joint, gauss_legendre(-8, 10, panels=40))


@cache
def disasters_seen() -> np.ndarray:
    """Mask the two years that PyMC's own example leaves out."""
    seen = np.ones(len(DISASTERS), dtype=bool)
    seen[[39, 83]] = False
    return seen


def build_missing_disasters() -> pm.Model:
    years = np.arange(len(DISASTERS))
    with silent_imputation(), pm.Model() as model:
        switch = pm.DiscreteUniform("switch", lower=0, upper=len(DISASTERS) - 1)
        early = pm.Exponential("early", 1)
        late = pm.Exponential("late", 1)
        rate = pm.math.switch(years < switch, early, late)
        pm.Poisson("disasters", rate, observed=np.where(disasters_seen(), DISASTERS, np.nan))
    return model


@cache
def missing_disasters_evidence() -> float:
    return change_point_evidence(disasters_seen())


def build_censored_normal() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 3)
        scale = pm.HalfNormal("scale", 2)
        lifetime = pm.Normal.dist(mean, scale)
        pm.Censored("reading", lifetime, lower=None, upper=CENSORING_LIMIT, observed=CENSORED)
    return model


@cache
def censored_normal_evidence() -> float:
    seen = CENSORED[CENSORED < CENSORING_LIMIT]
    censored = len(CENSORED) - len(seen)

    def log_joint(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        log_prior = stats.norm.logpdf(mean, 0, 3) + stats.halfnorm.logpdf(scale, 0, 2)
        log_seen = stats.norm.logpdf(seen, mean[..., None], scale[..., None]).sum(-1)
        return log_prior + log_seen + censored * stats.norm.logsf(CENSORING_LIMIT, mean, scale)

    return log_integral(
        log_joint, gauss_legendre(-12, 16, panels=20), gauss_legendre(0.02, 16, panels=20)
    )


def build_truncated_normal() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Truncated("reading", pm.Normal.dist(mean, scale), lower=0, observed=POSITIVE)
    return model


@cache
def truncated_normal_evidence() -> float:
    def log_joint(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        log_prior = stats.norm.logpdf(mean) + stats.halfnorm.logpdf(scale)
        log_likelihood = stats.norm.logpdf(POSITIVE, mean[..., None], scale[..., None]).sum(-1)
        return log_prior + log_likelihood - len(POSITIVE) * stats.norm.logsf(0, mean, scale)

    return log_integral(
        log_joint, gauss_legendre(-8, 6, panels=20), gauss_legendre(0.02, 8, panels=20)
    )


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "missing_normal",
        build_missing_normal,
        missing_normal_evidence,
        "2-D quadrature",
        ("continuous", "missing"),
    ),
    Problem(
        "missing_bernoulli",
        build_missing_bernoulli,
        missing_bernoulli_evidence,
        "enumeration over the closed form",
        ("discrete", "continuous", "missing", "several observed"),
    ),
    Problem(
        "missing_covariate",
        build_missing_covariate,
        missing_covariate_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "missing", "several observed", "regression"),
    ),
    Problem(
        "missing_disasters",
        build_missing_disasters,
        missing_disasters_evidence,
        "enumeration over the closed form",
        ("discrete", "countable", "continuous", "missing", "change point", "real data"),
    ),
    Problem(
        "censored_normal",
        build_censored_normal,
        censored_normal_evidence,
        "2-D quadrature",
        ("continuous", "censored"),
    ),
    Problem(
        "truncated_normal",
        build_truncated_normal,
        truncated_normal_evidence,
        "2-D quadrature",
        ("continuous", "truncated"),
        hard="mean and scale trade off where the truncation removes most of the mass",
    ),
)
