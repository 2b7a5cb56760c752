"""How often the package is right, says that it may be wrong, or is silently wrong.

``python -m benchmarks adversarial [NAME ...] [--families NAME ...] [--seeds 10] [--draws 1000]
[--time-limit 60] [--csv FILE] [--jobs 1] [--cores 1]`` runs each model with each seed in a child
process with a limit on CPU time. It prints a line for each model, the runs that need a look, and
totals: *silently wrong* is a verdict "ok" with an error beyond max(0.05, 5 standard errors); a
*false alarm* is another verdict although the error is within 2 standard errors and below 0.05.
With ``--csv`` every run is a line of the file, and runs that are in it are not repeated.
"""

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.adversarial import FAMILIES, PROBLEMS
from benchmarks.adversarial.child import Child
from benchmarks.origin import note_origin
from benchmarks.outcomes import (
    Outcome,
    false_alarm,
    silently_wrong,
)
from benchmarks.records import add_record, read_records

__all__ = ["COMMANDS", "HEADER", "summary_line", "totals"]

# Draws whose mean is this many posterior standard deviations off are named.
DRAWS_DEVIATION = 0.2


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks adversarial")
    parser.add_argument("names", nargs="*", default=[], help="models; all by default")
    parser.add_argument("--families", nargs="*", default=[], choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--time-limit", type=float, default=60.0, help="CPU seconds of a run")
    parser.add_argument("--csv", type=Path, help="a file that every run is added to")
    parser.add_argument("--jobs", type=int, default=1, help="models at the same time")
    parser.add_argument("--cores", type=int, default=1, help="chains of a model at the same time")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(PROBLEMS))
    if unknown:
        parser.error(f"no model is called {unknown}; they are {', '.join(PROBLEMS)}")
    names = list(options.names)
    names += [name for family in options.families for name in FAMILIES[family]]
    names = list(dict.fromkeys(names or PROBLEMS))
    known = read_records(Outcome, options.csv) if options.csv else []
    if options.csv:
        note_origin(options.csv)
    done = {(outcome.name, outcome.seed): outcome for outcome in known}
    lock, local = threading.Lock(), threading.local()
    children: list[Child] = []

    def own_child() -> Child:
        """Return the child of this thread; a child serves one model after the other."""
        if not hasattr(local, "child"):
            local.child = Child(options.draws, options.cores)
            children.append(local.child)
        return local.child

    def run_model(name: str) -> list[Outcome]:
        outcomes = []
        for outcome in _run(name, own_child(), options, done):
            outcomes.append(outcome)
            if options.csv and (name, outcome.seed) not in done:
                with lock:
                    add_record(options.csv, outcome)
        with lock:
            print(summary_line(outcomes), flush=True)
        return outcomes

    print(HEADER, flush=True)
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = [outcome for rows in pool.map(run_model, names) for outcome in rows]
    finally:
        for child in children:
            child.stop()
    _print_remarks(outcomes)
    print(totals(outcomes))
    sys.exit(any(silently_wrong(outcome) for outcome in outcomes))


def _run(
    name: str,
    child: Child,
    options: argparse.Namespace,
    done: dict[tuple[str, int], Outcome],
) -> Iterator[Outcome]:
    """Run the seeds of a model that are not done; after two timeouts the others count as such."""
    truth = PROBLEMS[name].log_evidence()
    timeouts = 0
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        if (name, seed) in done:
            outcome = done[name, seed]
        elif timeouts >= 2:
            outcome = Outcome(name, seed, "timeout", truth, message="not tried")
        else:
            outcome = child.run(name, seed, truth, options.time_limit)
        timeouts += outcome.status == "timeout"
        yield outcome


HEADER = (
    f"{'model':30s} {'truth':>14s} {'ok':>3s} {'flag':>4s} {'fail':>4s} {'time':>4s} {'crsh':>4s} "
    f"{'mean err':>10s} {'rms':>9s} {'mean se':>9s} {'cover':>7s} {'max z':>7s} {'draws':>6s} "
    f"{'CPU s':>6s}"
)


