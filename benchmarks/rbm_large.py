"""Machines of 784 x 500 units without an exact log Z: what runs lack, and whether they say so.

``python -m benchmarks rbm-large [--machines NAME ...] [--calls 2] [--draws 300]`` trains machines,
or loads them with their data, finds log Z by long runs from two starts, with and without data, and
then calls ``pymc_arm.rbm`` with both. Machines that are trained depend on the last digits of matrix
products, and so do their log Z.
"""

import argparse
import logging
import time
import warnings
from collections.abc import Sequence

import numpy as np

import pymc_arm
from benchmarks.rbm import MACHINES, load_digits, load_machine
from benchmarks.rbm_machines import LARGE, Trained, train
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.unseen import Unseen
from pymc_arm.families.rbm import tempered_path
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS

__all__ = ["COMMANDS"]

# The runs that find log Z, as many with data as without, and their settings.
RUNS, PARTICLES, SETTINGS = 2, 1500, {**TEMPERED_SETTINGS, "threshold": 0.998}


def load(name: str) -> Trained:
    """Return a machine with data, and log Z if it is known."""
    if name in LARGE:
        return LARGE[name]()
    if name == "mnist-pcd-500":
        digits = load_digits()
        machine = train(digits, 500, steps=1, persistent=True, updates=4000, seed=3)
        return Trained(machine, digits, np.nan)
    return Trained(load_machine(name), load_digits(), MACHINES[name][1])


def find_reference(trained: Trained) -> float:
    """Return log Z by long runs; print those with and without data, which should agree."""
    found: list[float] = []
    for data in (trained.data, None):
        path = tempered_path(trained.machine, data, threads=1)
        for index in range(RUNS):
            rng = np.random.default_rng([2000, index])
            found.append(pymc_arm.run(path, rng, PARTICLES, **SETTINGS).log_evidence)
    print(f"   long runs with and without data: {', '.join(f'{z:.2f}' for z in found)}")
    return float(log_mean_exp(np.array(found)))


def main(arguments: Sequence[str]) -> None:
    """Call ``rbm`` on large machines, and print a line for each call."""
    names = [*LARGE, "mnist-pcd-500", "cd25", "pcd"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks rbm-large")
    parser.add_argument("--machines", nargs="+", choices=names, default=list(LARGE))
    parser.add_argument("--data", nargs="+", choices=["with", "without"], default=["without"])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--seed", type=int, default=500)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", pymc_arm.TrustWarning)
    for name in options.machines:
        trained = load(name)
        print(name, flush=True)
        known = trained.log_evidence
        truth = find_reference(trained) if np.isnan(known) else known
        for kind in options.data:
            for call in range(options.calls):
                began = time.process_time()
                attrs = pymc_arm.rbm(
                    trained.machine,
                    data=trained.data if kind == "with" else None,
                    draws=options.draws,
                    random_seed=options.seed + call,
                    threads=1,
                    cores=1,
                    progressbar=False,
                ).attrs
                seconds = time.process_time() - began
                unseen = Unseen(attrs["unseen_share"], attrs["unseen_elsewhere"])
                error = attrs["log_marginal_likelihood"] - truth
                print(
                    f"   {kind:7s} data: error {error:+.3f}, standard error "
                    f"{attrs['log_marginal_likelihood_se']:.3f}, said to lack {unseen.lack:.3f}, "
                    f"elsewhere {unseen.elsewhere:.3f}, {attrs['verdict']}, {seconds:.0f} cpu s",
                    flush=True,
                )


COMMANDS = {"rbm-large": main}
