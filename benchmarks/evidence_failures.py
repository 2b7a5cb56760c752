"""Draws that should not be trusted, and whether ``pymc_arm.evidence`` says so.

``python -m benchmarks evidence-failures [NAME ...] [--repeats 10]`` hands draws to ``evidence``
that are wrong in a known way, and counts how many are refused or have a verdict that is not ok.
Printed beside it is the largest error of log Z among those that are ok.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

import pymc_arm
from benchmarks.suite import PROBLEMS
from pymc_arm._compat import make_tree

__all__ = ["COMMANDS", "FAILURES"]

Case = tuple[Any, pm.Model, float]


def _tree(name: str, draws: np.ndarray) -> Any:
    dims = ("chain", "draw", *(f"{name}_{k}" for k in range(draws.ndim - 2)))
    return make_tree({"posterior": xr.Dataset({name: (dims, draws)})}, {})


def _modes(seed: int) -> Case:
    """Return chains of which two are in each of two modes, one of seven tenths of Z."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 5.0)
        left, right = (pm.logp(pm.Normal.dist(place, 0.5), x) for place in (-4.0, 4.0))
        pm.Potential("y", pm.math.logaddexp(np.log(0.3) + left, np.log(0.7) + right))
    variance = 1 / (1 / 25 + 4)
    noise = np.random.default_rng(seed).normal(0.0, np.sqrt(variance), (4, 1000))
    draws = np.array([[1.0], [1.0], [-1.0], [-1.0]]) * 16 * variance + noise
    return _tree("x", draws), model, float(stats.norm.logpdf(4.0, 0.0, np.sqrt(25.25)))


def _one_chain(seed: int) -> Case:
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 3.0)
        pm.Binomial("y", n=10, p=p, observed=7)
    draws = np.random.default_rng(seed).beta(9.0, 6.0, (1, 2000))
    return _tree("p", draws), model, float(stats.betabinom.logpmf(7, 10, 2.0, 3.0))


def _few_draws(seed: int) -> Case:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=50)
        pm.Normal("y", x, 1.0, observed=np.zeros(50))
    draws = np.random.default_rng(seed).normal(0.0, np.sqrt(0.5), (4, 25, 50))
    return _tree("x", draws), model, float(50 * stats.norm.logpdf(0.0, 0.0, np.sqrt(2.0)))


def _another_model(seed: int) -> Case:
    """Return draws that were made with noise of 2, and a model with noise of 1."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(1.0, 1.0, 20)
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=1)
        pm.Normal("y", x, 1.0, observed=rows)
    variance = 1 / (1 + 20 / 4.0)
    draws = rng.normal(rows.sum() / 4.0 * variance, np.sqrt(variance), (4, 1000, 1))
    exact = stats.multivariate_normal.logpdf(rows, np.zeros(20), np.eye(20) + 1.0)
    return _tree("x", draws), model, float(exact)


def _funnel(seed: int) -> Case:
    """Return draws of NUTS of the suite's funnel."""
    problem = PROBLEMS["funnel"]
    model = problem.build()
    idata = pm.sample(model=model, random_seed=seed, progressbar=False, cores=1, chains=4)
    return idata, model, problem.log_evidence()


FAILURES: dict[str, Callable[[int], Case]] = {
    "modes": _modes,
    "one_chain": _one_chain,
    "few_draws": _few_draws,
    "another_model": _another_model,
    "funnel": _funnel,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evidence-failures")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for name in options.names or FAILURES:
        refused, flagged, largest = 0, 0, 0.0
        for seed in range(options.repeats):
            idata, model, exact = FAILURES[name](seed)
            try:
                found = pymc_arm.evidence(
                    idata, model, random_seed=seed, cores=1, progressbar=False
                ).attrs
            except pymc_arm.DrawsError:
                refused += 1
                continue
            if found["verdict"] == "ok":
                largest = max(largest, abs(found["log_marginal_likelihood"] - exact))
            else:
                flagged += 1
        print(
            f"{name:15s}{refused:3d} refused,{flagged:3d} flagged of {options.repeats:3d}; largest "
            f"error of those that are ok {largest:.3f}",
            flush=True,
        )


COMMANDS = {"evidence-failures": main}
