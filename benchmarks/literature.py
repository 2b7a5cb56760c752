"""The benchmarks of the literature: error and stated error of log Z beside published figures.

``python -m benchmarks literature [--names NAME ...] [--seeds 10] [--first-seed 1] [--draws 1000]
[--time-limit 300] [--csv FILE]`` runs `pymc_arm.sample` in its defaults on each model of
`benchmarks.literature_models`, each run in a fresh process with a limit in CPU seconds. Printed
are, over the seeds, the verdicts, the mean error, its root mean square, the mean stated error, how
many 95 % intervals cover the truth, the median of the CPU seconds (imports, compilation and all
processes included) and the root mean square error of the best published estimate, where there is
one. *Silently wrong* is a verdict "ok" with an error beyond max(0.05, 5 standard errors), where the
error of the truth counts in the standard error. With ``--csv`` every run is a line of the file, and
runs that are in it are not repeated.
"""

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.adversarial.run import HEADER, summary_line, totals
from benchmarks.limited import report, run_limited
from benchmarks.literature_models import ROWS, Row
from benchmarks.origin import note_origin
from benchmarks.outcomes import (
    Outcome,
    describe_error,
    read_attributes,
    silently_wrong,
)
from benchmarks.records import add_record, read_records

__all__ = ["COMMANDS", "allow_for_truth"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks literature")
    parser.add_argument("--names", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--time-limit", type=float, default=300.0, help="CPU seconds of a run")
    parser.add_argument("--csv", type=Path, help="a file that every run is added to")
    parser.add_argument("--child", nargs=3, metavar=("NAME", "SEED", "DRAWS"))
    options = parser.parse_args(arguments)
    if options.child:
        name, seed, draws = options.child
        _child(name, int(seed), int(draws))
        return
    known = read_records(Outcome, options.csv) if options.csv else []
    if options.csv:
        note_origin(options.csv)
    done = {(outcome.name, outcome.seed): outcome for outcome in known}
    print(f"{HEADER} published", flush=True)
    outcomes = []
    for name in options.names:
        row = ROWS[name]
        if not row.is_here:
            print(f"{name:30s} left out: {row.data} is not there (PYMC_ARM_SHARED is its folder)")
            continue
        rows = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            if (name, seed) not in done:
                done[name, seed] = _run(row, seed, options.draws, options.time_limit)
                if options.csv:
                    add_record(options.csv, done[name, seed])
            rows.append(allow_for_truth(done[name, seed], row.truth_error))
        outcomes += rows
        _print_row(row, rows)
    if outcomes:
        print(totals(outcomes))
    sys.exit(any(silently_wrong(outcome) for outcome in outcomes))


def allow_for_truth(outcome: Outcome, truth_error: float) -> Outcome:
    """Return the outcome with the error of the truth in its standard error and interval."""
    estimate = outcome.log_evidence
    own = np.array([estimate - outcome.low, outcome.high - estimate])
    below, above = np.hypot(own, 1.96 * truth_error)
    return replace(
        outcome,
        standard_error=float(np.hypot(outcome.standard_error, truth_error)),
        low=float(estimate - below),
        high=float(estimate + above),
    )


def _run(row: Row, seed: int, draws: int, time_limit: float) -> Outcome:
    arguments = [row.name, str(seed), str(draws)]
    ended = run_limited("benchmarks.literature", arguments, time_limit)
    told = {"status": ended.status, "message": ended.message} | ended.found
    return Outcome(row.name, seed, truth=row.truth, cpu_seconds=ended.cpu_seconds, **told)


def _child(name: str, seed: int, draws: int) -> None:
    import pymc_arm

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    try:
        model = ROWS[name].build()
        tree = pymc_arm.sample(model, draws=draws, random_seed=seed, progressbar=False)
        report(read_attributes(tree.attrs))
    except Exception as error:
        report(describe_error(error))


def _print_row(row: Row, outcomes: Sequence[Outcome]) -> None:
    published = f" {row.published_rms:9.2g}  {row.published}" if row.estimates else ""
    print(f"{summary_line(outcomes)}{published}", flush=True)
    for outcome in outcomes:
        if outcome.verdict != "ok" or silently_wrong(outcome):
            print(
                f"    seed {outcome.seed}: {outcome.status} {outcome.verdict}, error "
                f"{outcome.error:+.4g} +- {outcome.standard_error:.3g}: {outcome.message[:200]}"
            )


COMMANDS = {"literature": main}

if __name__ == "__main__":  # a child
    main(sys.argv[1:])
