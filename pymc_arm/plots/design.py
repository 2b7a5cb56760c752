"""How much data a comparison needs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pymc_arm.comparison.design import Design
from pymc_arm.plots.style import GRAY, clean, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_design"]

STYLES = {"strong": "o-", "misleading": "s:"}


def plot_design(
    found: Design, ax: "Sequence[Axes] | None" = None, *, probability: float = 0.8
) -> np.ndarray:
    r"""Plot the Bayes factor of the true model and the chances of strong evidence, by sample size.

    Above, the median of the log Bayes factor of the true model against the best of the others and a
    band from its 10 % to its 90 % quantile; dashed lines are the thresholds of strong and of
    misleading evidence. Below, the probabilities of both, with 95 % intervals.

    Parameters
    ----------
    found
        What :func:`pymc_arm.design` returned.
    ax
        Two axes; by default those of a new figure.
    probability
        The wanted probability of strong evidence, a dotted line.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_arm import Design
    >>> from pymc_arm.plots import plot_design
    >>> factors = pd.DataFrame(
    ...     {
    ...         "n": [20, 20, 80, 80],
    ...         "truth": ["a", "b", "a", "b"],
    ...         "log_bayes_factor": [0.5, 1.5, 2.5, 4.0],
    ...     }
    ... )
    >>> [axis.get_ylabel() for axis in plot_design(Design(factors))]
    ['log Bayes factor\nof the true model', 'probability']
    """
    axes = new_axes(2, 1, (7, 6), True, (1, 1)) if ax is None else np.asarray(ax)
    if len(axes) != 2:
        raise ValueError(f"ax has {len(axes)} axes: give two, one above the other.")
    above, below = axes
    made, limit = found.table, float(np.log(found.threshold))
    models = list(dict.fromkeys(made["truth"]))
    for number, model in enumerate(models):
        rows = made[made["truth"] == model].sort_values("n")
        n, color = rows["n"].to_numpy(dtype=float), f"C{number}"
        above.plot(n, rows["median"], "o-", color=color, markersize=4, label=f"{model} is true")
        above.fill_between(n, rows["low"], rows["high"], color=color, alpha=0.2, lw=0)
        # Side by side, so that intervals can be told apart.
        aside = n * 1.02 ** (number - 0.5 * (len(models) - 1))
        for name, style in STYLES.items():
            value = rows[name].to_numpy()
            error = np.array([value - rows[f"{name}_low"], rows[f"{name}_high"] - value])
            error = np.maximum(error, 0.0)
            below.errorbar(aside, value, error, fmt=style, color=color, markersize=4, capsize=2)
    for line in (limit, -limit):
        above.axhline(line, color=GRAY, linestyle="--", linewidth=1, zorder=1)
    above.axhline(0, color=GRAY, linewidth=0.5, zorder=1)
    below.axhline(probability, color=GRAY, linestyle=":", linewidth=1, zorder=1)
    above.set_ylabel("log Bayes factor\nof the true model")
    below.set_ylabel("probability")
    below.set_xlabel("sample size n")
    below.set_ylim(-0.03, 1.03)
    # For an effect there may be a hundred times as much evidence as for its absence.
    above.set_yscale("symlog", linthresh=2 * limit, linscale=1.5)
    above.yaxis.set_major_formatter("{x:g}")
    for name, style in STYLES.items():
        below.plot([], [], style, color=GRAY, markersize=4, label=f"{name} evidence")
    for axis in axes:
        clean(axis)
        axis.set_xscale("log")
        axis.legend(frameon=False, fontsize="small", loc="upper left")
    _mark_sizes(below, np.unique(made["n"].to_numpy()))
    return axes


def _mark_sizes(axis: "Axes", sizes: np.ndarray) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.xaxis.set_minor_locator(NullLocator())
