"""Whether 95 % intervals cover the truth, and what refining gives.

``python -m benchmarks calibration [NAME ...] [--replicates 40] [--draws 1000]`` runs each model of
a list (or those named) many times with four chains, and many times with one. It prints how often
the interval of log Z covers the truth, the standard deviation of the error with and without
refining (same runs, same seeds), the ratio of the mean squared errors, and how often the verdict
was not "ok". At 40 replicates of a sound interval, 36 to 40 cover with a probability of 95 %.
"""

import argparse
import logging
import warnings

import numpy as np
from scipy import stats

import pymc_arm
from benchmarks.suite import PROBLEMS
from pymc_arm.models.compiled import compile_model
from pymc_arm.results import PREDICTION_FREEDOM

__all__ = ["COMMANDS"]

# Every kind of step: exact integrals, tempered data, local variables, discrete ones.
MODELS = (
    "beta_binomial_coin",
    "normal_inverse_gamma",
    "dirichlet_multinomial",
    "gaussian_vector_20",
    "linear_regression_reduced",
    "logistic_regression",
    "poisson_regression",
    "eight_schools_non_centered",
    "funnel",
    "banana",
    "ordered_means",
    "truncated_prior",
    "zero_sum_normal",
    "mixture_labels",
    "hidden_markov",
    "noisy_or",
    "random_walk",
    "missing_normal",
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks calibration")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1000)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    names = options.names or MODELS
    print(
        f"{'model':34s} {'covered (4)':>11s} {'(1)':>7s} {'explore(4)':>10s} {'sd':>8s} "
        f"{'sd explore':>10s} {'ratio':>8s} {'not ok (4)':>10s} {'(1)':>5s}"
    )
    ratios = []
    for name in names:
        ratio = _calibrate(name, options)
        if ratio is not None:
            ratios.append(ratio)
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"refined models: {len(ratios)}, geometric mean of the ratios of MSE: {mean:.1f}")


def _calibrate(name: str, options: argparse.Namespace) -> float | None:
    problem = PROBLEMS[name]
    truth = problem.log_evidence()
    path = compile_model(problem.build())
    rows = {chains: [] for chains in (4, 1)}
    for chains, attributes in rows.items():
        for replicate in range(options.replicates):
            result = pymc_arm.sample_path(
                path,
                draws=options.draws,
                chains=chains,
                random_seed=[options.seed, chains, replicate],
                resample_threshold=0.9,
                progressbar=False,
            )
            attributes.append(result.attrs)
    four, one = rows[4], rows[1]
    error = np.array([a["log_marginal_likelihood"] for a in four]) - truth
    explored = np.array([a["explore_log_marginal_likelihood"] for a in four]) - truth
    refined = any(a["estimate"] == "refine" for a in four)
    ratio = float(np.mean(explored**2) / np.mean(error**2)) if refined else None
    count = options.replicates
    alarms = {k: sum(a["verdict"] != "ok" for a in v) for k, v in rows.items()}
    print(
        f"{name:34s} {_covered(four, truth):>7d}/{count} {_covered(one, truth):>4d}/{count} "
        f"{_explore_covered(four, truth):>7d}/{count} {error.std(ddof=1):8.4f} "
        f"{explored.std(ddof=1):10.4f} {'-' if ratio is None else f'{ratio:.1f}':>8s} "
        f"{alarms[4]:>10d} {alarms[1]:>5d}",
        flush=True,
    )
    return ratio


def _covered(rows: list[dict], truth: float) -> int:
    return sum(
        a["log_marginal_likelihood_low"] <= truth <= a["log_marginal_likelihood_high"] for a in rows
    )


def _explore_covered(rows: list[dict], truth: float) -> int:
    """Count the intervals of the exploring estimate, of four chains whose prediction is used."""
    half = stats.t.ppf(0.975, PREDICTION_FREEDOM + 3)
    return sum(
        abs(a["explore_log_marginal_likelihood"] - truth)
        <= half * a["explore_log_marginal_likelihood_se"]
        for a in rows
    )


COMMANDS = {"calibration": main}
