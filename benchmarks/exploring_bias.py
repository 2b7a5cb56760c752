"""How far the exploring estimate, without refining, is from the truth over many chains.

Kernels that adapt to the particles they move, and particles that have not arrived, both show here;
``docs/bias.md`` has the theory and the figures.
"""

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy import integrate, special, stats

from benchmarks.suite import PROBLEMS
from pymc_arm import Settings, run
from pymc_arm.algorithm.path import Path
from pymc_arm.models.compiled import compile_model
from pymc_arm.running.pilot import pilot

__all__ = ["COMMANDS", "main"]

# As ``sample`` has it for models without a family.
SETTINGS = Settings(resample_threshold=0.9)
# Chains that repeat the same pilot run.
CHAINS_A_PILOT = 10


class Case(NamedTuple):
    """A model and its exact log Z."""

    build: Callable[[], pm.Model]
    log_evidence: Callable[[], float]


def _uniform_edges() -> Case:
    """Six uniform variables, the data beyond their ends, and one of two scales for all of them."""
    data, scales = np.array([1.10, -0.15, 1.05, -0.10, 1.20, -0.05]), (0.05, 0.1)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Uniform("x", 0, 1, shape=6)
            fine, coarse = (pm.logp(pm.Normal.dist(x, s), data).sum() for s in scales)
            pm.Potential("y", pm.math.logaddexp(fine, coarse) - np.log(2))
        return model

    def log_evidence() -> float:
        masses = [stats.norm.cdf((1 - data) / s) - stats.norm.cdf(-data / s) for s in scales]
        return float(np.log(np.mean([mass.prod() for mass in masses])))

    return Case(build, log_evidence)


def _student_regression() -> Case:
    """Thirty coefficients under Student noise, in rotated coordinates that hide the factors."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    data = rng.normal(size=30) + 0.3 * rng.standard_t(3, size=(2, 30))

    def build() -> pm.Model:
        with pm.Model() as model:
            coefficients = pm.Normal("b", 0, 1, shape=30)
            mean = pm.math.dot(rotation, coefficients)
            pm.StudentT("y", nu=3, mu=mean, sigma=0.3, observed=data)
        return model

    def log_evidence() -> float:
        nodes = np.linspace(-8, 8, 20_001)[:, None]
        values = stats.norm.logpdf(nodes)
        values = values + sum(stats.t.logpdf(row, 3, nodes, 0.3) for row in data)
        return float(np.log(integrate.simpson(np.exp(values), x=nodes[:, 0], axis=0)).sum())

    return Case(build, log_evidence)


def _curie_weiss() -> Case:
    """25 spins that all act on each other, above the critical coupling."""
    count, coupling = 25, 1.2

    def build() -> pm.Model:
        with pm.Model() as model:
            spins = pm.Bernoulli("s", 0.5, shape=count)
            pm.Potential("energy", 0.5 * coupling / count * (2 * spins - 1).sum() ** 2)
        return model

    def log_evidence() -> float:
        up = np.arange(count + 1)
        states = special.gammaln(count + 1) - special.gammaln(up + 1)
        states -= special.gammaln(count - up + 1) + count * np.log(2)
        return float(special.logsumexp(states + 0.5 * coupling / count * (2 * up - count) ** 2))

    return Case(build, log_evidence)


def _heavy_regression() -> Case:
    """Five coefficients ~ N(0, 10^2), noise ~ HalfCauchy(2.5), 200 rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5))
    data = rows @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.15 * rng.normal(size=200)

    def build() -> pm.Model:
        with pm.Model() as model:
            coefficients = pm.Normal("b", 0, 10, shape=5)
            noise = pm.HalfCauchy("noise", 2.5)
            pm.Normal("y", pm.math.dot(rows, coefficients), noise, observed=data)
        return model

    def log_evidence() -> float:
        nodes = np.linspace(np.log(0.05), 0.0, 401)
        covariance = 100 * rows @ rows.T
        zeros = np.zeros(len(data))
        values = [
            stats.multivariate_normal.logpdf(data, zeros, covariance + np.exp(2 * u) * np.eye(200))
            + stats.halfcauchy.logpdf(np.exp(u), scale=2.5)
            + u
            for u in nodes
        ]
        top = max(values)
        return top + float(np.log(integrate.simpson(np.exp(np.array(values) - top), x=nodes)))

    return Case(build, log_evidence)


def _suite(name: str) -> Case:
    return Case(PROBLEMS[name].build, PROBLEMS[name].log_evidence)


CASES: dict[str, Callable[[], Case]] = {
    "uniform edges, 6 d": _uniform_edges,
    "Curie-Weiss, 25 spins": _curie_weiss,
    "logistic regression": functools.partial(_suite, "logistic_regression"),
    "eight schools": functools.partial(_suite, "eight_schools_centered"),
    "funnel": functools.partial(_suite, "funnel"),
    "mixture labels": functools.partial(_suite, "mixture_labels"),
    "regression, heavy priors": _heavy_regression,
    "regression, Student noise, 30 d": _student_regression,
}


def main(arguments: Sequence[str] = ()) -> None:
    """Print the bias of the exploring estimate of each model, adaptive and after a pilot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks exploring-bias", description=__doc__
    )
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--particles", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--allocations", nargs="+", default=["adaptive", "pilot"])
    options = parser.parse_args(list(arguments))
    print("| model | allocation | log of mean Z-hat | mean of log Z-hat | sd | CPU s a chain |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        case = CASES[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = compile_model(case.build())
            path.prepare()
        for allocation in options.allocations:
            started = time.process_time()
            errors = exploring_errors(
                path, allocation, options.particles, options.chains, options.seed
            )
            errors -= case.log_evidence()
            seconds = (time.process_time() - started) / len(errors)
            pooled, pooled_error = log_of_mean(errors)
            sd = errors.std(ddof=1)
            print(
                f"| {name} | {allocation} | {pooled:+.3f} ± {pooled_error:.3f} "
                f"| {errors.mean():+.3f} ± {sd / np.sqrt(len(errors)):.3f} | {sd:.3f} "
                f"| {seconds:.2f} |",
                flush=True,
            )


def exploring_errors(
    path: Path, allocation: str, particles: int, chains: int, seed: int
) -> np.ndarray:
    """Return log Z-hat of independent chains; those of a pilot share it by tens."""
    generators = np.random.default_rng(seed).spawn(chains)
    values, chosen, counts, settings = [], path, None, SETTINGS
    for number, rng in enumerate(generators):
        if allocation == "pilot" and number % CHAINS_A_PILOT == 0:
            chosen, counts = pilot(path, particles, rng, SETTINGS)
            settings = Settings(resample_threshold=0.9, variant="rm")
        values.append(run(chosen, rng, particles, counts=counts, **vars(settings)).log_evidence)
    return np.array(values)


def log_of_mean(values: np.ndarray) -> tuple[float, float]:
    """Return the log of the mean of exponentials, and its standard error by the jackknife."""
    count = len(values)
    top = values.max()
    terms = np.exp(values - top)
    without = np.log((terms.sum() - terms) / (count - 1))
    error = np.sqrt((count - 1) * without.var())
    return float(top + np.log(terms.mean())), float(error)


COMMANDS = {"exploring-bias": main}
