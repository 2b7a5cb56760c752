"""Models as users write them, with the tools that users have.

``python -m benchmarks wild [--names NAME ...] [--tools NAME ...] [--limit 300] [--seed 1]
[--csv FILE]`` runs each tool on each model of ``shared/wild``, each in a fresh process with a limit
in CPU seconds, and judges it by the rules of the suite (its ``README.md`` and ``run.py``): log Z
and posterior means against references, R-hat of the draws. Printed are a line for each run, and for
each tool how many runs finished and how many were right within 30, 60 and 300 CPU seconds (imports,
compilation and all processes included), and how many were wrong without saying so. With ``--csv``
runs that are in the file are not repeated; ``python -m benchmarks wild-table FILE`` prints the
summary again.
"""

import argparse
import importlib.util
import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.limited import report, run_limited
from benchmarks.literature_models import SHARED
from benchmarks.origin import note_origin
from benchmarks.outcomes import describe_error
from benchmarks.records import add_record, read_records

__all__ = ["BOUNDS", "COMMANDS", "WildRun", "load_suite", "summarize"]

BOUNDS = (30, 60, 300)
DEFAULT_TOOLS = ("pymc_arm", "sample_smc", "nutpie_bridge", "dynesty", "nautilus")
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class WildRun:
    """One run of one tool on one model.

    Attributes
    ----------
    name, tool, seed
        What was run.
    outcome
        ``"ok"`` for a run that returned, ``"error"``, ``"timeout"`` or ``"not applicable"``.
    verdict
        What the tool says of its result.
    right
        Whether it is, by the rules of the suite.
    cpu_seconds
        Of all its processes.
    log_evidence, standard_error, reference
        The estimate, its error, and the reference; NaN where there is none.
    worst_mean, max_rhat
        The largest distance of a posterior mean from the reference in its standard deviations, and
        the largest R-hat.
    message
        The exception, or which mean is the worst.
    """

    name: str
    tool: str
    seed: int
    outcome: str
    verdict: str = ""
    right: bool = False
    cpu_seconds: float = np.nan
    log_evidence: float = np.nan
    standard_error: float = np.nan
    reference: float = np.nan
    worst_mean: float = np.nan
    max_rhat: float = np.nan
    message: str = ""

    @property
    def silently_wrong(self) -> bool:
        """Whether it returned, said that all is well, and is not right."""
        return self.outcome == "ok" and self.verdict == "ok" and not self.right


