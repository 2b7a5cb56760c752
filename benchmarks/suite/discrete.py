"""Discrete latent variables: finite and countable, alone and with continuous parameters.

The truths sum over the discrete variables (all of them, or one at a time where they are independent
given the parameters) and integrate the parameters in closed form or on a grid. Countable sums stop
where the remaining mass is below 1e-15.
"""

from functools import cache

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.suite.numerics import (
    binary_configurations,
    gauss_legendre,
    log_beta_binomial,
    log_integral,
    log_multivariate_normal,
)
from benchmarks.suite.problem import Problem

__all__ = ["DISASTERS", "PROBLEMS", "change_point_evidence"]

# Jarrett (1979): coal mining disasters in Britain, by year from 1851.
DISASTERS = np.array(
    list(
        "45401434063340263354531441553425223421322111130010110031"
        "0322011101010002100011023311211112420014000100000100101"
    ),
    dtype=int,
)
SYMPTOMS = np.array([1, 0, 1, 1, 0, 0, 1, 0])
LATENT_READINGS = np.array([6.3, 7.1, 5.2])
VISIT_COUNTS = np.array([[4, 3, 5], [1, 0, 1], [7, 5, 6], [2, 4, 2], [0, 1, 0]])
SPOT_COUNTS = np.array([9, 14])
OVERDISPERSED_READINGS = np.array([2.2, 9.4, 0.3, 5.1])


def build_change_point() -> pm.Model:
    with pm.Model(coords={"year": np.arange(1851, 1851 + len(DISASTERS))}) as model:
        switch = pm.DiscreteUniform("switch", lower=0, upper=len(DISASTERS) - 1)
        early = pm.Exponential("early", 1)
        late = pm.Exponential("late", 1)
        rate = pm.math.switch(np.arange(len(DISASTERS)) < switch, early, late)
        pm.Poisson("disasters", rate, observed=DISASTERS, dims="year")
    return model


