"""The tables and the picture of README and docs/performance.md, from files of results.

``python -m benchmarks page [--check]`` writes what stands between ``<!-- begin NAME -->`` and
``<!-- end NAME -->`` in both pages anew from ``benchmarks/results/*.csv``, each with the code and
the versions that it was measured with, and draws ``docs/figures/wild.png``. Where the file of a
table is not there, readers see nothing, and a comment says which command makes it. ``--check``
changes nothing, and fails where a page is not what the files say.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.adversarial.run import totals
from benchmarks.growth import SWEEPS, Growth, exponent
from benchmarks.literature import allow_for_truth
from benchmarks.literature_models import ROWS, Row
from benchmarks.origin import describe_origin
from benchmarks.outcomes import Outcome, silently_wrong
from benchmarks.records import read_records
from benchmarks.suite_run import Call, markdown_table
from benchmarks.wild import WildRun, summarize
from benchmarks.wild_plot import draw_wild

__all__ = ["BLOCKS", "COMMANDS", "fill"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
PICTURE = ROOT / "docs" / "figures" / "wild.png"
CAPTION = "Models that are right within so many CPU seconds, tool by tool"
BLOCK = re.compile(r"<!-- begin ([\w-]+) -->\n.*?<!-- end \1 -->", re.DOTALL)


def literature_table(file: Path) -> str:
    """Return a row for each benchmark of the literature."""
    outcomes = read_records(Outcome, file)
    heads = ["model", "dimensions", "rms error", "stated error", "intervals that cover"]
    heads += ["verdict ok", "silently wrong", "CPU s", "rms error of the best published"]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for row in ROWS.values():
        mine = [outcome for outcome in outcomes if outcome.name == row.name]
        if mine:
            lines.append(_line(_literature_cells(row, mine)))
    return "\n".join(lines)


def _literature_cells(row: Row, outcomes: Sequence[Outcome]) -> list[str]:
    published = f"{row.published_rms:.2g}" if row.estimates else ""
    cells = [row.name.replace("_", " "), str(row.dimension)]
    finished = [outcome for outcome in outcomes if outcome.status == "done"]
    if not finished:
        seconds = min(outcome.cpu_seconds for outcome in outcomes)
        return [
            *cells,
            f"none of {len(outcomes)} ended",
            "",
            "",
            "",
            "",
            f"> {seconds:.0f}",
            published,
        ]
    judged = [allow_for_truth(outcome, row.truth_error) for outcome in finished]
    covered = sum(outcome.low <= outcome.truth <= outcome.high for outcome in judged)
    rms = np.sqrt(np.mean([outcome.error**2 for outcome in finished]))
    stated = np.mean([outcome.standard_error for outcome in finished])
    good = sum(outcome.verdict == "ok" for outcome in finished)
    silent = sum(silently_wrong(outcome) for outcome in judged)
    seconds = np.median([outcome.cpu_seconds for outcome in finished])
    return [
        *cells,
        *(f"{rms:.4f}", f"{stated:.4f}", f"{covered} of {len(finished)}"),
        *(f"{good} of {len(outcomes)}", str(silent), f"{seconds:.0f}", published),
    ]


def wild_table(file: Path) -> str:
    """Return a row for each tool."""
    return summarize(read_records(WildRun, file))


def adversarial_table(file: Path) -> str:
    """Return the counts over all runs."""
    return f"```text\n{totals(read_records(Outcome, file))}\n```"


def suite_table(file: Path) -> str:
    """Return a row for each model of the suite, with the best peer."""
    return markdown_table(read_records(Call, file))


def growth_table(file: Path) -> str:
    """Return a row for each sweep."""
    rows = read_records(Growth, file)
    lines = [_line(["what grows", "model", "CPU s by size", "exponent"]), "|---" * 4 + "|"]
    for name, (_, title, _) in SWEEPS.items():
        mine = sorted((row for row in rows if row.sweep == name), key=lambda row: row.size)
        if mine:
            sizes, seconds = [r.size for r in mine], [r.cpu_seconds for r in mine]
            text = ", ".join(f"{r.size:,}: {r.cpu_seconds:.1f}" for r in mine)
            lines.append(_line([name, title, text, f"{exponent(sizes, seconds):.2f}"]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


class Block(NamedTuple):
    """A table of a page: the command that measures it, its file, and how the file becomes text.

    ``lead`` is the sentence above the table, which is not there either as long as there is no file.
    """

    command: str
    file: str
    make: Callable[[Path], str]
    lead: str = ""


BLOCKS = {
    "wild": Block("wild --csv", "wild.csv", wild_table),
    "literature": Block("literature --csv", "literature.csv", literature_table),
    "adversarial": Block(
        "adversarial --csv",
        "adversarial.csv",
        adversarial_table,
        "Models that were written to break an estimator, with exact log Z:",
    ),
    "suite": Block(
        "suite --peers sample_smc nuts_bridge --repeats 2 --csv",
        "suite.csv",
        suite_table,
        "Calls on models of the suite, compiled anew (first) and again (later), in wall seconds,\n"
        "with the best other tool for each:",
    ),
    "growth": Block(
        "growth --csv",
        "growth.csv",
        growth_table,
        "How the CPU time of a call grows, with the model compiled:",
    ),
}


def fill(text: str, page: Path, results: Path = RESULTS) -> str:
    """Return the text of a page with all its blocks made from files."""
    return BLOCK.sub(lambda match: _block(match.group(1), page, results), text)


def _block(name: str, page: Path, results: Path) -> str:
    block = BLOCKS[name]
    file = results / block.file
    if file.exists():
        lead = f"{block.lead}\n\n" if block.lead else ""
        text = f"{lead}{block.make(file)}\n\n{describe_origin(file)}."
        if name == "wild":
            text += f"\n\n![{CAPTION}]({os.path.relpath(PICTURE, page.parent)})"
    else:
        command = f"python -m benchmarks {block.command} benchmarks/results/{block.file}"
        text = f"<!-- not measured yet: {command}; python -m benchmarks page -->"
    return f"<!-- begin {name} -->\n{text}\n<!-- end {name} -->"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks page")
    parser.add_argument("--check", action="store_true", help="only say whether pages are current")
    options = parser.parse_args(arguments)
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        filled = fill(text, page)
        if filled != text:
            stale.append(page.name)
            if not options.check:
                page.write_text(filled, encoding="utf-8")
    if options.check:
        sys.exit(f"not what the files say: {', '.join(stale)}" if stale else 0)
    if (RESULTS / "wild.csv").exists():
        draw_wild(read_records(WildRun, RESULTS / "wild.csv")).savefig(PICTURE, dpi=130)
    print(f"written: {', '.join(stale) or 'nothing, all pages are current'}")


COMMANDS = {"page": main}
