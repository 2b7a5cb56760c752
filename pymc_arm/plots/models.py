"""Models side by side: log Z and posterior probabilities."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_arm.comparison import compare, read_evidence
from pymc_arm.plots.style import GRAY, new_axis
from pymc_arm.results import Evidence, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison", "plot_model_probabilities"]


def plot_comparison(
    models: Mapping[str, Any] | pd.DataFrame, ax: "Axes | None" = None, *, probability: float = 0.95
) -> "Axes":
    """Plot log Z of models with their intervals, the best one on top.

    Parameters
    ----------
    models
        The table of :func:`pymc_arm.compare`, or results by name.
    ax
        Where to draw; by default a new figure.
    probability
        Of the intervals.

    Examples
    --------
    >>> from pymc_arm.plots import plot_comparison
    >>> from pymc_arm.results import Evidence
    >>> axis = plot_comparison({"a": Evidence(-10.0, 0.1, 3), "b": Evidence(-12.0, 0.2, 3)})
    >>> [label.get_text() for label in axis.get_yticklabels()]
    ['a', 'b']
    """
    evidences = _evidences(models)
    axis = new_axis(ax, (7, 1.2 + 0.5 * len(evidences)))
    _draw_intervals(axis, list(evidences.values()), probability)
    axis.set_yticks(range(len(evidences)), list(evidences))
    axis.set_ylim(len(evidences) - 0.5, -0.5)
    axis.set_xlabel(f"log marginal likelihood ({100 * probability:g} % interval)")
    axis.locator_params(axis="x", nbins=5)
    best = max(evidence.log_evidence for evidence in evidences.values())
    axis.axvline(best, color=GRAY, linestyle="--", linewidth=1, zorder=1)
    for place, evidence in enumerate(evidences.values()):
        axis.annotate(
            summarize(evidence),
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize="small",
            color=GRAY,
        )
    return axis


def plot_model_probabilities(
    models: Mapping[str, Any] | pd.DataFrame,
    ax: "Axes | None" = None,
    *,
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
) -> "Axes":
    """Plot the posterior probabilities of models, with intervals from the errors of log Z.

    Parameters
    ----------
    models
        The table of :func:`pymc_arm.compare`, or results by name.
    ax
        Where to draw; by default a new figure.
    prior_odds
        As in :func:`pymc_arm.compare`; a table has them already.

    Examples
    --------
    >>> from pymc_arm.plots import plot_model_probabilities
    >>> from pymc_arm.results import Evidence
    >>> models = {"a": Evidence(-10.0, 0.1, 3), "b": Evidence(-11.0, 0.2, 3)}
    >>> plot_model_probabilities(models).get_xlabel()
    'posterior probability (95 % interval)'
    """
    if isinstance(models, pd.DataFrame):
        if prior_odds is not None:
            raise TypeError("prior_odds is already in the table: pass it to compare instead.")
        table = models
    else:
        table = compare(models, prior_odds)
    axis = new_axis(ax, (7, 1.2 + 0.5 * len(table)))
    point = table["probability"].to_numpy()
    errors = [point - table["probability_low"], table["probability_high"] - point]
    places = np.arange(len(table))
    axis.barh(places, point, height=0.55, color="C0", alpha=0.6)
    axis.errorbar(point, places, xerr=np.array(errors), fmt="none", ecolor="0.2", capsize=3)
    for place, (value, high) in enumerate(zip(point, table["probability_high"], strict=True)):
        # Beside the bar, or inside of it where the axis ends.
        inside = high > 0.85
        axis.annotate(
            f"{value:.3g}",
            (0.0 if inside else high, place),
            # Inside, the line of the interval runs through the middle.
            xytext=(6, 1 if inside else 0),
            textcoords="offset points",
            va="bottom" if inside else "center",
            fontsize="small",
        )
    axis.set_yticks(places, table.index.tolist())
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_xlabel("posterior probability (95 % interval)")
    return axis


def _draw_intervals(axis: "Axes", evidences: Sequence[Evidence], probability: float) -> None:
    for place, evidence in enumerate(evidences):
        if not np.isfinite(evidence.log_evidence):
            axis.annotate(
                "log Z is -inf",
                (0.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize="small",
            )
            continue
        center = evidence.log_evidence
        low, high = evidence.interval(probability)
        if np.isfinite(low):
            axis.plot([low, high], [place, place], color="C0", linewidth=2.5, solid_capstyle="butt")
        axis.plot(center, place, "o", color="C0", markersize=6)


def _evidences(models: Mapping[str, Any] | pd.DataFrame) -> dict[str, Evidence]:
    """Return log Z by name, the best first."""
    if isinstance(models, pd.DataFrame):
        found = {
            str(name): Evidence(
                float(row["log_evidence"]),
                float(row["standard_error"]),
                float(row["degrees_of_freedom"]),
            )
            for name, row in models.iterrows()
        }
    else:
        found = {name: read_evidence(result) for name, result in models.items()}
    return dict(sorted(found.items(), key=lambda item: item[1].log_evidence, reverse=True))
