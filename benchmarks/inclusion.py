"""Inclusion probabilities of ten predictors, against the exact ones.

``python -m benchmarks inclusion [--draws 250] [--seed 1]`` takes the diabetes data of scikit-learn,
standardised, with a conjugate prior (all 1024 subsets have an exact log Z), runs the model with all
predictors, and prints the inclusion probabilities by
:func:`pymc_arm.inclusion_probabilities` beside the exact ones, with the CPU seconds of the run and
of the rest.
"""

import argparse
import logging
import time

import numpy as np
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
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    x, y, labels = read_diabetes(10)
    with pm.Model(coords={"predictor": labels}) as model:
        variance = pm.InverseGamma("variance", SHAPE, RATE)
        b = pm.Normal("b", 0, SCALE * pm.math.sqrt(variance), dims="predictor")
        pm.Normal("y", pm.math.dot(x, b), pm.math.sqrt(variance), observed=y)
    started = time.process_time()
    idata = pymc_arm.sample(
        model, options.draws, random_seed=options.seed, cores=1, progressbar=False
    )
    run = time.process_time() - started
    found = pymc_arm.inclusion_probabilities(idata, model, "b")
    rest = time.process_time() - started - run
    logs, inside = exact_logs(x, y)
    exact = special.softmax(logs) @ inside
    print(found)
    print(found.table.assign(exact=exact, error=found.table["probability"] - exact).round(4))
    print(f"CPU seconds: run {run:.1f}, subsets {rest:.1f}; 1024 runs {1024 * run:.0f}")


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
