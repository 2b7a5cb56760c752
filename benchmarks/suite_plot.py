"""The suite as a picture: ``python -m benchmarks suite-plot FILE ... --out PICTURE``.

A row for each model, a dot for each method at its mean squared error of log Z times its seconds:
what it takes to reach a given error. The files are those that ``suite --csv`` writes.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import read_records
from benchmarks.suite_run import LARGEST_ERROR, Call, efficiency
from benchmarks.workers import OURS

__all__ = ["COMMANDS", "choose_style", "draw"]

# Colours that stay apart for readers who don't see all of them (Okabe and Ito), told apart further
# by their marker.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#777777")
MARKERS = ("o", "s", "^")


def draw(calls: Sequence[Call]) -> Any:
    """Return a figure.

    Methods that failed on a model are at the right edge; those that were once off by more than 0.5
    nats are crossed out.
    """
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(call.model for call in calls))
    methods = [OURS] + [m for m in dict.fromkeys(call.method for call in calls) if m != OURS]
    groups = {
        (model, method): [c for c in calls if (c.model, c.method) == (model, method)]
        for model in models
        for method in methods
    }
    scores = {key: efficiency(group) for key, group in groups.items() if group}
    finite = [score for score in scores.values() if np.isfinite(score)]
    edge = 30 * max(finite)
    figure = Figure(figsize=(9, 1.6 + 0.42 * len(models)), layout="constrained")
    axes = figure.subplots()
    for number in range(0, len(models), 2):
        axes.axhspan(number - 0.5, number + 0.5, color="0.95", zorder=0)
    for number, method in enumerate(methods):
        style = choose_style(number, method)
        offset = 0.7 * (number / max(len(methods) - 1, 1) - 0.5)
        shown = [row for row, model in enumerate(models) if (model, method) in scores]
        x = np.array([scores[models[row], method] for row in shown])
        y = np.array(shown) + offset
        failed = np.isinf(x)
        off = np.array(
            [
                any(abs(call.error) > LARGEST_ERROR for call in groups[models[row], method])
                for row in shown
            ],
            dtype=bool,
        )
        axes.scatter(x[~failed], y[~failed], label=method, **style)
        axes.scatter(
            x[off & ~failed], y[off & ~failed], marker="x", color="black", s=60, lw=1, zorder=6
        )
        axes.scatter(np.full(failed.sum(), edge), y[failed], **(style | {"s": 10}))
    axes.axvline(edge / 5, color="0.7", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(min(finite) / 3, edge * 5)
    axes.text(edge, -0.7, "failed or too slow", ha="center", va="bottom", fontsize=8)
    axes.set_yticks(range(len(models)), [model.replace("_", " ") for model in models])
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_xlabel(
        f"mean squared error of log Z x seconds of a call (crossed out: off by more than "
        f"{LARGEST_ERROR})"
    )
    figure.legend(loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    return figure


def choose_style(number: int, method: str) -> dict[str, Any]:
    """Return the marker of a method; ours stands out."""
    if method == OURS:
        return {"color": "#D00000", "marker": "D", "s": 60, "zorder": 5}
    colour = COLOURS[(number - 1) % len(COLOURS)]
    marker = MARKERS[(number - 1) // len(COLOURS) % len(MARKERS)]
    return {"color": colour, "marker": marker, "s": 26, "zorder": 3}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suite-plot")
    parser.add_argument("csv", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    options = parser.parse_args(arguments)
    calls = [call for file in options.csv for call in read_records(Call, file)]
    draw(calls).savefig(options.out, dpi=150)
    print(f"wrote {options.out}")


COMMANDS = {"suite-plot": main}
