"""Check every truth of the suite against PyMC's own log-density, integrated by other means.

Run as ``python -m benchmarks.suite.check [name ...]``. The estimate integrates ``model.logp()``, transforms and Jacobians
included, so that agreement shows both that the arithmetic of the truth is right and that it is about the same model. Where PyMC's
log-density is known not to be normalised, the offset is in the plan and a second estimate, the mean likelihood of forward draws
of the prior, which does not see the prior's log-density, is made as well.
"""

import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.replace import clone_replace
from scipy.special import betaln, gammaln, logsumexp

from benchmarks.suite import PROBLEMS, Problem
from benchmarks.suite.density import BatchedDensity, python_mode
from benchmarks.suite.integrate import Plan, integrate
from benchmarks.suite.numerics import Rule, gauss_legendre

__all__ = ["PLANS", "PRIOR_DRAWS", "check", "main"]

# Alarm limit, in standard errors; the floor covers quadrature and rounding where there is no Monte Carlo error.
LIMIT = 4.0
FLOOR = 1e-4


def counting(lower: int, upper: int) -> Rule:
    """The rule that sums over the integers from ``lower`` to ``upper``."""
    return np.arange(lower, upper + 1).astype(float), np.zeros(upper - lower + 1)


BINARY = np.arange(2)
TERNARY = np.arange(3)

PLANS: dict[str, Plan] = {
    "normal_mean": Plan(gaussian=("mean",)),
    "narrow_likelihood": Plan(gaussian=("position",)),
    "normal_inverse_gamma": Plan(gaussian=("mean",)),
    "multivariate_normal_prior": Plan(gaussian=("weights",)),
    **{f"gaussian_vector_{dimension}": Plan(gaussian=("signal",)) for dimension in (20, 50, 100)},
    "linear_regression_full": Plan(gaussian=("weights",)),
    "linear_regression_reduced": Plan(gaussian=("weights",)),
    "pine_density": Plan(gaussian=("weights",)),
    "pine_adjusted_density": Plan(gaussian=("weights",)),
    "eight_schools_centered": Plan(gaussian=("mean", "effect")),
    "eight_schools_non_centered": Plan(gaussian=("mean", "standardized")),
    "random_intercept": Plan(gaussian=("mean", "intercept")),
    "random_slope": Plan(gaussian=("mean", "coefficients")),
    "rat_tumors": Plan(independent={"probability": gauss_legendre(-60, 15, panels=15, order=10)}, draws=1000),
    "poisson_random_effects": Plan(independent={"log_rate": gauss_legendre(-12, 8, panels=25, order=10)}, draws=1000),
    "funnel": Plan(gaussian=("signal",)),
    "half_normal_scale": Plan(gaussian=("mean",)),
    "von_mises": Plan(independent={"heading": gauss_legendre(-np.pi, np.pi)}),
    "zero_sum_normal": Plan(gaussian=("mean", "effect")),
    "ordered_means": Plan(offset=gammaln(4), draws=20_000),
    "ordered_mixture": Plan(offset=gammaln(3), draws=20_000),
    "lkj_cholesky": Plan(offset=-2 * betaln(0.5, 2.0), draws=20_000),
    "mixture_labels": Plan(gaussian=("means",), enumerated={"label": BINARY}),
    "mixture_unknown_weights": Plan(independent={"colour": counting(0, 2)}),
    "hidden_markov": Plan(enumerated={f"state_{step}": TERNARY for step in range(9)}),
    "hidden_markov_unknown_means": Plan(
        gaussian=("means",), enumerated={f"state_{step}": BINARY for step in range(9)}
    ),
    "banana": Plan(gaussian=("along",)),
    "coal_mining_change_point": Plan(enumerated={"switch": np.arange(111)}, draws=1000),
    "spike_and_slab": Plan(gaussian=("weights",), enumerated={"included": BINARY}),
    "noisy_or": Plan(enumerated={"disease": BINARY}),
    "binomial_latent": Plan(enumerated={"successes": np.arange(16)}),
    "n_mixture": Plan(independent={"animals": counting(0, 120)}, draws=2000),
    "geometric_latent": Plan(enumerated={"spots": np.arange(1, 200)}),
    "negative_binomial_latent": Plan(independent={"counts": counting(0, 40)}),
    "random_walk": Plan(gaussian=("level",)),
    "random_walk_unknown_scale": Plan(gaussian=("level",)),
    "random_walk_increments": Plan(gaussian=("start", "step")),
    "autoregression": Plan(gaussian=("state",)),
    "autoregression_unknown_scale": Plan(gaussian=("state",)),
    "autoregression_unknown_persistence": Plan(gaussian=tuple(f"state_{step}" for step in range(12))),
    "gaussian_process_whitened": Plan(gaussian=("curve_rotated_",)),
    "gaussian_process_direct": Plan(gaussian=("curve",)),
    "gaussian_process_unknown_lengthscale": Plan(gaussian=("curve_rotated_",), draws=1000),
    "gaussian_process_hilbert_space": Plan(gaussian=("curve_hsgp_coeffs",)),
    "missing_bernoulli": Plan(enumerated={"treated_unobserved": BINARY}),
    "missing_covariate": Plan(gaussian=("center", "covariate_unobserved")),
    "missing_disasters": Plan(enumerated={"switch": np.arange(111)}, independent={"disasters_unobserved": counting(0, 30)}, draws=300),
    "ising": Plan(enumerated={"up": BINARY}),
    "custom_discrete": Plan(enumerated={"face": np.arange(1, 7)}),
}
