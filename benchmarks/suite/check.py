"""Check every truth of the suite against PyMC's own log-density, integrated by other means.

Run as ``python -m benchmarks.suite.check [name ...]``. The estimate integrates ``model.logp()``,
transforms and Jacobians included, so that agreement shows both that the arithmetic of the truth is
right and that it is about the same model. Where PyMC's log-density is known not to be normalised,
the offset is in the plan and a second estimate, the mean likelihood of forward draws of the prior,
which does not see the prior's log-density, is made as well.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from benchmarks.suite import PROBLEMS, Problem
from benchmarks.suite.density import BatchedDensity, prior_points
from benchmarks.suite.integrate import Plan, integrate
from benchmarks.suite.numerics import Rule, gauss_legendre

__all__ = ["PLANS", "PRIOR_DRAWS", "Verdict", "check", "main"]

# Alarm limit, in standard errors; the floor covers quadrature and rounding where there is no Monte
# Carlo error.
LIMIT = 4.0
FLOOR = 1e-3


def counting(lower: int, upper: int) -> Rule:
    """Return the rule that sums over the integers from ``lower`` to ``upper``."""
    return np.arange(lower, upper + 1).astype(float), np.zeros(upper - lower + 1)


BINARY = np.arange(2)
TERNARY = np.arange(3)
# Transformed scales: from where a scale is nil to where its prior is.
LOG_SCALE = gauss_legendre(-15, 4, panels=16, order=8)
LOG_ODDS = gauss_legendre(-24, 24, panels=32, order=8)

PLANS: dict[str, Plan] = {
    "beta_binomial_coin": Plan(grid={"probability": LOG_ODDS}),
    "normal_mean": Plan(gaussian=("mean",)),
    "narrow_likelihood": Plan(gaussian=("position",)),
    "normal_inverse_gamma": Plan(gaussian=("mean",), grid={"variance": gauss_legendre(-6, 9)}),
    "counts_and_waiting_times": Plan(grid={"rate": gauss_legendre(-6, 4)}),
    "dirichlet_multinomial": Plan(draws=40_000),
    "multivariate_normal_prior": Plan(gaussian=("weights",)),
    **{f"gaussian_vector_{dimension}": Plan(gaussian=("signal",)) for dimension in (20, 50, 100)},
    "linear_regression_full": Plan(gaussian=("weights",), grid={"variance": gauss_legendre(-4, 4)}),
    "linear_regression_reduced": Plan(
        gaussian=("weights",), grid={"variance": gauss_legendre(-4, 4)}
    ),
    "logistic_regression": Plan(draws=20_000),
    "poisson_regression": Plan(draws=20_000),
    "student_regression": Plan(draws=20_000),
    "pine_density": Plan(gaussian=("weights",), grid={"precision": gauss_legendre(-16, -8)}),
    "pine_adjusted_density": Plan(
        gaussian=("weights",), grid={"precision": gauss_legendre(-16, -8)}
    ),
    "eight_schools_centered": Plan(
        gaussian=("mean", "effect"), grid={"scale": gauss_legendre(-15, 9)}
    ),
    "eight_schools_non_centered": Plan(
        gaussian=("mean", "standardized"), grid={"scale": gauss_legendre(-15, 9)}
    ),
    "random_intercept": Plan(
        gaussian=("mean", "intercept"),
        grid={
            "between": gauss_legendre(-12, 2, panels=14, order=8),
            "within": gauss_legendre(-1.2, 0.8, panels=2),
        },
    ),
    "random_slope": Plan(
        gaussian=("mean", "coefficients"),
        grid={"scale": gauss_legendre(-11, 2, panels=10, order=8)},
    ),
    "rat_tumors": Plan(
        grid={
            "center": gauss_legendre(-5, 2, panels=6, order=8),
            "concentration": gauss_legendre(-3, 6, panels=4, order=8),
        },
        independent={"probability": gauss_legendre(-60, 12, panels=12)},
        compiled=True,
    ),
    "poisson_random_effects": Plan(
        grid={
            "mean": gauss_legendre(-3, 5, panels=6, order=8),
            "scale": gauss_legendre(-2.5, 1.8, panels=4, order=8),
        },
        independent={"log_rate": gauss_legendre(-8, 8, panels=20, order=8)},
    ),
    "funnel": Plan(gaussian=("signal",), grid={"log_variance": gauss_legendre(-24, 20)}),
    "half_normal_scale": Plan(gaussian=("mean",), grid={"scale": gauss_legendre(-4, 4)}),
    "uniform_mean_and_scale": Plan(draws=20_000),
    "truncated_prior": Plan(grid={"rate": LOG_ODDS}),
    "von_mises": Plan(grid={"heading": gauss_legendre(-np.pi, np.pi)}),
    "zero_sum_normal": Plan(gaussian=("mean", "effect"), grid={"scale": LOG_SCALE}),
    "ordered_means": Plan(offset=gammaln(4), draws=20_000),
    "ordered_mixture": Plan(offset=gammaln(3), draws=20_000),
    "lkj_cholesky": Plan(offset=-2 * betaln(0.5, 2.0), draws=20_000),
    "mixture_labels": Plan(gaussian=("means",), enumerated={"label": BINARY}),
    "mixture_marginal": Plan(grid={"means": gauss_legendre(-20, 20, panels=25, order=8)}),
    "mixture_unknown_weights": Plan(independent={"colour": counting(0, 2)}),
    "hidden_markov": Plan(enumerated={f"state_{step}": TERNARY for step in range(9)}),
    "hidden_markov_unknown_means": Plan(
        gaussian=("means",), enumerated={f"state_{step}": BINARY for step in range(9)}
    ),
    "bimodal": Plan(grid={"root": gauss_legendre(-5, 5, panels=40, order=6)}),
    "banana": Plan(gaussian=("along",), grid={"across": gauss_legendre(-20, 20, panels=30)}),
    "coal_mining_change_point": Plan(
        enumerated={"switch": np.arange(111)},
        grid={"early": gauss_legendre(0.4, 1.8, 2, 10), "late": gauss_legendre(-0.9, 0.8, 2, 10)},
    ),
    "spike_and_slab": Plan(gaussian=("weights",), enumerated={"included": BINARY}),
    "noisy_or": Plan(enumerated={"disease": BINARY}),
    "binomial_latent": Plan(
        enumerated={"successes": np.arange(16)}, grid={"probability": LOG_ODDS}
    ),
    "n_mixture": Plan(
        grid={
            "abundance": gauss_legendre(-1, 5, panels=6, order=8),
            "detection": gauss_legendre(-10, 8, panels=8, order=8),
        },
        independent={"animals": counting(0, 150)},
        start={"animals": 10.0},
        compiled=True,
    ),
    "geometric_latent": Plan(enumerated={"spots": np.arange(1, 200)}),
    "negative_binomial_latent": Plan(
        grid={"mean": gauss_legendre(-8, 5, panels=15, order=8)},
        independent={"counts": counting(0, 40)},
    ),
    "random_walk": Plan(gaussian=("level",)),
    "random_walk_unknown_scale": Plan(gaussian=("level",), grid={"scale": LOG_SCALE}),
    "random_walk_increments": Plan(gaussian=("start", "step"), grid={"scale": LOG_SCALE}),
    "autoregression": Plan(gaussian=("state",)),
    "autoregression_unknown_scale": Plan(gaussian=("state",), grid={"scale": LOG_SCALE}),
    "autoregression_unknown_persistence": Plan(
        gaussian=tuple(f"state_{step}" for step in range(12)), grid={"persistence": LOG_ODDS}
    ),
    "gaussian_process_whitened": Plan(gaussian=("curve_rotated_",)),
    "gaussian_process_direct": Plan(gaussian=("curve",)),
    "gaussian_process_unknown_lengthscale": Plan(
        gaussian=("curve_rotated_",),
        grid={"lengthscale": gauss_legendre(-3, 5, panels=10, order=8)},
    ),
    "gaussian_process_marginal": Plan(grid={"lengthscale": gauss_legendre(-3, 5)}),
    "gaussian_process_hilbert_space": Plan(gaussian=("curve_hsgp_coeffs",)),
    "missing_normal": Plan(
        gaussian=("mean", "measurement_unobserved"), grid={"scale": gauss_legendre(-5, 3)}
    ),
    "missing_bernoulli": Plan(
        enumerated={"treated_unobserved": BINARY}, grid={"probability": LOG_ODDS}
    ),
    "missing_covariate": Plan(
        gaussian=("center", "covariate_unobserved"),
        grid={"slope": gauss_legendre(-8, 10, panels=40, order=8)},
    ),
    # Years outside this range, and more disasters in a year, have less than 1e-4 of the mass.
    "missing_disasters": Plan(
        enumerated={"switch": np.arange(28, 56)},
        grid={"early": gauss_legendre(0.4, 1.8, 2, 10), "late": gauss_legendre(-0.9, 0.8, 2, 10)},
        independent={"disasters_unobserved": counting(0, 14)},
    ),
    "potential_only": Plan(grid={"position": gauss_legendre(-8, 8, panels=25, order=8)}),
    "ising": Plan(enumerated={"up": BINARY}),
    "custom_likelihood": Plan(grid={"tail": gauss_legendre(-6, 4)}),
    "custom_prior": Plan(grid={"mean": gauss_legendre(-10, 10)}),
    "custom_discrete": Plan(enumerated={"face": np.arange(1, 7)}),
}

# Problems whose prior log-density PyMC does not normalise, and the forward draws that settle what
# its constant should be.
PRIOR_DRAWS: dict[str, int] = {
    "von_mises": 4000,
    "ordered_means": 20_000,
    "ordered_mixture": 20_000,
    "lkj_cholesky": 20_000,
}


@dataclass(frozen=True)
class Verdict:
    """One line of the table.

    Attributes
    ----------
    name
        The problem, and the way of the estimate where it is the second one.
    truth, estimate, standard_error
        Log evidence from the suite, from the check, and the Monte Carlo error of the latter.
    finite
        Fraction of prior draws at which the model's log-density is finite.
    """

    name: str
    truth: float
    estimate: float
    standard_error: float
    finite: float

    @property
    def ok(self) -> bool:
        """Whether truth and estimate agree and the model can be evaluated at draws of its prior."""
        return (
            abs(self.estimate - self.truth) <= LIMIT * self.standard_error + FLOOR
            and self.finite > 0
        )


def _mean_likelihood(problem: Problem, draws: int) -> tuple[float, float]:
    """Log of the mean likelihood over prior draws; those outside of the support are rejected."""
    model = problem.build()
    points = prior_points(model, draws, seed=2)
    points = points[np.isfinite(points).all(1)]
    log_likelihood = BatchedDensity(model, likelihood_only=True).log_density(points)
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    standard_error = likelihood.std() / likelihood.mean() / np.sqrt(len(points))
    return float(logsumexp(log_likelihood) - np.log(len(points))), float(standard_error)


def check(problem: Problem) -> list[Verdict]:
    """Check one problem.

    Parameters
    ----------
    problem
        The problem; problems without a plan are integrated by importance sampling alone.

    Returns
    -------
    list of Verdict
        One, or two where forward draws of the prior are used as well.
    """
    truth = problem.log_evidence()
    model = problem.build()
    if not model.free_RVs:
        return [Verdict(problem.name, truth, float(model.compile_logp()({})), 0.0, 1.0)]
    plan = PLANS.get(problem.name, Plan())
    density = BatchedDensity(model, plan.gaussian, plan.compiled)
    finite = float(np.isfinite(density.log_density(prior_points(model, 200, seed=1))).mean())
    estimate, standard_error = integrate(density, plan, np.random.default_rng(1))
    verdicts = [Verdict(problem.name, truth, estimate, standard_error, finite)]
    if problem.name in PRIOR_DRAWS:
        estimate, standard_error = _mean_likelihood(problem, PRIOR_DRAWS[problem.name])
        verdicts.append(
            Verdict(f"{problem.name} (prior draws)", truth, estimate, standard_error, finite)
        )
    return verdicts


def main(names: Sequence[str]) -> int:
    """Print the table; the exit status is the number of disagreements."""
    started, failures = time.perf_counter(), 0
    columns = "{:44}| {:>11} | {:>11} | {:>10} | {:>12} | {}"
    print(columns.format("name", "truth", "estimate", "std. error", "prior finite", "ok"))
    for name in names or PROBLEMS:
        for verdict in check(PROBLEMS[name]):
            failures += not verdict.ok
            numbers = (verdict.truth, verdict.estimate, verdict.standard_error)
            fields = (*(f"{number:.5f}" for number in numbers), f"{verdict.finite:.0%}")
            print(columns.format(verdict.name, *fields, "yes" if verdict.ok else "NO"), flush=True)
    print(f"{failures} disagreements, {time.perf_counter() - started:.0f} seconds")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
