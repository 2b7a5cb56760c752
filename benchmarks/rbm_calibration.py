"""How often intervals of log Z of a Boltzmann machine cover the truth.

``python -m benchmarks rbm-calibration [--machines cd25 ...] [--draws 300] [--calls 50]`` calls
``pymc_arm.rbm`` with its defaults again and again, each time with a new seed, also for the biases
of the tempered path, and counts how many 95 % intervals cover the known log Z. Machines are those
of files, or those that :mod:`benchmarks.rbm_machines` trains; ``--without-data`` keeps their
training data back.
"""

import argparse
import logging
import time
import warnings
from collections import Counter

import numpy as np

import pymc_arm
from benchmarks.rbm import MACHINES, load_digits, load_machine
from benchmarks.rbm_machines import MACHINES as TRAINED
from benchmarks.rbm_machines import Trained, make

__all__ = ["COMMANDS"]


def load(name: str) -> Trained:
    """Return a machine of a file, or one that is trained here."""
    if name in TRAINED:
        return make(name)
    return Trained(load_machine(name), load_digits(), MACHINES[name][1])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rbm-calibration")
    parser.add_argument("--machines", nargs="+", choices=[*MACHINES, *TRAINED], default=["cd25"])
    parser.add_argument("--without-data", action="store_true")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seed", type=int, default=500)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", pymc_arm.TrustWarning)
    for name in options.machines:
        print(calibrate(name, options), flush=True)


def calibrate(name: str, options: argparse.Namespace) -> str:
    """Call ``rbm`` again and again, and say how often it was right."""
    machine, data, truth = load(name)
    errors, standard_errors, covered, verdicts = [], [], [], []
    began = time.process_time()
    for call in range(options.calls):
        attributes = pymc_arm.rbm(
            machine,
            data=None if options.without_data else data,
            draws=options.draws,
            chains=options.chains,
            random_seed=options.seed + call,
            threads=1,
            cores=1,
            progressbar=False,
        ).attrs
        errors.append(attributes["log_marginal_likelihood"] - truth)
        standard_errors.append(attributes["log_marginal_likelihood_se"])
        low, high = (attributes[f"log_marginal_likelihood_{end}"] for end in ("low", "high"))
        covered.append(low <= truth <= high)
        verdicts.append(attributes["verdict"])
    seconds = (time.process_time() - began) / options.calls
    sound = np.array(verdicts) == "ok"
    far = np.abs(errors) > 4 * np.array(standard_errors)
    return (
        f"{name}, {options.chains} chains of {options.draws}: {sum(covered)} of "
        f"{options.calls} intervals cover; error {np.mean(errors):+.3f} on average, root mean "
        f"square {np.sqrt(np.mean(np.square(errors))):.3f}, standard error "
        f"{np.mean(standard_errors):.3f}; verdicts {dict(Counter(verdicts))}; of those that are "
        f"ok {np.sum(sound & ~np.array(covered))} are not covered, {np.sum(sound & far)} more than "
        f"4 errors off; {seconds:.1f} processor s a call"
    )


COMMANDS = {"rbm-calibration": main}
