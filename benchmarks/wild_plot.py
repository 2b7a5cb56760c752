"""How many models are right after how many CPU seconds, tool by tool."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.suite_plot import choose_style
from benchmarks.wild import BOUNDS, WildRun
from benchmarks.workers import OURS

__all__ = ["draw_wild"]


def draw_wild(runs: Sequence[WildRun]) -> Any:
    """Return a figure: how many models each tool has right within a time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    last = max(*BOUNDS, *(run.cpu_seconds for run in runs))
    models = len({run.name for run in runs})
    for number, tool in enumerate(dict.fromkeys(run.tool for run in runs)):
        mine = [run for run in runs if run.tool == tool]
        times = np.sort([run.cpu_seconds for run in mine if run.right])
        heights = np.arange(len(times) + 1)
        silent = sum(run.silently_wrong for run in mine)
        style = choose_style(number, tool)
        label = f"{tool}: {len(times)} of {models} right, {silent} silently wrong"
        axes.step(
            [*times[:1], *times, last],
            [*heights[: len(times) + 1], heights[-1]],
            where="post",
            label=label,
            color=style["color"],
            linewidth=2.2 if tool == OURS else 1.4,
        )
    axes.set_xscale("log")
    axes.set_xlabel("CPU seconds, imports and compilation included")
    axes.set_ylabel(f"right, of {models} models")
    axes.set_ylim(0, 1.02 * models)
    for bound in BOUNDS:
        axes.axvline(bound, color="0.85", linewidth=0.8, zorder=0)
    axes.set_xticks([5, 10, *BOUNDS], [str(tick) for tick in (5, 10, *BOUNDS)])
    figure.legend(loc="outside upper center", fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