def load_suite() -> ModuleType:
    """Return the suite's own module: it finds models and references, and has the rules."""
    file = SHARED / "wild" / "run.py"
    if not file.is_file():
        raise SystemExit(f"{file} is not there (PYMC_ARM_SHARED is the folder that has wild/)")
    spec = importlib.util.spec_from_file_location("wild_run", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks wild")
    parser.add_argument("--names", nargs="+", help="models; all by default")
    parser.add_argument("--tools", nargs="+", default=list(DEFAULT_TOOLS))
    parser.add_argument("--limit", type=float, default=300.0, help="CPU seconds of a run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="a file that every run is added to")
    parser.add_argument("--child", nargs=3, metavar=("NAME", "TOOL", "SEED"))
    options = parser.parse_args(arguments)
    if options.child:
        name, tool, seed = options.child
        _child(name, tool, int(seed))
        return
    suite = load_suite()
    references = suite.load_references(SHARED / "wild")
    names = options.names or sorted(references)
    if unknown := sorted(set(names) - set(references)):
        parser.error(f"no model is called {unknown}; they are {', '.join(sorted(references))}")
    runs = read_records(WildRun, options.csv) if options.csv else []
    if options.csv:
        note_origin(options.csv)
    done = {(run.name, run.tool, run.seed) for run in runs}
    for name in names:
        for tool in options.tools:
            if (name, tool, options.seed) not in done:
                run = _run(suite, references[name], name, tool, options)
                runs.append(run)
                if options.csv:
                    add_record(options.csv, run)
                print(_line(run), flush=True)
    print(summarize(runs))


def main_table(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks wild-table")
    parser.add_argument("csv", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    print(summarize([run for file in options.csv for run in read_records(WildRun, file)]))


def _run(
    suite: ModuleType, reference: dict, name: str, tool: str, options: argparse.Namespace
) -> WildRun:
    arguments = [name, tool, str(options.seed)]
    ended = run_limited("benchmarks.wild", arguments, options.limit)
    outcome = {"done": "ok", "crash": "error"}.get(ended.status, ended.status)
    record: dict[str, Any] = {"outcome": outcome, "message": ended.message} | ended.found
    if record["outcome"] == "error" and tool != "pymc_arm":
        # Only this package has an exception of that name; any clear refusal of a peer counts.
        record["error_type"] = "ModelError"
    suite.judge(record, reference)
    return WildRun(
        *(name, tool, options.seed, record["outcome"]),
        verdict=record.get("verdict", ""),
        right=bool(record["right"]),
        cpu_seconds=ended.cpu_seconds,
        log_evidence=_number(record.get("log_z")),
        standard_error=_number(record.get("log_z_se")),
        reference=_number(reference.get("log_z")),
        worst_mean=_number(record.get("worst_mean_sd")),
        max_rhat=_number(record.get("max_rhat")),
        message=record["message"] or str(record.get("worst_mean_of") or ""),
    )


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _child(name: str, tool: str, seed: int) -> None:
    """Run a tool on a model, and report it in the words of the suite."""
    from benchmarks.wild_tools import TOOLS, NotApplicableError

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    suite = load_suite()
    model = suite.find_models(SHARED / "wild")[name]()
    try:
        found = TOOLS[tool](model, seed)
    except NotApplicableError as error:
        report({"outcome": NOT_APPLICABLE, "message": str(error)[:200]})
        return
    except Exception as error:
        message = describe_error(error)["message"]
        report({"outcome": "error", "error_type": type(error).__name__, "message": message})
        return
    free = {variable.name for variable in model.free_RVs}
    rhats = [
        suite.split_rhat(values)
        for key, values in found.posterior.items()
        if key in free and values.dtype.kind in "fiub"
    ]
    reference = suite.load_references(SHARED / "wild").get(name, {})
    worst, where = suite.compare_means(found.posterior, reference.get("posterior", {}))
    report(
        {
            "log_z": suite.finite(found.log_evidence),
            "log_z_se": suite.finite(found.standard_error),
            "verdict": found.verdict,
            "max_rhat": max((float(each.max()) for each in rhats if each.size), default=None),
            "worst_mean_sd": worst,
            "worst_mean_of": where,
        }
    )


def _line(run: WildRun) -> str:
    state = "right" if run.right else run.outcome if run.outcome != "ok" else "NOT RIGHT"
    if run.silently_wrong:
        state = "SILENTLY WRONG"
    error = run.log_evidence - run.reference
    return (
        f"{run.name:24s} {run.tool:16s} {run.cpu_seconds:7.1f} CPU s  log Z "
        f"{run.log_evidence:.3f} +- {run.standard_error:.3f} (error {error:+.3f})  means "
        f"{run.worst_mean:.2f}  R-hat {run.max_rhat:.3f}  {state}  {run.verdict[:60]}  "
        f"{run.message[:100]}"
    )


def summarize(runs: Sequence[WildRun]) -> str:
    """Return a table in Markdown with a row for each tool."""
    within = [f"{bound} CPU s" for bound in BOUNDS]
    heads = ["tool", "models", *(f"finished in {bound}" for bound in within)]
    heads += [*(f"right in {bound}" for bound in within)]
    heads += ["wrong and said so", "silently wrong", "error", "not applicable"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for tool in dict.fromkeys(run.tool for run in runs):
        lines.append(f"| {' | '.join(_cells(tool, [r for r in runs if r.tool == tool]))} |")
    return "\n".join(lines)


def _cells(tool: str, runs: Sequence[WildRun]) -> list[str]:
    finished = [run for run in runs if run.outcome == "ok"]
    right = [run for run in runs if run.right]
    counts = [
        sum(run.cpu_seconds <= bound for run in group)
        for group in (finished, right)
        for bound in BOUNDS
    ]
    silent = [run for run in finished if run.silently_wrong]
    said = len([run for run in finished if not run.right]) - len(silent)
    errors = [run for run in runs if run.outcome == "error" and not run.right]
    left_out = [run for run in runs if run.outcome == NOT_APPLICABLE]
    numbers = [len(runs), *counts, said, len(silent), len(errors), len(left_out)]
    return [f"`{tool}`", *map(str, numbers)]


COMMANDS = {"wild": main, "wild-table": main_table}

if __name__ == "__main__":  # a child
    main(sys.argv[1:])
