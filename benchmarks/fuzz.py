"""Random models whose log Z is exact.

``python -m benchmarks fuzz [--models 500] [--first 0] [--draws 300] [--limit 60]`` samples each and
reports those whose estimate is more than five standard errors off without a warning, those that
fail without a sentence that a user can act on, and those that do not keep their time limit.
"""

import argparse
import logging
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np

import pymc_arm
from benchmarks.hostile.tally import has_a_sentence
from benchmarks.random_models import random_model

__all__ = ["COMMANDS", "Outcome", "check_model"]

# In standard errors; what rounding may add to an exact result.
LARGEST_DEVIATION = 5.0
ROUNDING = 1e-6
# A model is compiled before its time limit can end it: models of these sizes take up to 15 s.
SECONDS_TO_COMPILE = 20.0


@dataclass(frozen=True)
class Outcome:
    """How far an estimate was off, and what the run said of it."""

    seed: int
    parts: list[str]
    exact: float
    error: float
    standard_error: float
    verdict: str
    failure: str = ""
    refused: bool = False
    late: bool = False

    @property
    def deviation(self) -> float:
        """The error in standard errors."""
        return abs(self.error) / max(self.standard_error, ROUNDING)

    @property
    def sound(self) -> bool:
        """Whether the estimate is within its error, or the verdict is honest."""
        honest = self.verdict != "ok" or self.deviation <= LARGEST_DEVIATION
        return (self.refused or not self.failure) and honest and not self.late


def check_model(seed: int, draws: int = 300, time_limit: float | None = None) -> Outcome:
    """Estimate log Z of a random model, and compare.

    A run is late if its CPU time alone is more than a compilation over its limit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, exact, parts = random_model(seed)
    options = {"chains": 4, "cores": 1, "progressbar": False, "time_limit": time_limit}
    started = time.process_time()

    def late() -> bool:
        used = time.process_time() - started
        return time_limit is not None and used > time_limit + SECONDS_TO_COMPILE

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = pymc_arm.sample(model, draws=draws, random_seed=seed, **options)
    except Exception as error:
        failure, refused = f"{type(error).__name__}: {error}", has_a_sentence(error)
        return Outcome(seed, parts, exact, np.nan, np.nan, "", failure, refused, late())
    found = result.attrs
    numbers = (found["log_marginal_likelihood"] - exact, found["log_marginal_likelihood_se"])
    return Outcome(seed, parts, exact, *numbers, found["verdict"], late=late())


def main_fuzz(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz")
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    started = time.perf_counter()
    outcomes = []
    for seed in range(options.first, options.first + options.models):
        outcome = check_model(seed, options.draws, options.limit)
        outcomes.append(outcome)
        if not outcome.sound:
            print(
                f"seed {seed}: {', '.join(outcome.parts)}: exact {outcome.exact:.4f}, error "
                f"{outcome.error:+.4f}, standard error {outcome.standard_error:.4f}, "
                f"{outcome.verdict} {outcome.failure}{' late' * outcome.late}"[:300],
                flush=True,
            )
    wrong = sum(not outcome.sound for outcome in outcomes)
    doubted = sum(outcome.verdict not in ("ok", "") for outcome in outcomes)
    refused = sum(outcome.refused for outcome in outcomes)
    late = sum(outcome.late for outcome in outcomes)
    beyond = [sum(outcome.deviation > limit for outcome in outcomes) for limit in (2, 3, 5)]
    print(
        f"{len(outcomes)} models in {time.perf_counter() - started:.0f} s: {wrong} unsound; "
        f"{doubted} with a verdict other than ok; {refused} refused; {late} late; {beyond[0]}, "
        f"{beyond[1]} and {beyond[2]} off by more than 2, 3 and 5 standard errors"
    )
    sys.exit(bool(wrong))


COMMANDS = {"fuzz": main_fuzz}
