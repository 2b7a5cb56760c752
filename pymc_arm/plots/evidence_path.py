"""How a log Bayes factor builds up with the data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_arm._compat import InferenceTree
from pymc_arm.comparison.evidence_path import EvidencePath, evidence_path
from pymc_arm.plots.style import GRAY, MOST_NAMED_STEPS, new_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

__all__ = ["plot_evidence_path"]


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
        raise ValueError(f"x has {len(x)} values for {count} observations: give one for each.")
    places = np.arange(1, count + 1) if x is None else np.asarray(x)
    axis = new_axis(ax, (8, 4))
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
    axis.margins(y=0.15)
    if len(read) > 1:
        labels = reference.labels if x is None else [f"{place:g}" for place in places]
        _name_observations(axis, places, list(lines.values()), labels, annotate)
    if any(lines):
        axis.legend(frameon=False, loc="best")
    if x is None:
        axis.set_xlabel("observations" if reference.per_observation else "steps of the run")
        axis.locator_params(axis="x", integer=True)
    return axis


def _name_observations(
    axis: "Axes",
    places: np.ndarray,
    lines: Sequence[Sequence[np.ndarray]],
    labels: Sequence[str],
    limit: int,
) -> None:
    """Name the observations that move a line most, as far apart as their names are wide."""
    running, contributions = (np.array([line[k] for line in lines]) for k in (0, 2))
    axis.autoscale_view()
    drawn = _points_on_lines(axis, places, running)
    named: list[int] = []

    def annotate(line: int, number: int, right: int, up: int) -> "Annotation":
        return axis.annotate(
            f"{labels[number]}: {contributions[line, number]:+.1f}",
            (float(places[number]), float(running[line, number])),
            xytext=(right, up),
            textcoords="offset points",
            ha="left" if right > 0 else "right",
            va="bottom" if up > 0 else "top",
            fontsize="small",
            color=f"C{line}",
            arrowprops={"arrowstyle": "-", "color": f"C{line}", "linewidth": 0.6},
        )

    for flat in np.argsort(-np.abs(contributions), axis=None).tolist():
        line, number = divmod(flat, len(labels))
        if len(named) == limit:
            return
        if any(abs(number - other) < 0.1 * (len(labels) - 1) for other in named):
            continue
        named.append(number)
        # Away from the other lines, and from where this one comes from or goes to.
        upwards = running[line, number] >= running[:, number].max()
        rising = running[line, number] >= running[line, 0]
        right = number < 0.8 * len(labels) and (upwards != rising or number < 0.2 * len(labels))
        preferred = 1 if right else -1, 1 if upwards else -1
        corners = [(a * preferred[0], b * preferred[1]) for b in (1, -1) for a in (1, -1)]
        hidden: dict[tuple[int, int, int], int] = {}
        for distance in (16, 30, 50):
            for sideways, height in corners:
                label = annotate(line, number, distance * sideways, distance * height)
                hidden[sideways, height, distance] = _count_covered(axis, label, drawn)
                label.remove()
        sideways, height, distance = min(hidden, key=lambda corner: hidden[corner])
        label = annotate(line, number, distance * sideways, distance * height)
        drawn = np.concatenate([drawn, _grid(label)])


def _points_on_lines(axis: "Axes", places: np.ndarray, running: np.ndarray) -> np.ndarray:
    """Return points along lines, a few pixels apart, in pixels."""
    fine = np.linspace(0, len(places) - 1, 500)
    steps = np.arange(len(places))
    x = np.interp(fine, steps, places)
    lines = [np.column_stack([x, np.interp(fine, steps, line)]) for line in running]
    points: np.ndarray = axis.transData.transform(np.concatenate(lines))
    return points


def _count_covered(axis: "Axes", label: "Annotation", points: np.ndarray) -> int:
    """Return how many points a label and its arrow would cover."""
    box = _box(label)
    inside = (points > (box.x0 - 4, box.y0 - 4)) & (points < (box.x1 + 4, box.y1 + 4))
    start = axis.transData.transform(label.xy)
    end = np.clip(start, (box.x0, box.y0), (box.x1, box.y1))
    # The arrow begins on its own line; what it crosses later on belongs to others.
    arrow = start + np.linspace(0.4, 1, 12)[:, None] * (end - start)
    distances = np.linalg.norm(points[:, None] - arrow, axis=2).min(axis=1)
    return int(np.sum(inside.all(axis=1) | (distances < 2)))


def _grid(label: "Annotation") -> np.ndarray:
    """Return points all over a label, so that no other covers it."""
    box = _box(label)
    x, y = np.meshgrid(np.linspace(box.x0, box.x1, 20), np.linspace(box.y0, box.y1, 6))
    return np.column_stack([x.ravel(), y.ravel()])


def _box(label: "Annotation") -> "Bbox":
    """Return where the words of a label are, in pixels, without its arrow."""
    from matplotlib.text import Text

    label.get_window_extent()  # places the words
    return Text.get_window_extent(label)
