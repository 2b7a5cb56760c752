"""The suite: log Z against the truth, and against ``pm.sample_smc`` in the same process.

``python -m benchmarks suite [NAME ...] [--draws 1000] [--peers sample_smc] [--repeats 4]`` prints
for each model the error of the first estimate, its standard error, that of the exploring estimate
alone, and, with peers, the ratio of (mean squared error x seconds), each method's first call apart.
"""

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from scipy.special import logsumexp

import pymc_arm
from benchmarks.suite import PROBLEMS
from pymc_arm.comparison import read_evidence

__all__ = ["COMMANDS"]


def main_suite(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite")
    parser.add_argument("names", nargs="*", help="models; all by default")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--peers", nargs="*", default=[], choices=["sample_smc"])
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    ratios = []
    print(
        f"{'model':38s} {'truth':>10s} {'error':>8s} {'se':>7s} {'explore':>7s} {'verdict':8s} "
        f"{'first s':>8s} {'s':>6s}"
    )
    for name in options.names or PROBLEMS:
        problem = PROBLEMS[name]
        truth = problem.log_evidence()
        errors, seconds, results = _repeat(problem, options, _ours)
        attributes = results[0].attrs
        row = f"{name:38s} {truth:10.3f} {errors[0] - truth:+8.4f} "
        row += f"{attributes['log_marginal_likelihood_se']:7.4f} "
        row += (
            f"{attributes['explore_log_marginal_likelihood_se']:7.4f} {attributes['verdict']:8s} "
        )
        row += f"{seconds[0]:8.2f} {np.median(seconds[1:] or seconds):6.2f}"
        if "sample_smc" in options.peers:
            row += _against_sample_smc(problem, options, truth, errors, seconds, ratios)
        print(row, flush=True)
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"geometric mean of the ratios over {len(ratios)} models: {mean:.1f}")


def _ours(model: pm.Model, draws: int, seed: int) -> object:
    return pymc_arm.sample(model, draws=draws, random_seed=seed, progressbar=False)


def _smc(model: pm.Model, draws: int, seed: int) -> object:
    with model:
        return pm.sample_smc(draws=draws, chains=4, random_seed=seed, progressbar=False)


def _repeat(problem: object, options: object, run: object) -> tuple[list, list, list]:
    errors, seconds, results = [], [], []
    for seed in range(options.repeats):
        model = problem.build()
        started = time.perf_counter()
        result = run(model, options.draws, seed)
        seconds.append(time.perf_counter() - started)
        results.append(result)
        errors.append(read_evidence(result).log_evidence)
    return errors, seconds, results


def _against_sample_smc(
    problem: object, options: object, truth: float, errors: list, seconds: list, ratios: list
) -> str:
    try:
        peer_errors, peer_seconds, _ = _repeat(problem, options, _smc)
    except Exception as error:
        return f"  sample_smc fails: {type(error).__name__}"
    peer = np.mean((np.array(peer_errors) - truth) ** 2) * np.median(peer_seconds[1:])
    own = np.mean((np.array(errors) - truth) ** 2) * np.median(seconds[1:])
    ratios.append(peer / own)
    bias = float(logsumexp(peer_errors) - np.log(len(peer_errors)) - truth)
    return f"  sample_smc: {bias:+.3f}, {np.median(peer_seconds[1:]):.1f} s; ratio {peer / own:.1f}"


COMMANDS = {"suite": main_suite}
