"""Pictures of runs and of comparisons.

Every function takes ``ax`` and returns axes, as those of ArviZ do, and needs matplotlib
(``pip install "pymc_arm[plots]"``), which is imported when a function is called.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_arm._compat import InferenceTree, get_group, has_group
from pymc_arm.comparison import compare, read_evidence
from pymc_arm.evidence_path import EvidencePath, evidence_path
from pymc_arm.results import Evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_comparison",
    "plot_estimates",
    "plot_evidence_path",
    "plot_model_probabilities",
    "plot_run",
]

# With more steps than this a line for each chain is a smear: a band over bins is drawn instead.
MOST_STEPS_AS_LINES = 150
BINS = 120
# With no more steps than this, each gets its own name on the axis.
MOST_NAMED_STEPS = 24
MOST_HARD_LABELS = 5
GRAY = "0.45"


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
    if not has_group(result, "arm"):
        raise ValueError(f"{type(result).__name__} has no group 'arm': it has no history to plot.")
    history = get_group(result, "arm")
    if ax is None:
        axes = _new_axes(4, 1, figsize=(8, 7), sharex=True, ratios=(2, 1, 2, 1))
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
        _clean(axis)
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
    axes[0].set_title(f"{_summary(evidence)}, {len(gamma)} chains", loc="left", fontsize="medium")
    return axes


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
    axis = _new_axis(ax, (7, 1.2 + 0.5 * len(evidences)))
    _draw_intervals(axis, list(evidences.values()), probability)
    axis.set_yticks(range(len(evidences)), list(evidences))
    axis.set_ylim(len(evidences) - 0.5, -0.5)
    axis.set_xlabel(f"log marginal likelihood ({100 * probability:g} % interval)")
    best = max(evidence.log_evidence for evidence in evidences.values())
    axis.axvline(best, color=GRAY, linestyle="--", linewidth=1, zorder=1)
    for place, evidence in enumerate(evidences.values()):
        text = f"{evidence.log_evidence:.2f}"
        if np.isfinite(evidence.standard_error):
            text += f" ± {evidence.standard_error:.2g}"
        axis.annotate(
            text,
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
    'posterior probability (95 % interval from the errors of log Z)'
    """
    if isinstance(models, pd.DataFrame):
        if prior_odds is not None:
            raise TypeError("prior_odds is already in the table: pass it to compare instead.")
        table = models
    else:
        table = compare(models, prior_odds)
    axis = _new_axis(ax, (7, 1.2 + 0.5 * len(table)))
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
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    axis.set_yticks(places, table.index.tolist())
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_xlabel("posterior probability (95 % interval from the errors of log Z)")
    return axis


