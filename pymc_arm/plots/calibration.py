"""Whether posterior model probabilities are what they say."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_arm.comparison.reliability import Calibration
from pymc_arm.plots.style import GRAY, new_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration"]


def plot_calibration(found: Calibration, ax: "Axes | None" = None, *, bins: int = 10) -> "Axes":
    """Plot how often models were true against how probable they were.

    Points on the diagonal are right. The bars are where points may be by chance, in all bins at
    once with a probability of 99 %, and the number of simulations stands beside each point. A
    point outside of its bar is filled in red.

    Parameters
    ----------
    found
        What :func:`pymc_arm.calibrate` returned.
    ax
        Where to draw; by default a new figure.
    bins
        Of equal width between zero and one.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm import Calibration
    >>> from pymc_arm.plots import plot_calibration
    >>> log_evidence = np.random.default_rng(1).normal(size=(50, 2))
    >>> truth = np.arange(50) % 2
    >>> prior = np.array([0.5, 0.5])
    >>> found = Calibration(("a", "b"), prior, truth, log_evidence, np.zeros((50, 2)))
    >>> plot_calibration(found).get_xlabel()
    'posterior probability of a'
    """
    curve = found.reliability(bins)
    axis = new_axis(ax, (5.5, 5))
    axis.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=1, zorder=1)
    models = list(dict.fromkeys(curve["model"]))
    for number, model in enumerate(models):
        rows = curve[curve["model"] == model]
        # Models side by side, so that their bars can be told apart.
        place = rows["probability"].to_numpy() + 0.012 * (number - 0.5 * (len(models) - 1))
        true, low, high = (rows[name].to_numpy() for name in ("true", "low", "high"))
        color = f"C{number}"
        axis.vlines(place, low, high, color=color, alpha=0.3, linewidth=7, zorder=2)
        outside = (true < low) | (true > high)
        axis.plot(place, true, "o", color=color, markersize=6, label=model, zorder=3)
        axis.plot(place[outside], true[outside], "o", color="C3", markersize=6, zorder=4)
        if len(models) == 1:
            for x, y, count in zip(place, true, rows["simulations"], strict=True):
                axis.annotate(
                    str(count),
                    (x, y),
                    xytext=(7, -9 if y > 0.9 else 4),
                    textcoords="offset points",
                    fontsize="small",
                    color=GRAY,
                )
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(-0.03, 1.03)
    axis.set_xticks(np.linspace(0, 1, 6))
    axis.set_yticks(np.linspace(0, 1, 6))
    if len(models) > 1:
        axis.legend(frameon=False, loc="upper left")
        axis.set_xlabel("posterior probability")
    else:
        axis.set_xlabel(f"posterior probability of {models[0]}")
    axis.set_ylabel("share of simulations in which it was true")
    return axis
