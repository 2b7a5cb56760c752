"""What happened in a run: its steps, and what its chains say."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_arm._compat import InferenceTree, get_group, has_group
from pymc_arm.comparison import read_evidence
from pymc_arm.comparison.evidence_path import PIECE
from pymc_arm.plots.style import GRAY, MOST_NAMED_STEPS, clean, new_axes, new_axis
from pymc_arm.results import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_estimates", "plot_run"]

# With more steps than this a line for each chain is a smear: a band over bins is drawn instead.
MOST_STEPS_AS_LINES = 150
BINS = 120
MOST_HARD_LABELS = 5


def plot_run(
    result: InferenceTree, ax: "Sequence[Axes] | None" = None, *, hard_steps: int = MOST_HARD_LABELS
) -> "np.ndarray":
    r"""Plot what happened in a run, step by step.

    From top to bottom: gamma, the effective fraction, with its threshold; R_n, the particles of
    each step; the increments of log Z; and the generate rounds. Each chain is a line; if there are
    many steps, a band from the lowest to the highest over chains and neighbouring steps, with the
    mean. Hard steps, where gamma was still below the threshold at the end, are marked and named
    by what they introduced.

    Parameters
    ----------
    result
        A result of :func:`pymc_arm.sample` or :func:`pymc_arm.sample_path`.
    ax
        Four axes; by default those of a new figure.
    hard_steps
        How many hard steps to name at most, the hardest first.

    Returns
    -------
    numpy.ndarray
        The four axes.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.plots import plot_run
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = pymc_arm.sample_path(path, draws=100, random_seed=1, progressbar=False)
    >>> [axis.get_ylabel() for axis in plot_run(result)]
    ['$\\gamma$', '$R_n$', 'increment\nof log Z', 'rounds']
    """
    history = get_group(result, "arm")
    if not history.sizes["step"]:
        raise ValueError("This run had no steps: its model has no parameters.")
    if ax is None:
        axes = new_axes(4, 1, figsize=(8, 7), sharex=True, ratios=(2, 1, 2, 1))
    else:
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) != 4:
            raise ValueError(f"ax has {len(axes)} axes; plot_run draws on four.")
    panels = {
        "effective_fraction": r"$\gamma$",
        "particles": "$R_n$",
        "log_increment": "increment\nof log Z",
        "rounds": "rounds",
    }
    for axis, (name, label) in zip(axes, panels.items(), strict=True):
        _draw_history(axis, history[name].values)
        axis.set_ylabel(label)
        clean(axis)
    threshold = history.attrs.get("threshold", result.attrs.get("threshold"))
    gamma = history["effective_fraction"].values
    axes[0].set_ylim(-0.03, 1.05)
    if threshold is not None:
        axes[0].axhline(float(threshold), color=GRAY, linestyle="--", linewidth=1, zorder=1)
        _mark_hard_steps(axes[0], history, float(threshold), hard_steps)
    axes[1].set_ylim(0, 1.15 * np.nanmax(history["particles"].values))
    axes[2].axhline(0, color=GRAY, linewidth=0.8, zorder=1)
    rounds = int(np.nanmax(history["rounds"].values))
    axes[3].set_ylim(-0.3, max(rounds, 1) + 0.4)
    axes[3].locator_params(axis="y", integer=True, nbins=4)
    _name_steps(axes[3], history["introduced"].values.astype(str), gamma.shape[1])
    evidence = read_evidence(result)
    axes[0].set_title(
        f"log Z = {summarize(evidence)}, {len(gamma)} chains", loc="left", fontsize="medium"
    )
    return axes


def plot_estimates(result: InferenceTree, ax: "Axes | None" = None) -> "Axes":
    """Plot log Z of each chain, exploring against refined, and the pooled estimates.

    Chains that agree lie close together, and refined estimates lie closer still. A result without
    a refine stage has one estimate for each chain.

    Parameters
    ----------
    result
        A result of :func:`pymc_arm.sample` or :func:`pymc_arm.sample_path`.
    ax
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.plots import plot_estimates
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = pymc_arm.sample_path(path, draws=100, random_seed=1, progressbar=False)
    >>> plot_estimates(result).get_ylabel()
    'log marginal likelihood'
    """
    statistics = get_group(result, "sample_stats")
    stages = {
        "exploring": ("explore_log_marginal_likelihood", "explore_log_marginal_likelihood"),
        "refined": ("refined_log_marginal_likelihood", "refine_log_marginal_likelihood"),
    }
    if "explore_log_marginal_likelihood" not in statistics:
        stages["exploring"] = ("log_marginal_likelihood", "log_marginal_likelihood")
    axis = new_axis(ax, (7, 4))
    history = get_group(result, "arm").attrs if has_group(result, "arm") else {}
    attributes = {**history, **result.attrs}
    chains = statistics["chain"].values
    stages = {
        stage: names
        for stage, names in stages.items()
        if names[0] in statistics and bool(statistics[names[0]].notnull().any())
    }
    shifts = (-0.1, 0.1) if len(stages) > 1 else (0.0,)
    for number, (stage, (variable, pooled)) in enumerate(stages.items()):
        color, shift = f"C{number}", shifts[number]
        values = statistics[variable].values.astype(float)
        axis.plot(np.arange(len(chains)) + shift, values, "o", color=color, label=stage)
        if pooled in attributes and np.isfinite(attributes[pooled]):
            center, error = float(attributes[pooled]), float(attributes[f"{pooled}_se"])
            axis.axhline(center, color=color, linewidth=1)
            if np.isfinite(error):
                axis.axhspan(center - 2 * error, center + 2 * error, color=color, alpha=0.12, lw=0)
    axis.set_xticks(range(len(chains)), [str(chain) for chain in chains])
    axis.set_xlim(-0.6, len(chains) - 0.4)
    axis.set_xlabel("chain")
    axis.set_ylabel("log marginal likelihood")
    formatter = axis.yaxis.get_major_formatter()
    if hasattr(formatter, "set_useOffset"):
        formatter.set_useOffset(False)
    if len(stages) > 1:
        axis.legend(frameon=False, loc="best", title=_estimate_title(attributes))
    axis.set_title(f"log Z = {summarize(read_evidence(result))}", loc="left", fontsize="medium")
    return axis


def _estimate_title(attributes: Mapping[str, Any]) -> str | None:
    chosen = {"explore": "exploring", "refine": "refined"}.get(str(attributes.get("estimate")))
    return None if chosen is None else f"the estimate: {chosen}"


def _draw_history(axis: "Axes", values: np.ndarray) -> None:
    """Draw a (chain, step) table: a line for each chain, or a band over many steps."""
    steps = np.arange(1, values.shape[1] + 1)
    if len(steps) <= MOST_STEPS_AS_LINES:
        marker = "o" if len(steps) <= MOST_NAMED_STEPS else None
        for chain, row in enumerate(values):
            axis.plot(
                steps, row, color=f"C{chain % 10}", marker=marker, markersize=4, lw=1, alpha=0.75
            )
        return
    edges = np.linspace(0, len(steps), BINS + 1).astype(int)
    parts = [values[:, low:high].ravel() for low, high in pairwise(edges.tolist())]
    parts = [part[~np.isnan(part)] for part in parts]
    kept = [number for number, part in enumerate(parts) if len(part)]
    parts = [parts[number] for number in kept]
    low, middle, high = np.array([(p.min(), p.mean(), p.max()) for p in parts]).T
    # Steps of a bin, not lines between bins: each band shows only what is in it.
    starts = np.append(edges[:-1][kept] + 0.5, edges[kept[-1] + 1] + 0.5)
    axis.stairs(high, starts, baseline=low, fill=True, color="C0", alpha=0.25, linewidth=0)
    axis.stairs(middle, starts, baseline=None, color="C0", linewidth=1.2)


def _mark_hard_steps(axis: "Axes", history: Any, threshold: float, limit: int) -> None:
    """Name the steps whose gamma stayed below the threshold although rounds were added."""
    gamma, rounds = history["effective_fraction"].values, history["rounds"].values
    introduced = history["introduced"].values.astype(str)
    # A tempered step puts gamma on the threshold itself; only what is clearly below is hard.
    hard = np.argwhere((gamma < 0.95 * threshold) & (rounds > 0)).tolist()
    width = gamma.shape[1]
    named: list[tuple[str, int]] = []
    for chain, step in sorted(hard, key=lambda place: gamma[tuple(place)]):
        if len(named) == limit:
            return
        label = PIECE.sub("", introduced[chain, step])
        near = any(abs(step - other) < 0.1 * (width - 1) for _, other in named)
        if near or any(label == taken for taken, _ in named):
            continue
        named.append((label, step))
        right = step > 0.8 * width
        axis.plot(step + 1, gamma[chain, step], "x", color="C3", markersize=6, zorder=4)
        axis.annotate(
            label,
            (step + 1, gamma[chain, step]),
            xytext=(-7 if right else 7, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
            fontsize="small",
            color="C3",
        )


def _name_steps(axis: "Axes", introduced: np.ndarray, count: int) -> None:
    """Put what each step introduced on the axis, if there is room and chains agree on it."""
    axis.set_xlim(0.5, count + 0.5)
    same = bool((introduced == introduced[0]).all())
    if count > MOST_NAMED_STEPS or not same:
        axis.set_xlabel("step")
        axis.locator_params(axis="x", integer=True)
        return
    long = count * max(len(name) for name in introduced[0]) > 70
    axis.set_xticks(
        range(1, count + 1),
        introduced[0].tolist(),
        rotation=45 if long else 0,
        ha="right" if long else "center",
        fontsize="small",
    )
    axis.set_xlabel("what the step introduced")