def plot_evidence_path(
    paths: dict[str, Any] | EvidencePath | InferenceTree,
    ax: "Axes | None" = None,
    *,
    x: Sequence[float] | np.ndarray | None = None,
    annotate: int = 3,
) -> "Axes":
    """Plot how log Z, or a log Bayes factor, builds up with the data.

    One path is drawn as its running log Z. Of several, the first is the reference, and the running
    log Bayes factor of each of the others is drawn against it: above zero the data so far favours
    that model. The observations that contribute most are named.

    Parameters
    ----------
    paths
        By name, or only one: what :func:`pymc_arm.evidence_path` returned. Results of
        :func:`pymc_arm.sample` are accepted one at a time, since their steps are their own.
    ax
        Where to draw; by default a new figure.
    x
        A position for each observation, such as its date; by default its place in the order.
    annotate
        How many observations to name, those that move a line most.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.plots import plot_evidence_path
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = pymc_arm.sample_path(path, draws=100, random_seed=1, progressbar=False)
    >>> plot_evidence_path(result).get_ylabel()
    'log Z'
    """
    # An InferenceData or a DataTree is a mapping too, but of groups.
    named: dict[str, Any] = paths if isinstance(paths, dict) else {"": paths}
    read = {
        name: path if isinstance(path, EvidencePath) else evidence_path(path)
        for name, path in named.items()
    }
    reference_name, reference = next(iter(read.items()))
    count = len(reference.labels)
    if x is not None and len(x) != count:
        raise ValueError(f"x has {len(x)} values for {count} observations.")
    places = np.arange(1, count + 1) if x is None else np.asarray(x)
    axis = _new_axis(ax, (8, 4))
    if len(read) == 1:
        lines = {
            reference_name: (
                reference.log_evidence,
                reference.standard_errors,
                reference.log_scores,
            )
        }
        axis.set_ylabel("log Z")
    else:
        lines = {}
        for name, path in list(read.items())[1:]:
            table = path.against(reference)
            lines[name] = tuple(table.to_numpy().T)
        axis.set_ylabel(f"log Bayes factor against\n{reference_name}")
        axis.axhline(0, color=GRAY, linewidth=1, zorder=1)
    for number, (name, (running, errors, _)) in enumerate(lines.items()):
        color = f"C{number}"
        marker = "o" if count <= MOST_NAMED_STEPS else None
        axis.plot(places, running, color=color, marker=marker, markersize=4, label=name)
        half = 2 * np.nan_to_num(errors)
        axis.fill_between(places, running - half, running + half, color=color, alpha=0.2, lw=0)
    if len(read) > 1:
        labels = reference.labels if x is None else [f"{place:g}" for place in places]
        _name_observations(axis, places, list(lines.values()), labels, annotate)
    if any(lines):
        axis.legend(frameon=False, loc="best")
    if x is None:
        axis.set_xlabel("observations" if reference.per_observation else "steps of the run")
        axis.locator_params(axis="x", integer=True)
    axis.margins(y=0.15)
    return axis


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
    axis = _new_axis(ax, (7, 4))
    history = get_group(result, "arm").attrs if has_group(result, "arm") else {}
    attributes = {**history, **result.attrs}
    chains = statistics["chain"].values
    stages = {stage: names for stage, names in stages.items() if names[0] in statistics}
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
    axis.set_title(_summary(read_evidence(result)), loc="left", fontsize="medium")
    return axis


def _estimate_title(attributes: Mapping[str, Any]) -> str | None:
    chosen = {"explore": "exploring", "refine": "refined"}.get(str(attributes.get("estimate")))
    return None if chosen is None else f"the estimate: {chosen}"


def _new_axes(
    rows: int, columns: int, figsize: tuple[float, float], sharex: bool, ratios: Sequence[float]
) -> np.ndarray:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(
        rows,
        columns,
        figsize=figsize,
        sharex=sharex,
        layout="constrained",
        gridspec_kw={"height_ratios": ratios},
    )
    return np.atleast_1d(axes)


def _new_axis(ax: "Axes | None", figsize: tuple[float, float]) -> "Axes":
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    _clean(ax)
    return ax


def _clean(axis: "Axes") -> None:
    axis.spines[["top", "right"]].set_visible(False)


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
        label = re.sub(r" \([\d.e+-]+\)$", "", introduced[chain, step])
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


def _name_observations(
    axis: "Axes",
    places: np.ndarray,
    lines: Sequence[Sequence[np.ndarray]],
    labels: Sequence[str],
    limit: int,
) -> None:
    """Name the observations that move a line most, as far apart as their names are wide."""
    running, contributions = (np.array([line[k] for line in lines]) for k in (0, 2))
    named: list[int] = []
    for flat in np.argsort(-np.abs(contributions), axis=None).tolist():
        line, number = divmod(flat, len(labels))
        if len(named) == limit:
            return
        if any(abs(number - other) < 0.1 * (len(labels) - 1) for other in named):
            continue
        named.append(number)
        # Away from the other lines.
        upwards = running[line, number] >= running[:, number].max()
        axis.annotate(
            f"{labels[number]}: {contributions[line, number]:+.1f}",
            (float(places[number]), float(running[line, number])),
            xytext=(0, 16 if upwards else -16),
            textcoords="offset points",
            ha="center",
            va="bottom" if upwards else "top",
            fontsize="small",
            color=f"C{line}",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            arrowprops={"arrowstyle": "-", "color": f"C{line}", "linewidth": 0.6},
        )


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


def _summary(evidence: Evidence) -> str:
    text = f"log Z = {evidence.log_evidence:.2f}"
    if np.isfinite(evidence.standard_error):
        text += f" ± {evidence.standard_error:.2g}"
    return text
