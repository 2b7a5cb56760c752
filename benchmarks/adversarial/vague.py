"""Vague and heavy priors: the BUGS book, half-Cauchy scales, logits that saturate.

The truths integrate scales and precisions over their logarithm, from where the prior has its edge
to where the likelihood has lost 40 nats.
"""

import numpy as np
import pymc as pm
from scipy import optimize, stats
from scipy.special import expit, gammaln, log_expit, logsumexp

from benchmarks.adversarial.exact import (
    log_half_cauchy,
    log_half_student,
    log_inverse_gamma,
    log_unknown_mean,
    mixed,
    solve_on_grid,
    whitened_rules,
)
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.hierarchical import SCHOOL_EFFECTS, SCHOOL_ERRORS
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import Rule, gauss_legendre, log_beta_binomial

__all__ = ["PROBLEMS", "binomial_logit"]

VALUES = np.array([1.31, 0.42, 2.05, 1.77, 0.63, 1.12, 2.40, 0.95])
LOG_UNIFORM = gauss_legendre(-12, np.log(1000), panels=120, order=10)


def _logit_rule(upper: float, rule: Rule) -> Rule:
    """Turn a rule for log x into one for the interval transform of x in (0, upper)."""
    log_values, log_weights = rule
    inside = log_values < np.log(upper) - 1e-13
    log_values, log_weights = log_values[inside], log_weights[inside]
    log_rest = np.log(upper - np.exp(log_values))
    return log_values - log_rest, log_weights + np.log(upper) - log_rest


def vague_precision(name: str, epsilon: float) -> Adversary:
    """Make a precision under Gamma(eps, eps)."""
    values = 3.0 * (VALUES - VALUES.mean())

    def build() -> pm.Model:
        with pm.Model() as model:
            precision = pm.Gamma("precision", epsilon, epsilon)
            pm.Normal("value", 0, tau=precision, observed=values)
        return model

    def solve() -> Answer:
        shape, rate = epsilon + len(values) / 2, epsilon + (values**2).sum() / 2
        log_evidence = epsilon * np.log(epsilon) - gammaln(epsilon) + gammaln(shape)
        log_evidence -= shape * np.log(rate) + 0.5 * len(values) * np.log(2 * np.pi)
        return Answer(float(log_evidence), {"precision": (shape / rate, np.sqrt(shape) / rate)})

    return Adversary(
        name,
        build,
        solve,
        "closed form",
        f"Gamma({epsilon}, {epsilon}): prior draws span thousands of nats",
        Plan(grid={"precision": gauss_legendre(-15, 6, 60)}),
    )


def bugs_normal() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, tau=1e-6)
            precision = pm.Gamma("precision", 0.001, 0.001)
            pm.Normal("value", mean, tau=precision, observed=VALUES)
        return model

    def solve() -> Answer:
        log_variance, log_weights = gauss_legendre(-8, 40, 200)
        variances = np.exp(log_variance)[:, None] * np.ones(len(VALUES))
        # log(1/x) has the density of log x mirrored: the precision's prior as one of the variance.
        log_terms = log_inverse_gamma(log_variance, 0.001, 0.001) + log_weights
        log_terms = log_terms + log_unknown_mean(VALUES, variances, 1e6)
        precision = len(VALUES) / np.exp(log_variance) + 1e-6
        means = VALUES.sum() / np.exp(log_variance) / precision
        inside = log_variance < 25
        moments = {"mean": mixed(log_terms[inside], means[inside], 1 / precision[inside])}
        return Answer(float(logsumexp(log_terms)), moments)

    return Adversary(
        "bugs_normal",
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "dnorm(0, 1.0E-6) and dgamma(0.001, 0.001)",
        Plan(gaussian=("mean",), grid={"precision": gauss_legendre(-35, 8, 120, 8)}),
    )