def change_point_evidence(seen: np.ndarray) -> float:
    """Evidence of the change-point model from the years in the boolean mask ``seen``."""
    counts, years = np.where(seen, DISASTERS, 0), seen.astype(int)
    early_counts, early_years = np.r_[0, np.cumsum(counts)[:-1]], np.r_[0, np.cumsum(years)[:-1]]
    late_counts, late_years = counts.sum() - early_counts, years.sum() - early_years

    def log_gamma_poisson(total: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return gammaln(1 + total) - (1 + total) * np.log(1 + exposure)

    log_terms = log_gamma_poisson(early_counts, early_years) + log_gamma_poisson(
        late_counts, late_years
    )
    return float(logsumexp(log_terms) - np.log(len(seen)) - gammaln(counts + 1).sum())


@cache
def full_change_point_evidence() -> float:
    return change_point_evidence(np.ones(len(DISASTERS), dtype=bool))


@cache
def sparse_regression() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    design = rng.normal(size=(25, 6))
    return design, design @ np.array([1.2, 0.0, 0.0, -0.6, 0.0, 0.25]) + rng.normal(0, 0.8, size=25)


def build_spike_and_slab() -> pm.Model:
    design, response = sparse_regression()
    with pm.Model() as model:
        included = pm.Bernoulli("included", 0.3, shape=6)
        weights = pm.Normal("weights", 0, 1, shape=6)
        pm.Normal("response", pm.math.dot(design, included * weights), 0.8, observed=response)
    return model


@cache
def spike_and_slab_evidence() -> float:
    design, response = sparse_regression()
    log_terms = []
    for included in binary_configurations(6):
        covariance = (design * included) @ design.T + 0.64 * np.eye(len(response))
        log_prior = stats.bernoulli.logpmf(included, 0.3).sum()
        log_terms.append(log_prior + log_multivariate_normal(response, 0.0, covariance))
    return float(logsumexp(log_terms))


@cache
def symptom_network() -> tuple[np.ndarray, np.ndarray]:
    """Prevalence of ten diseases, and log probabilities that one does not cause a symptom."""
    rng = np.random.default_rng(10)
    causes = rng.uniform(size=(10, 8)) < 0.4
    return rng.uniform(0.05, 0.3, size=10), np.log1p(
        -(causes * rng.uniform(0.2, 0.9, size=(10, 8)))
    )


def build_noisy_or() -> pm.Model:
    prevalence, log_failure = symptom_network()
    with pm.Model() as model:
        disease = pm.Bernoulli("disease", prevalence)
        absent = 0.95 * pm.math.exp(pm.math.dot(disease, log_failure))
        pm.Bernoulli("symptom", 1 - absent, observed=SYMPTOMS)
    return model


@cache
def noisy_or_evidence() -> float:
    prevalence, log_failure = symptom_network()
    diseases = binary_configurations(10)
    present = 1 - 0.95 * np.exp(diseases @ log_failure)
    log_likelihood = stats.bernoulli.logpmf(SYMPTOMS, present).sum(-1)
    return float(logsumexp(stats.bernoulli.logpmf(diseases, prevalence).sum(-1) + log_likelihood))


def build_binomial_latent() -> pm.Model:
    with pm.Model() as model:
        probability = pm.Beta("probability", 2, 2)
        successes = pm.Binomial("successes", n=15, p=probability)
        pm.Normal("reading", successes, 1.5, observed=LATENT_READINGS)
    return model


@cache
def binomial_latent_evidence() -> float:
    successes = np.arange(16)
    log_likelihood = stats.norm.logpdf(LATENT_READINGS, successes[:, None], 1.5).sum(-1)
    return float(logsumexp(log_beta_binomial(successes, 15, 2.0, 2.0) + log_likelihood))


def build_n_mixture() -> pm.Model:
    """Build Royle's N-mixture: animals at five sites, each seen or not on three visits."""
    with pm.Model(coords={"site": np.arange(5), "visit": np.arange(3)}) as model:
        abundance = pm.Gamma("abundance", alpha=2, beta=0.3)
        detection = pm.Beta("detection", 2, 2)
        animals = pm.Poisson("animals", abundance, dims="site")
        pm.Binomial(
            "seen", n=animals[:, None], p=detection, observed=VISIT_COUNTS, dims=("site", "visit")
        )
    return model


@cache
def n_mixture_evidence() -> float:
    animals = np.arange(300)

    def log_joint(log_abundance: np.ndarray, detection: np.ndarray) -> np.ndarray:
        abundance = np.exp(log_abundance)
        log_poisson = stats.poisson.logpmf(animals, abundance[..., None])
        total = stats.gamma.logpdf(abundance, 2, scale=1 / 0.3) + log_abundance
        total = total + stats.beta.logpdf(detection, 2, 2)
        for counts in VISIT_COUNTS:
            log_seen = stats.binom.logpmf(
                counts[:, None, None, None], animals, detection[..., None]
            ).sum(0)
            total = total + logsumexp(log_poisson + log_seen, axis=-1)
        return total

    return log_integral(log_joint, gauss_legendre(-2, 5, panels=7), gauss_legendre(0, 1, panels=7))


def build_geometric_latent() -> pm.Model:
    with pm.Model() as model:
        spots = pm.Geometric("spots", 0.2)
        pm.Poisson("counts", 2 * spots, observed=SPOT_COUNTS)
    return model


@cache
def geometric_latent_evidence() -> float:
    spots = np.arange(1, 400)
    log_likelihood = stats.poisson.logpmf(SPOT_COUNTS, 2 * spots[:, None]).sum(-1)
    return float(logsumexp(stats.geom.logpmf(spots, 0.2) + log_likelihood))


def build_negative_binomial_latent() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Gamma("mean", alpha=2, beta=0.5)
        counts = pm.NegativeBinomial("counts", mu=mean, alpha=2, shape=len(OVERDISPERSED_READINGS))
        pm.Normal("reading", counts, 0.8, observed=OVERDISPERSED_READINGS)
    return model


@cache
def negative_binomial_latent_evidence() -> float:
    counts = np.arange(60)
    log_likelihood = stats.norm.logpdf(OVERDISPERSED_READINGS, counts[:, None], 0.8)

    def log_joint(mean: np.ndarray) -> np.ndarray:
        log_count = stats.nbinom.logpmf(counts, 2, 2 / (2 + mean[:, None]))
        log_readings = logsumexp(log_count[:, :, None] + log_likelihood, axis=1).sum(-1)
        return stats.gamma.logpdf(mean, 2, scale=2) + log_readings

    return log_integral(log_joint, gauss_legendre(0, 80, panels=40))


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "coal_mining_change_point",
        build_change_point,
        full_change_point_evidence,
        "enumeration over the closed form",
        ("discrete", "continuous", "change point", "real data", "coords"),
    ),
    Problem(
        "spike_and_slab",
        build_spike_and_slab,
        spike_and_slab_evidence,
        "enumeration over Gaussian algebra",
        ("discrete", "continuous", "regression"),
        hard="a weight that is excluded keeps its prior",
    ),
    Problem("noisy_or", build_noisy_or, noisy_or_evidence, "enumeration", ("discrete",)),
    Problem(
        "binomial_latent",
        build_binomial_latent,
        binomial_latent_evidence,
        "enumeration",
        ("discrete", "continuous"),
    ),
    Problem(
        "n_mixture",
        build_n_mixture,
        n_mixture_evidence,
        "2-D quadrature over countable sums",
        ("discrete", "countable", "continuous", "coords"),
        hard="abundance and detection trade off; fewer animals than were seen are impossible",
    ),
    Problem(
        "geometric_latent",
        build_geometric_latent,
        geometric_latent_evidence,
        "countable sum",
        ("discrete", "countable"),
    ),
    Problem(
        "negative_binomial_latent",
        build_negative_binomial_latent,
        negative_binomial_latent_evidence,
        "1-D quadrature over countable sums",
        ("discrete", "countable", "continuous"),
    ),
)
