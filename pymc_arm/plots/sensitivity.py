"""How log Z depends on the priors."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pymc_arm.comparison.sensitivity_curve import SensitivityCurve
from pymc_arm.plots.style import GRAY, new_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_sensitivity", "plot_sensitivity_curve"]

COLUMNS = ("variable", "scale", "log_evidence", "standard_error")


def plot_sensitivity(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Plot how log Z changes as the priors of variables are made wider or narrower.

    One line for each variable over the factor by which the scale of its prior was multiplied, with
    a band of two standard errors. A flat line is a prior that does not matter. Where the answer is
    not reliable, because few draws are where the posterior under that prior is, the point is
    hollow.

    Parameters
    ----------
    table
        What ``pymc_arm.sensitivity`` returned, with the columns ``variable``, ``scale``,
        ``log_evidence``, ``standard_error`` and, if there is one, ``reliable``.
    ax
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_arm.plots import plot_sensitivity
    >>> table = pd.DataFrame(
    ...     {
    ...         "variable": ["tau"] * 3,
    ...         "scale": [0.5, 1.0, 2.0],
    ...         "log_evidence": [-31.2, -31.0, -31.4],
    ...         "standard_error": [0.03, 0.01, 0.04],
    ...         "reliable": [True, True, False],
    ...     }
    ... )
    >>> plot_sensitivity(table).get_ylabel()
    'log marginal likelihood'
    """
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ValueError(
            f"table has no column {missing}: give the table that pymc_arm.sensitivity returned."
        )
    axis = new_axis(ax, (7, 4))
    axis.axvline(1.0, color=GRAY, linestyle="--", linewidth=1, zorder=1)
    for number, (variable, rows) in enumerate(table.groupby("variable", sort=False)):
        color = f"C{number}"
        ordered = rows.sort_values("scale")
        scale, log_evidence, error = (ordered[name].to_numpy(dtype=float) for name in COLUMNS[1:])
        reliable = np.ones(len(ordered), dtype=bool)
        if "reliable" in ordered:
            reliable = ordered["reliable"].to_numpy(dtype=bool)
        half = 2 * np.nan_to_num(error, posinf=0.0)
        axis.plot(scale, log_evidence, color=color, label=str(variable))
        axis.fill_between(
            scale, log_evidence - half, log_evidence + half, color=color, alpha=0.2, lw=0
        )
        axis.plot(scale[reliable], log_evidence[reliable], "o", color=color, markersize=5)
        axis.plot(
            scale[~reliable],
            log_evidence[~reliable],
            "o",
            markeredgecolor=color,
            markerfacecolor="white",
            markersize=5,
        )
    axis.set_xscale("log")
    _mark_scales(axis, np.unique(table["scale"].to_numpy(dtype=float)))
    axis.set_xlabel("factor on the scale of the prior")
    axis.set_ylabel("log marginal likelihood")
    handles, labels = axis.get_legend_handles_labels()
    if "reliable" in table and not table["reliable"].all():
        from matplotlib.lines import Line2D

        handles.append(
            Line2D([], [], marker="o", color=GRAY, markerfacecolor="white", linestyle="none")
        )
        labels.append("not reliable")
    axis.legend(handles, labels, frameon=False, loc="best")
    return axis


def plot_sensitivity_curve(curve: SensitivityCurve, ax: "Axes | None" = None) -> "Axes":
    """Plot a log Bayes factor over the scale of a prior.

    The band is the 95 % interval. Filled points were run, hollow ones are by reweighting the draws
    of a run. Dotted lines are where the data begin to favour the other model.

    Parameters
    ----------
    curve
        What :func:`pymc_arm.sensitivity_curve` returned.
    ax
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_arm import SensitivityCurve
    >>> from pymc_arm.plots import plot_sensitivity_curve
    >>> table = pd.DataFrame(
    ...     {
    ...         "scale": [0.5, 1.0, 2.0],
    ...         "log_bayes_factor": [1.0, 0.5, -1.0],
    ...         "standard_error": [0.1, 0.01, 0.1],
    ...         "degrees_of_freedom": [10, 10, 10],
    ...         "run_at": [1.0, 1.0, 1.0],
    ...     }
    ... )
    >>> plot_sensitivity_curve(SensitivityCurve("delta", table)).get_ylabel()
    'log Bayes factor of first against second'
    """
    axis = new_axis(ax, (7, 4))
    names = ("scale", "log_bayes_factor", "run_at")
    scale, value, run_at = (curve.table[name].to_numpy(dtype=float) for name in names)
    low, high = curve.intervals.T
    axis.axhline(0, color=GRAY, linestyle="--", linewidth=1, zorder=1)
    axis.fill_between(scale, low, high, color="C0", alpha=0.2, lw=0)
    axis.plot(scale, value, color="C0")
    run = scale == run_at
    axis.plot(scale[run], value[run], "o", color="C0", markersize=6, label="run")
    axis.plot(
        scale[~run],
        value[~run],
        "o",
        markeredgecolor="C0",
        markerfacecolor="white",
        markersize=6,
        label="by reweighting",
    )
    for flip in curve.flips:
        axis.axvline(flip, color="C3", linestyle=":", linewidth=1.5, zorder=1)
        axis.annotate(
            f"{flip:.3g}",
            (flip, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -10),
            textcoords="offset points",
            fontsize="small",
            color="C3",
        )
    axis.set_xscale("log")
    _mark_scales(axis, scale)
    axis.set_xlabel(f"factor on the scale of the prior of {curve.variable}")
    axis.set_ylabel(f"log Bayes factor of {curve.first} against {curve.second}")
    axis.legend(frameon=False, loc="best")
    return axis


def _mark_scales(axis: "Axes", scales: np.ndarray) -> None:
    """Write the factors themselves on the axis, if there is room."""
    from matplotlib.ticker import NullFormatter, NullLocator

    if len(scales) <= 9:
        axis.set_xticks(scales, [f"{scale:g}" for scale in scales])
        axis.xaxis.set_minor_locator(NullLocator())
    else:
        axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
