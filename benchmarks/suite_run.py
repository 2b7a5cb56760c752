"""The suite: log Z against the truth, and against what a user would run instead.

``python -m benchmarks suite [NAME ...] [--peers NAME ...] [--repeats 4] [--csv FILE]`` runs each
model with `pymc_arm.sample` and with each peer, in turn, and prints the error of log Z, the time of
the first call and of the later ones, and the ratio of (mean squared error x seconds).
``suite peers --peers all`` is the comparison with every peer on the models of `PEER_MODELS`. With
``--csv`` every call is a line of the file, and a run that was cut off goes on with the models that
are not in it; ``python -m benchmarks suite-table FILE`` prints the table again.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.origin import note_origin, versions
from benchmarks.peers import PEER_MODELS, PEERS
from benchmarks.records import add_record, read_records
from benchmarks.suite import PROBLEMS, Problem
from benchmarks.workers import OURS, Answer, Worker

__all__ = [
    "COMMANDS",
    "LARGEST_ERROR",
    "Call",
    "efficiency",
    "markdown_table",
    "write_calls",
]

# Truths are good to a tenth of this. Nobody needs more than a thousandth: the mean over the best
# peers is also given with all errors below that as one.
SMALLEST_ERROR = 1e-4
NEEDED_ERROR = 1e-3
LARGEST_ERROR = 0.5


@dataclass(frozen=True)
class Call:
    """One call of one method on one model.

    Attributes
    ----------
    model, method
        Their names.
    seed
        The seed; the call with seed 0 is the first one and includes all that is compiled.
    seconds
        Wall time.
    truth, log_evidence
        The known log Z, and the estimate; NaN where the call failed.
    standard_error, verdict
        As reported, where the method reports them.
    failure
        The exception, or an empty string.
    """

    model: str
    method: str
    seed: int
    seconds: float
    truth: float
    log_evidence: float = np.nan
    standard_error: float = np.nan
    verdict: str = ""
    failure: str = ""

    @property
    def error(self) -> float:
        """The estimate minus the truth."""
        return self.log_evidence - self.truth


def main_suite(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite")
    parser.add_argument(
        "names", nargs="*", help="models, or 'peers' for those of PEER_MODELS; all by default"
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=4, help="calls after the first")
    parser.add_argument("--peers", nargs="*", default=[], choices=[*PEERS, "all"])
    parser.add_argument("--time-limit", type=float, default=120.0, help="of one call of a peer")
    parser.add_argument("--csv", type=Path, help="a file that every call is added to")
    options = parser.parse_args(arguments)
    names = PEER_MODELS if options.names == ["peers"] else options.names or list(PROBLEMS)
    if options.names == ["peers"]:
        for name in set(names) - set(PROBLEMS):
            print(f"{name} is left out: its data are not there (PYMC_ARM_DATA is their folder)")
        names = [name for name in names if name in PROBLEMS]
    unknown = set(names) - set(PROBLEMS)
    if unknown:
        parser.error(f"no model is called {sorted(unknown)}; they are {', '.join(PROBLEMS)}")
    peers = list(PEERS) if options.peers == ["all"] else options.peers
    workers = [Worker(method, options.draws) for method in [OURS, *peers]]
    calls = read_records(Call, options.csv) if options.csv else []
    if options.csv:
        note_origin(options.csv)
    print(_HEADER)
    try:
        for name in names:
            done = {call.method for call in calls if call.model == name}
            mine = [worker for worker in workers if worker.method not in done]
            new = list(_run(PROBLEMS[name], mine, options.repeats, options.time_limit))
            calls += new
            if options.csv:
                write_calls(options.csv, new)
            _print_model(name, calls)
    finally:
        for worker in workers:
            worker.stop()
    _print_means(calls)
    print(versions())


def main_table(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite-table")
    parser.add_argument("csv", type=Path, nargs="+")
    parser.add_argument("--markdown", action="store_true", help="a row a model, for a page")
    options = parser.parse_args(arguments)
    calls = [call for file in options.csv for call in read_records(Call, file)]
    if options.markdown:
        print(markdown_table(calls))
    else:
        print(_HEADER)
        for name in dict.fromkeys(call.model for call in calls):
            _print_model(name, calls)
    _print_means(calls)


def markdown_table(calls: Sequence[Call]) -> str:
    """Return a row for each model: ours, and the best peer."""
    head = "| model | error | first s | later s | best peer | error | first s | later s | ratio |"
    names = dict.fromkeys(call.model for call in calls)
    return "\n".join([head, "|---" * 9 + "|", *(_row(name, calls) for name in names)])


def write_calls(file: Path, calls: Sequence[Call]) -> None:
    """Add calls to a file, which is made where there is none."""
    for call in calls:
        digits = {"seconds": 3, "truth": 6, "log_evidence": 6, "standard_error": 6}
        values = {name: round(getattr(call, name), count) for name, count in digits.items()}
        add_record(file, replace(call, **values))


def efficiency(calls: Sequence[Call], smallest: float = SMALLEST_ERROR) -> float:
    """Return the mean squared error of log Z times the seconds of a call that is not the first.

    Infinite where a call failed. Errors below the smallest one count as that, for every method: the
    ratio of two methods that are both exact says nothing.
    """
    later = [call for call in calls if call.seed > 0]
    if not later or any(call.failure for call in calls):
        return np.inf
    squared = np.mean([call.error**2 for call in calls])
    return float(max(squared, smallest**2) * np.median([call.seconds for call in later]))


def _run(
    problem: Problem, workers: Sequence[Worker], repeats: int, time_limit: float
) -> Iterator[Call]:
    """Call each method once, and then all of them in turn."""
    failed = set()
    for seed in range(repeats + 1):
        for worker in workers:
            if worker.method in failed:
                continue
            limit = np.inf if worker.method == OURS else time_limit
            answer = worker.call(problem.name, seed, limit)
            if answer.failure:
                failed.add(worker.method)
            row = Call(problem.name, worker.method, seed, answer.seconds, problem.log_evidence())
            yield _with_answer(row, answer)


def _with_answer(call: Call, answer: Answer) -> Call:
    if isinstance(answer.result, dict):
        return replace(
            call,
            log_evidence=answer.result["log_marginal_likelihood"],
            standard_error=answer.result["log_marginal_likelihood_se"],
            verdict=answer.result["verdict"],
            failure=answer.failure,
        )
    return replace(call, log_evidence=answer.result, failure=answer.failure)


_HEADER = (
    f"{'model':36s} {'method':20s} {'truth':>10s} {'mean err':>8s} {'rmse':>8s} {'se':>7s} "
    f"{'z max':>5s} {'verdict':8s} {'first s':>8s} {'later s':>8s} {'ratio':>9s}"
)


def _print_model(name: str, calls: Sequence[Call]) -> None:
    here = [call for call in calls if call.model == name]
    own = efficiency([call for call in here if call.method == OURS])
    for method in dict.fromkeys(call.method for call in here):
        rows = [call for call in here if call.method == method]
        failures = [call.failure for call in rows if call.failure]
        line = f"{name:36s} {method:20s} {rows[0].truth:10.3f} "
        if failures:
            print(f"{line}{failures[0]}", flush=True)
            continue
        errors = np.array([call.error for call in rows])
        reported = np.array([call.standard_error for call in rows])
        verdicts = {call.verdict for call in rows} - {"ok"}
        line += f"{errors.mean():+8.4f} {np.sqrt(np.mean(errors**2)):8.4f} "
        farthest = np.max(np.abs(errors) / np.maximum(reported, 1e-9))
        line += f"{np.median(reported):7.4f} {farthest:5.1f} "
        line += f"{'/'.join(sorted(verdicts)) or 'ok':8s} {rows[0].seconds:8.2f} "
        line += f"{np.median([call.seconds for call in rows[1:] or rows]):8.2f}"
        if method != OURS:
            line += f" {efficiency(rows) / own:9.3g}"
        if np.max(np.abs(errors)) > LARGEST_ERROR:
            line += f"  off by more than {LARGEST_ERROR}"
        print(line, flush=True)


def _row(name: str, calls: Sequence[Call]) -> str:
    """Return ours and the best peer as a row in Markdown."""
    methods: dict[str, list[Call]] = {}
    for call in calls:
        if call.model == name:
            methods.setdefault(call.method, []).append(call)
    ours = methods.pop(OURS)
    title = name.replace("_", " ")
    if not methods:
        return f"| {title} | {_cells(ours)} | | | | | |"
    best = min(methods, key=lambda method: efficiency(methods[method]))
    theirs = methods[best]
    if any(call.failure for call in theirs):
        failure = next(call.failure for call in theirs if call.failure)
        return f"| {title} | {_cells(ours)} | {best} | {failure} | | | |"
    ratio = efficiency(theirs) / efficiency(ours)
    return f"| {title} | {_cells(ours)} | {best} | {_cells(theirs)} | {ratio:.2g} |"


def _cells(calls: Sequence[Call]) -> str:
    error = np.sqrt(np.mean([call.error**2 for call in calls]))
    later = np.median([call.seconds for call in calls[1:]])
    return f"{error:.4f} | {calls[0].seconds:.1f} | {later:.2f}"


def _print_means(calls: Sequence[Call]) -> None:
    """Print the geometric mean of the ratios and the smallest one, of each peer and of the best."""
    peers = dict.fromkeys(call.method for call in calls if call.method != OURS)
    ratios = {peer: _ratios(peer, calls, SMALLEST_ERROR) for peer in peers}
    for peer in peers:
        wrong = {c.model for c in calls if c.method == peer and abs(c.error) > LARGEST_ERROR}
        remark = f", {len(wrong)} off by more than {LARGEST_ERROR}" if wrong else ""
        _print_mean(peer, ratios[peer], remark)
    _print_mean("the best peer of each model", _best(ratios.values()), "")
    needed = [_ratios(peer, calls, NEEDED_ERROR) for peer in peers]
    _print_mean(f"the same, errors below {NEEDED_ERROR} as that", _best(needed), "")


def _ratios(peer: str, calls: Sequence[Call], smallest: float) -> dict[str, float]:
    """Return by how much the peer's error x time is larger than ours, model by model."""
    mine, theirs = (
        {
            model: [call for call in calls if (call.model, call.method) == (model, method)]
            for model in dict.fromkeys(call.model for call in calls if call.method == method)
        }
        for method in (OURS, peer)
    )
    return {
        model: efficiency(theirs[model], smallest) / efficiency(mine[model], smallest)
        for model in theirs
        if model in mine
    }


def _best(ratios: Iterable[dict[str, float]]) -> dict[str, float]:
    best: dict[str, float] = {}
    for one in ratios:
        best |= {model: min(ratio, best.get(model, np.inf)) for model, ratio in one.items()}
    return best


def _print_mean(name: str, ratios: dict[str, float], remark: str) -> None:
    finite = {model: ratio for model, ratio in ratios.items() if np.isfinite(ratio)}
    if not finite:
        return
    worst = min(finite, key=finite.__getitem__)
    mean = np.exp(np.mean(np.log(list(finite.values()))))
    failed = len(ratios) - len(finite)
    print(
        f"{name}: {len(finite)} models{f', {failed} failed' if failed else ''}{remark}, geometric "
        f"mean of the ratios {mean:.3g}, smallest {finite[worst]:.3g} ({worst})"
    )


COMMANDS = {"suite": main_suite, "suite-table": main_table}