def summary_line(outcomes: Sequence[Outcome]) -> str:
    """One line of the table: the runs of one model."""
    finished = [outcome for outcome in outcomes if outcome.status == "done"]
    ok = [outcome for outcome in finished if outcome.verdict == "ok"]
    failed = sum(outcome.verdict == "failed" for outcome in finished)
    counts = {
        status: sum(outcome.status == status for outcome in outcomes)
        for status in ("timeout", "crash")
    }
    line = f"{outcomes[0].name:30s} {outcomes[0].truth:14.4f} {len(ok):3d} "
    line += f"{len(finished) - len(ok) - failed:4d} {failed:4d} "
    line += f"{counts['timeout']:4d} {counts['crash']:4d} "
    if not finished:
        return line + next((o.message[:110] for o in outcomes if o.message), "")
    errors = np.array([outcome.error for outcome in finished])
    with np.errstate(all="ignore"):
        rms = np.sqrt(np.mean(errors**2))
        reported = np.mean([outcome.standard_error for outcome in finished])
    line += f"{np.mean(errors):+10.4g} {rms:9.4g} {reported:9.3g} "
    covered = sum(outcome.low <= outcome.truth <= outcome.high for outcome in ok)
    deviations = [abs(o.error) / max(o.standard_error, 1e-9) for o in ok]
    line += f"{f'{covered}/{len(ok)}':>7s} {max(deviations, default=np.nan):7.1f} "
    worst = np.fmax.reduce([outcome.deviation for outcome in finished])
    cpu = np.nanmedian([outcome.cpu_seconds for outcome in finished])
    line += f"{worst:6.2f} {cpu:6.1f}"
    if any(silently_wrong(outcome) for outcome in outcomes):
        line += "  SILENTLY WRONG"
    return line


def _print_remarks(outcomes: Sequence[Outcome]) -> None:
    """Print the first run of each model and kind that needs a look."""
    seen = set()
    for outcome in outcomes:
        kinds = {
            "silently wrong": silently_wrong(outcome),
            "crash": outcome.status == "crash",
            "false alarm": false_alarm(outcome),
            "flagged": outcome.status == "done"
            and outcome.verdict != "ok"
            and not false_alarm(outcome),
            "draws are off": outcome.verdict == "ok" and outcome.deviation > DRAWS_DEVIATION,
        }
        for kind in (kind for kind, applies in kinds.items() if applies):
            if (outcome.name, kind) not in seen:
                seen.add((outcome.name, kind))
                print(
                    f"{kind}: {outcome.name}, seed {outcome.seed}: error {outcome.error:+.4g} "
                    f"+- {outcome.standard_error:.3g}, {outcome.verdict}, draws "
                    f"{outcome.deviation:.2f} sd: {outcome.message[:160]}"
                )


def totals(outcomes: Sequence[Outcome]) -> str:
    """Return the last lines: counts over all runs."""
    finished = [outcome for outcome in outcomes if outcome.status == "done"]
    ok = [outcome for outcome in finished if outcome.verdict == "ok"]
    covered = sum(outcome.low <= outcome.truth <= outcome.high for outcome in ok)
    silent = [outcome for outcome in outcomes if silently_wrong(outcome)]
    alarms = sum(false_alarm(outcome) for outcome in finished)
    off = sum(outcome.deviation > DRAWS_DEVIATION for outcome in ok)
    return (
        f"{len(outcomes)} runs of {len({o.name for o in outcomes})} models: {len(ok)} ok, "
        f"{len(finished) - len(ok)} with another verdict, "
        f"{sum(o.status == 'timeout' for o in outcomes)} timeouts, "
        f"{sum(o.status == 'crash' for o in outcomes)} crashes\n"
        f"silently wrong: {len(silent)} runs of {len({o.name for o in silent})} models; "
        f"false alarms: {alarms} of {len(finished)}; "
        f"95 % intervals that cover, among ok: {covered} of {len(ok)}; "
        f"ok with a mean of the draws off by {DRAWS_DEVIATION} sd: {off}"
    )


COMMANDS = {"adversarial": main}
