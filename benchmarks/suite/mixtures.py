"""Mixtures and hidden Markov models, with the labels as variables and with the labels summed out.

The same mixture appears three times, with explicit labels, with the labels marginalised by PyMC,
and with unknown weights. Label switching makes their posteriors multimodal. The banana and the
square root of noise are multimodal or curved without labels.
"""

from functools import cache

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.suite.numerics import (
    configurations,
    gauss_legendre,
    log_integral,
    log_multivariate_normal,
)
from benchmarks.suite.problem import Problem

__all__ = ["PROBLEMS"]

MIXTURE_WEIGHTS = np.array([0.4, 0.6])
MIXTURE_VALUES = np.array([-1.9, -2.6, -1.2, 1.8, 2.4, 1.1, 2.9, 2.2, 0.3, 1.6, -2.2])
COMPONENT_MEANS = np.array([-2.0, 0.0, 2.5])
COLOUR_VALUES = np.array([-1.7, 0.4, 2.9, 2.1, -0.6, 2.4, 0.9, 1.3])
COLOUR_CONCENTRATION = np.array([1.0, 2.0, 1.5])
TRANSITIONS = np.array([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
START = np.array([0.5, 0.3, 0.2])
CHAIN_VALUES = np.array([-1.8, -2.4, -0.9, 0.3, 0.2, 1.4, 2.8, 1.9, -0.4])
SWITCHING = np.array([[0.9, 0.1], [0.2, 0.8]])
SWITCHING_VALUES = np.array([0.1, -0.4, 0.3, 2.2, 2.9, 2.5, 1.7, 0.2, -0.1])


def build_mixture_labels() -> pm.Model:
    with pm.Model() as model:
        means = pm.Normal("means", 0, 3, shape=2)
        label = pm.Categorical("label", MIXTURE_WEIGHTS, shape=len(MIXTURE_VALUES))
        pm.Normal("value", means[label], 1, observed=MIXTURE_VALUES)
    return model


@cache
def mixture_labels_evidence() -> float:
    log_terms = []
    for label in configurations(len(MIXTURE_VALUES), 2):
        same = np.equal.outer(label, label)
        covariance = np.eye(len(label)) + 9.0 * same
        log_terms.append(
            np.log(MIXTURE_WEIGHTS)[label].sum()
            + log_multivariate_normal(MIXTURE_VALUES, 0.0, covariance)
        )
    return float(logsumexp(log_terms))


def build_mixture_marginal() -> pm.Model:
    with pm.Model() as model:
        means = pm.Normal("means", 0, 3, shape=2)
        pm.NormalMixture("value", w=MIXTURE_WEIGHTS, mu=means, sigma=1, observed=MIXTURE_VALUES)
    return model


@cache
def mixture_marginal_evidence() -> float:
    def log_joint(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        total = stats.norm.logpdf(first, 0, 3) + stats.norm.logpdf(second, 0, 3)
        for value in MIXTURE_VALUES:
            total = total + np.logaddexp(
                np.log(MIXTURE_WEIGHTS[0]) + stats.norm.logpdf(value, first),
                np.log(MIXTURE_WEIGHTS[1]) + stats.norm.logpdf(value, second),
            )
        return total

    rule = gauss_legendre(-22, 22, panels=40)
    return log_integral(log_joint, rule, rule)


def build_mixture_unknown_weights() -> pm.Model:
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", COLOUR_CONCENTRATION)
        colour = pm.Categorical("colour", weights, shape=len(COLOUR_VALUES))
        means = pm.math.constant(COMPONENT_MEANS)
        pm.Normal("value", means[colour], 1, observed=COLOUR_VALUES)
    return model


@cache
def mixture_unknown_weights_evidence() -> float:
    labels = configurations(len(COLOUR_VALUES), 3)
    counts = (labels[:, :, None] == np.arange(3)).sum(1)
    total = COLOUR_CONCENTRATION.sum()
    log_prior = gammaln(total) - gammaln(total + len(COLOUR_VALUES))
    log_prior = log_prior + (
        gammaln(COLOUR_CONCENTRATION + counts) - gammaln(COLOUR_CONCENTRATION)
    ).sum(-1)
    return float(
        logsumexp(log_prior + stats.norm.logpdf(COLOUR_VALUES, COMPONENT_MEANS[labels], 1).sum(-1))
    )


def log_forward(
    log_start: np.ndarray, transitions: np.ndarray, log_emissions: np.ndarray
) -> np.ndarray:
    """Log evidence of a hidden Markov model by the forward recursion.

    Parameters
    ----------
    log_start
        Log probability of the first state.
    transitions
        Row-stochastic matrix.
    log_emissions
        Array ``(..., time, state)``.
    """
    log_filter = log_start + log_emissions[..., 0, :]
    for time in range(1, log_emissions.shape[-2]):
        log_predicted = logsumexp(log_filter[..., :, None] + np.log(transitions), axis=-2)
        log_filter = log_predicted + log_emissions[..., time, :]
    return logsumexp(log_filter, axis=-1)


def build_hidden_markov() -> pm.Model:
    with pm.Model() as model:
        state = pm.Categorical("state_0", START)
        states = [state]
        for time in range(1, len(CHAIN_VALUES)):
            state = pm.Categorical(f"state_{time}", pm.math.constant(TRANSITIONS)[state])
            states.append(state)
        means = pm.math.constant(COMPONENT_MEANS)
        pm.Normal("value", means[pm.math.stack(states)], 0.9, observed=CHAIN_VALUES)
    return model


@cache
def hidden_markov_evidence() -> float:
    log_emissions = stats.norm.logpdf(CHAIN_VALUES[:, None], COMPONENT_MEANS, 0.9)
    return float(log_forward(np.log(START), TRANSITIONS, log_emissions))


def build_hidden_markov_unknown_means() -> pm.Model:
    with pm.Model() as model:
        means = pm.Normal("means", 1, 2, shape=2)
        state = pm.Bernoulli("state_0", 0.3)
        pm.Normal("value_0", means[state], 0.6, observed=SWITCHING_VALUES[0])
        for time in range(1, len(SWITCHING_VALUES)):
            state = pm.Bernoulli(f"state_{time}", pm.math.constant(SWITCHING[:, 1])[state])
            pm.Normal(f"value_{time}", means[state], 0.6, observed=SWITCHING_VALUES[time])
    return model


@cache
def hidden_markov_unknown_means_evidence() -> float:
    def log_joint(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        means = np.stack(np.broadcast_arrays(first, second), axis=-1)
        log_emissions = stats.norm.logpdf(SWITCHING_VALUES[:, None], means[..., None, :], 0.6)
        log_prior = stats.norm.logpdf(means, 1, 2).sum(-1)
        return log_prior + log_forward(np.log([0.7, 0.3]), SWITCHING, log_emissions)

    rule = gauss_legendre(-13, 15, panels=20, order=12)
    return log_integral(log_joint, rule, rule)


def build_bimodal() -> pm.Model:
    with pm.Model() as model:
        root = pm.Normal("root", 0.5, 3, shape=2)
        pm.Normal("square", root**2, 0.5, observed=np.array([4.0, 2.0]))
    return model


@cache
def bimodal_evidence() -> float:
    def log_joint(root: np.ndarray, square: float) -> np.ndarray:
        return stats.norm.logpdf(root, 0.5, 3) + stats.norm.logpdf(square, root**2, 0.5)

    rule = gauss_legendre(-6, 6, panels=60)
    return sum(
        log_integral(lambda root, square=square: log_joint(root, square), rule)
        for square in (4.0, 2.0)
    )


def build_banana() -> pm.Model:
    with pm.Model() as model:
        across = pm.Normal("across", 0, 2)
        along = pm.Normal("along", 0, 5)
        pm.Normal("reading", along - across**2, 0.02, observed=1.0)
    return model


@cache
def banana_evidence() -> float:
    def log_joint(across: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(across, 0, 2) + stats.norm.logpdf(
            1.0, -(across**2), np.hypot(5, 0.02)
        )

    return log_integral(log_joint, gauss_legendre(-20, 20, panels=40))


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "mixture_labels",
        build_mixture_labels,
        mixture_labels_evidence,
        "enumeration over Gaussian algebra",
        ("discrete", "continuous", "mixture"),
        hard="label switching",
    ),
    Problem(
        "mixture_marginal",
        build_mixture_marginal,
        mixture_marginal_evidence,
        "2-D quadrature",
        ("continuous", "mixture", "multimodal"),
        hard="label switching gives two modes of unequal mass",
    ),
    Problem(
        "mixture_unknown_weights",
        build_mixture_unknown_weights,
        mixture_unknown_weights_evidence,
        "enumeration over the closed form",
        ("discrete", "continuous", "mixture", "simplex"),
    ),
    Problem(
        "hidden_markov",
        build_hidden_markov,
        hidden_markov_evidence,
        "forward algorithm",
        ("discrete", "hidden Markov"),
    ),
    Problem(
        "hidden_markov_unknown_means",
        build_hidden_markov_unknown_means,
        hidden_markov_unknown_means_evidence,
        "2-D quadrature over the forward algorithm",
        ("discrete", "continuous", "hidden Markov", "several observed"),
    ),
    Problem(
        "bimodal",
        build_bimodal,
        bimodal_evidence,
        "1-D quadratures",
        ("continuous", "multimodal"),
        hard="four separated modes",
    ),
    Problem(
        "banana",
        build_banana,
        banana_evidence,
        "1-D quadrature over Gaussian algebra",
        ("continuous", "curved"),
        hard="a thin curved ridge, 250 times narrower than it is long",
    ),
)