def bugs_schools(name: str, scale: str, mean_scale: float) -> Adversary:
    """Eight schools with the priors that people have given the scale."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, mean_scale)
            if scale == "inverse gamma":
                spread = pm.math.sqrt(pm.InverseGamma("variance", 0.001, 0.001))
            elif scale == "uniform":
                spread = pm.Uniform("spread", 0, 1000)
            else:
                spread = pm.HalfStudentT("spread", nu=3, sigma=100.0)
            effect = pm.Normal("effect", mean, spread, shape=8)
            pm.Normal("estimate", effect, SCHOOL_ERRORS, observed=SCHOOL_EFFECTS)
        return model

    def log_joint(log_spread: np.ndarray) -> np.ndarray:
        if scale == "inverse gamma":
            log_prior = log_inverse_gamma(2 * log_spread, 0.001, 0.001) + np.log(2)
        elif scale == "uniform":
            log_prior = log_spread - np.log(1000)
        else:
            log_prior = log_half_student(log_spread, 3, 100)
        variances = np.exp(2 * log_spread[:, None]) + SCHOOL_ERRORS**2
        return log_prior + log_unknown_mean(SCHOOL_EFFECTS, variances, mean_scale**2)

    rules = {
        "inverse gamma": gauss_legendre(-6, 30, 200),
        "uniform": LOG_UNIFORM,
        "half t": gauss_legendre(-16, 25, 200),
    }

    def solve() -> Answer:
        label = "log variance" if scale == "inverse gamma" else "log spread"
        factor = 2 if scale == "inverse gamma" else 1
        return solve_on_grid(
            log_joint, rules[scale], moments={label: lambda log_spread: factor * log_spread}
        )

    grids = {
        "inverse gamma": {"variance": gauss_legendre(-12, 25, 80, 8)},
        "uniform": {"spread": _logit_rule(1000, gauss_legendre(-12, np.log(1000), 120, 8))},
        "half t": {"spread": gauss_legendre(-16, 15, 80, 8)},
    }
    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        f"a group scale with the {scale} prior",
        Plan(gaussian=("mean", "effect"), grid=grids[scale]),
    )


def far_normal() -> Adversary:
    readings = np.array([1203.0, -4.0, 77.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            position = pm.Normal("position", 0, 1000, shape=3)
            pm.Normal("reading", position, 0.5, observed=readings)
        return model

    def solve() -> Answer:
        shrink = 1e6 / (1e6 + 0.25)
        log_evidence = stats.norm.logpdf(readings, 0, np.hypot(1000, 0.5)).sum()
        moments = {"position[0]": (float(readings[0] * shrink), float(0.5 * np.sqrt(shrink)))}
        return Answer(float(log_evidence), moments)

    return Adversary(
        "normal_1000",
        build,
        solve,
        "Gaussian algebra",
        "N(0, 1000^2) and readings to 0.5",
        Plan(gaussian=("position",)),
    )


def vague_scale(name: str, prior: str) -> Adversary:
    """One scale of normal data under a wide prior.

    The width of the half-t is a float: PyMC squares an int8 constant, which overflows from 12 on.
    """
    values = 0.02 * (VALUES - 1)

    def build() -> pm.Model:
        with pm.Model() as model:
            if prior == "half Cauchy":
                scale = pm.HalfCauchy("scale", 25)
            elif prior == "half t":
                scale = pm.HalfStudentT("scale", nu=2, sigma=1000.0)
            else:
                scale = pm.Uniform("scale", 0, 1000)
            pm.Normal("value", 0, scale, observed=values)
        return model

    def log_joint(log_scale: np.ndarray) -> np.ndarray:
        log_prior = {
            "half Cauchy": lambda: log_half_cauchy(log_scale, 25),
            "half t": lambda: log_half_student(log_scale, 2, 1000),
            "uniform": lambda: log_scale - np.log(1000),
        }[prior]()
        return log_prior + stats.norm.logpdf(values, 0, np.exp(log_scale[:, None])).sum(-1)

    def solve() -> Answer:
        rule = gauss_legendre(-8, np.log(1000), 100)
        return solve_on_grid(log_joint, rule, moments={"log scale": lambda log_scale: log_scale})

    coarse = gauss_legendre(-8, np.log(1000), 90, 10)
    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature",
        f"a scale of 0.02 under the {prior} prior",
        Plan(grid={"scale": _logit_rule(1000, coarse) if prior == "uniform" else coarse}),
    )


def binomial_logit(
    name: str, doses: np.ndarray, trials: np.ndarray, deaths: np.ndarray, width: float, reason: str
) -> Adversary:
    """Dose and response with two coefficients: quadrature in the coordinates of a Laplace fit."""

    def build() -> pm.Model:
        with pm.Model() as model:
            intercept = pm.Normal("intercept", 0, width)
            slope = pm.Normal("slope", 0, width)
            pm.Binomial("deaths", n=trials, logit_p=intercept + slope * doses, observed=deaths)
        return model

    log_choose = (gammaln(trials + 1) - gammaln(deaths + 1) - gammaln(trials - deaths + 1)).sum()

    def log_joint(points: np.ndarray) -> np.ndarray:
        logit = points[..., :1] + points[..., 1:] * doses
        log_likelihood = deaths * log_expit(logit) + (trials - deaths) * log_expit(-logit)
        return stats.norm.logpdf(points, 0, width).sum(-1) + log_likelihood.sum(-1) + log_choose

    def fit() -> tuple[np.ndarray, np.ndarray]:
        design = np.column_stack([np.ones_like(doses), doses])
        found = optimize.minimize(lambda point: -log_joint(point), np.zeros(2), tol=1e-10)
        share = expit(design @ found.x)
        hessian = design.T @ (design * (trials * share * (1 - share))[:, None])
        return found.x, hessian + np.eye(2) / width**2

    def solve() -> Answer:
        mode, hessian = fit()
        nodes, log_weights = whitened_rules(
            lambda x: float(log_joint(x)), mode, hessian, gauss_legendre(-16, 40, 28)
        )
        log_terms = log_joint(nodes) + log_weights
        zero = np.zeros(len(nodes))
        moments = {
            label: mixed(log_terms, nodes[:, k], zero)
            for k, label in enumerate(("intercept", "slope"))
        }
        return Answer(float(logsumexp(log_terms)), moments)

    return Adversary(name, build, solve, "2-D quadrature", reason, Plan(draws=40_000))


def separated_logit() -> Adversary:
    """All successes on one side: only the prior bounds the slope."""
    doses = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            slope = pm.Normal("slope", 0, 100)
            pm.Bernoulli("death", logit_p=slope * doses, observed=(doses > 0).astype(int))
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda slope: (
                stats.norm.logpdf(slope, 0, 100) + log_expit(np.abs(doses) * slope[:, None]).sum(-1)
            ),
            gauss_legendre(-60, 1200, 600),
            moments={"slope": lambda slope: slope},
        )

    return Adversary(
        "separated_logit",
        build,
        solve,
        "1-D quadrature",
        "perfect separation, a posterior as wide as half of the prior",
        Plan(grid={"slope": gauss_legendre(-50, 1100, 700, 8)}),
    )


def vague_log_rate() -> Adversary:
    counts = np.array([3, 5, 2])

    def build() -> pm.Model:
        with pm.Model() as model:
            log_rate = pm.Normal("log_rate", 0, 100)
            pm.Poisson("count", pm.math.exp(log_rate), observed=counts)
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda log_rate: (
                stats.norm.logpdf(log_rate, 0, 100)
                + counts.sum() * log_rate
                - 3 * np.exp(log_rate)
                - gammaln(counts + 1).sum()
            ),
            gauss_legendre(-15, 6, 80),
            moments={"log_rate": lambda log_rate: log_rate},
        )

    return Adversary(
        "vague_log_rate",
        build,
        solve,
        "1-D quadrature",
        "most prior draws of the rate are zero or overflow in the likelihood",
        Plan(grid={"log_rate": gauss_legendre(-12, 5, 60, 8)}),
    )


def vague_beta(name: str, heads: list[int], trials: int, epsilon: float) -> Adversary:
    seen = np.array(heads)

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Beta("share", epsilon, epsilon, shape=len(seen))
            pm.Binomial("heads", n=trials, p=share, observed=seen)
        return model

    def solve() -> Answer:
        moments = {}
        for k, count in enumerate(seen):
            posterior = stats.beta(epsilon + count, epsilon + trials - count)
            if 0 < count < trials:
                moments[f"share[{k}]"] = posterior.mean(), posterior.std()
        return Answer(float(log_beta_binomial(seen, trials, epsilon, epsilon).sum()), moments)

    reach = 40 / epsilon
    rule = gauss_legendre(-reach, reach, 4000, 6)
    nearly_exact = epsilon >= 0.01
    return Adversary(
        name,
        build,
        solve,
        "closed form",
        f"Beta({epsilon}, {epsilon}), and shares at the corners",
        Plan(independent={"share": rule}, draws=0) if nearly_exact else None,
        second=lambda: float(
            sum(stats.betabinom.logpmf(count, trials, epsilon, epsilon) for count in seen)
        ),
    )


DOSES = np.array([-0.86, -0.3, -0.05, 0.73])
PROBLEMS: tuple[Adversary, ...] = (
    vague_precision("gamma_0_1_precision", 0.1),
    vague_precision("gamma_0_01_precision", 0.01),
    vague_precision("gamma_0_001_precision", 0.001),
    bugs_normal(),
    bugs_schools("schools_inverse_gamma", "inverse gamma", 1000.0),
    bugs_schools("schools_uniform", "uniform", 100.0),
    bugs_schools("schools_half_t", "half t", 1000.0),
    far_normal(),
    vague_scale("half_cauchy_scale", "half Cauchy"),
    vague_scale("half_t_scale", "half t"),
    vague_scale("uniform_1000_scale", "uniform"),
    binomial_logit(
        "bioassay_vague",
        DOSES,
        np.full(4, 5.0),
        np.array([0.0, 1.0, 3.0, 5.0]),
        100.0,
        "logits that saturate at most prior draws",
    ),
    binomial_logit(
        "bioassay_large",
        DOSES,
        np.full(4, 500.0),
        np.array([30.0, 110.0, 290.0, 480.0]),
        1000.0,
        "logits that saturate, and two thousand trials",
    ),
    separated_logit(),
    vague_log_rate(),
    vague_beta("beta_0_001", [3, 10, 0], 10, 0.001),
    vague_beta("beta_0_05", [1, 7], 20, 0.05),
)
