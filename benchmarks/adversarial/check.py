"""Check every truth against PyMC's own log-density, integrated by other means.

Run as ``python -m benchmarks.adversarial.check [name or family ...]``. A problem with a plan is
integrated by `benchmarks.suite.integrate`, so that agreement shows that the truth is about the same
model, constants and Jacobians included; a problem with a second formula is compared with that.
"""

import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np

from benchmarks.adversarial import FAMILIES, PROBLEMS, Adversary
from benchmarks.suite.density import BatchedDensity
from benchmarks.suite.integrate import integrate

__all__ = ["FLOOR", "LIMIT", "check", "main"]

# In Monte Carlo standard errors; the floor is the error of the coarse rules of the check.
LIMIT = 4.0
FLOOR = 2e-4


def check(problem: Adversary) -> tuple[float, float]:
    """Return the log evidence found another way, and its standard error."""
    if problem.plan is None:
        if problem.second is None:
            raise ValueError(f"{problem.name} has neither a plan nor a second formula")
        return problem.second(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = problem.build()
        density = BatchedDensity(model, problem.plan.gaussian, problem.plan.compiled)
        return integrate(density, problem.plan, np.random.default_rng(1))


def main(names: Sequence[str]) -> int:
    """Print the table; the exit status is the number of disagreements."""
    chosen = [member for name in names or FAMILIES for member in FAMILIES.get(name, (name,))]
    failures = 0
    for name in chosen:
        started = time.perf_counter()
        problem = PROBLEMS[name]
        truth = problem.log_evidence()
        seconds = time.perf_counter() - started
        try:
            estimate, error = check(problem)
        except Exception as exception:
            estimate, error = np.nan, 0.0
            print(type(exception).__name__, str(exception)[:300])
        agree = abs(estimate - truth) <= LIMIT * error + FLOOR
        failures += not agree
        print(
            f"{name:34s} {truth:15.6f} {estimate:15.6f} {estimate - truth:10.6f} {error:9.6f} "
            f"{seconds:5.1f} {time.perf_counter() - started:5.1f} s {'' if agree else 'NO'}",
            flush=True,
        )
    print(f"{failures} disagreements among {len(chosen)}")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
