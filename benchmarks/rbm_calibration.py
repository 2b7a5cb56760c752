"""How often intervals of log Z of a Boltzmann machine cover the truth.

``python -m benchmarks rbm-calibration [--machine cd25] [--draws 300] [--calls 50]`` calls
``pymc_arm.rbm`` with its defaults again and again, each time with a new seed, also for the biases
of the tempered path, and counts how many 95 % intervals cover the known log Z.
"""

import argparse
import logging
import time
import warnings
from collections import Counter

import numpy as np

import pymc_arm
from benchmarks.rbm import MACHINES, load_digits, load_machine

__all__ = ["COMMANDS"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rbm-calibration")
    parser.add_argument("--machine", choices=MACHINES, default="cd25")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seed", type=int, default=500)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", pymc_arm.TrustWarning)
    machine, digits = load_machine(options.machine), load_digits()
    truth = MACHINES[options.machine][1]
    errors, standard_errors, covered, verdicts = [], [], [], []
    began = time.process_time()
    for call in range(options.calls):
        attributes = pymc_arm.rbm(
            machine,
            data=digits,
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
    missed_silently = sum(
        verdict == "ok" and not hit for verdict, hit in zip(verdicts, covered, strict=True)
    )
    print(
        f"{options.machine}, {options.chains} chains of {options.draws}: {sum(covered)} of "
        f"{options.calls} intervals cover; error {np.mean(errors):+.3f} on average, root mean "
        f"square {np.sqrt(np.mean(np.square(errors))):.3f}, standard error "
        f"{np.mean(standard_errors):.3f}; "
        f"verdicts {dict(Counter(verdicts))}, {missed_silently} ok and not covered; "
        f"{seconds:.1f} processor s a call"
    )


COMMANDS = {"rbm-calibration": main}
