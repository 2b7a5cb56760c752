"""Inclusion probabilities of ten predictors, against the exact ones.

``python -m benchmarks inclusion [--draws 250] [--seed 1]`` takes the diabetes data of scikit-learn,
standardised, with a conjugate prior (all 1024 subsets have an exact log Z), runs the model with all
predictors, and prints the inclusion probabilities by
:func:`pymc_arm.inclusion_probabilities` beside the exact ones, with the CPU seconds of the run and
of the rest. With ``--replicates 40`` it does so with as many seeds, and prints how often the 95 %
intervals cover, and the ratio of the root mean square error to the standard error.
"""

import argparse
import logging
import time

import numpy as np
import pandas as pd
import pymc as pm
from scipy import special

import pymc_arm

__all__ = ["COMMANDS", "RATE", "SCALE", "SHAPE", "exact_logs", "read_diabetes"]

SHAPE = RATE = 2.0
SCALE = 0.3


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks inclusion")
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--predictors", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=1)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    x, y, labels = read_diabetes(options.predictors)
    with pm.Model(coords={"predictor": labels}) as model:
        variance = pm.InverseGamma("variance", SHAPE, RATE)
        b = pm.Normal("b", 0, SCALE * pm.math.sqrt(variance), dims="predictor")
        pm.Normal("y", pm.math.dot(x, b), pm.math.sqrt(variance), observed=y)
    logs, inside = exact_logs(x, y)
    exact = special.softmax(logs) @ inside
    tables = []
    for seed in range(options.seed, options.seed + options.replicates):
        started = time.process_time()
        idata = pymc_arm.sample(model, options.draws, random_seed=seed, cores=1, progressbar=False)
        run = time.process_time() - started
        found = pymc_arm.inclusion_probabilities(idata, model, "b")
        rest = time.process_time() - started - run
        table = found.table.assign(exact=exact, error=found.table["probability"] - exact)
        tables.append(table)
        if options.replicates == 1:
            print(found)
            print(table.round(4))
            count = 2**options.predictors
            print(f"CPU seconds: run {run:.1f}, subsets {rest:.1f}; {count} runs {count * run:.0f}")
    if options.replicates > 1:
        _print_coverage(tables)


def _print_coverage(tables: list[pd.DataFrame]) -> None:
    """Print how often intervals cover the exact probability of each predictor."""
    everything = pd.concat(tables)
    everything["covered"] = (everything["low"] <= everything["exact"] + 1e-12) & (
        everything["exact"] <= everything["high"] + 1e-12
    )
    groups = everything.groupby(level=0, sort=False)
    shown = groups[["exact", "covered"]].mean()
    shown["rms_error"] = np.sqrt(groups["error"].agg(lambda e: (e**2).mean()))
    shown["mean_error"] = groups["error"].mean()
    shown["standard_error"] = groups["standard_error"].mean()
    shown["ratio"] = shown["rms_error"] / shown["standard_error"]
    print(shown.round(5).to_string())
    print(f"{len(tables)} replicates; all predictors: covered {everything['covered'].mean():.3f}")


def read_diabetes(predictors: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the first predictors, the outcome, all standardised, and names of predictors."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    y = (data.target - data.target.mean()) / data.target.std()
    return x[:, :predictors], y, list(data.feature_names[:predictors])


def exact_logs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log Z of each subset up to a constant, and which predictors are in it."""
    count = x.shape[1]
    inside = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 > 0
    logs = []
    for row in inside:
        own = x[:, row]
        precision = own.T @ own + np.eye(row.sum()) / SCALE**2
        mean = np.linalg.solve(precision, own.T @ y)
        rate = RATE + 0.5 * (y @ y - mean @ precision @ mean)
        determinant = np.linalg.slogdet(precision)[1] + 2 * row.sum() * np.log(SCALE)
        logs.append(-0.5 * determinant - (SHAPE + 0.5 * len(y)) * np.log(rate))
    return np.array(logs), inside


COMMANDS = {"inclusion": main}
