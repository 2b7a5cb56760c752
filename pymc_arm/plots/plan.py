"""The plan of a run as a graph over its steps."""

from typing import TYPE_CHECKING

import numpy as np

from pymc_arm.models.plan import Plan
from pymc_arm.plots.style import GRAY, new_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_plan"]

COLORS = {"prior draw": "C7", "quadrature": "C0", "enumerate": "C2", "temper": "C1", "data": "C1"}


def plot_plan(plan: Plan, ax: "Axes | None" = None) -> "Axes":
    """Draw when the variables and the data of a model come in, and what depends on what.

    Each variable and each data set is a bar from its first step to its last; arrows lead from
    variables to what depends on them.

    Parameters
    ----------
    plan
        What :func:`pymc_arm.plan` returned.
    ax
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", n=10, p=p, observed=7)
    >>> axis = pymc_arm.plots.plot_plan(pymc_arm.plan(model))
    >>> [label.get_text() for label in axis.get_yticklabels()]
    ['p', 'y']
    """
    from matplotlib.ticker import MaxNLocator

    if not isinstance(plan, Plan):
        raise TypeError(
            f"plan is of type {type(plan).__name__}: give what pymc_arm.plan(model) returned, with "
            "family='generic' if that is a sentence about the model's family."
        )
    spans, methods = _spans(plan)
    names = sorted(spans, key=lambda name: (name not in _variables(plan), spans[name]))
    place = {name: row for row, name in enumerate(names)}
    axis = new_axis(ax, (8, 1.4 + 0.45 * len(names)))
    for parent, child in _edges(plan):
        start = (min(spans[parent][0] + 0.5, spans[child][0] + 0.25), place[parent])
        end = (spans[child][0] + 0.25, place[child])
        axis.annotate(
            "",
            end,
            start,
            arrowprops={
                "arrowstyle": "->",
                "color": GRAY,
                "alpha": 0.6,
                "connectionstyle": "arc3,rad=0.15",
                "shrinkA": 6,
                "shrinkB": 6,
            },
        )
    for name, (first, last) in spans.items():
        color = COLORS[methods[name]]
        axis.barh(place[name], last - first + 0.8, left=first, height=0.5, color=color, zorder=2)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(-0.3, len(plan.steps) + 1.1)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("step")
    _add_legend(axis, methods)
    return axis


def _variables(plan: Plan) -> set[str]:
    return {slot.name for slot in plan.layout.slots}


def _spans(plan: Plan) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Return the first and the last step of each variable and data set, and how it comes in."""
    steps: dict[str, list[int]] = {}
    methods: dict[str, str] = {}
    for coordinate in plan.initial:
        name = plan.layout.slot_of(int(coordinate)).name
        steps[name], methods[name] = [0], "prior draw"
    for number, step in enumerate(plan.steps, start=1):
        if step.coordinate is not None:
            name = plan.layout.slot_of(step.coordinate).name
            steps.setdefault(name, []).append(number)
            methods[name] = step.method
        for name in {plan.term_names[row] for row in step.data_terms}:
            steps.setdefault(name, []).append(number)
            methods.setdefault(name, "data")
    return {name: (min(own), max(own)) for name, own in steps.items()}, methods


def _edges(plan: Plan) -> list[tuple[str, str]]:
    """Return (variable, dependent) pairs, by the scopes of the dependent's terms."""
    edges: dict[tuple[str, str], None] = {}
    owner = np.array(plan.term_names)
    for slot in plan.layout.slots:
        columns = plan.scopes[:, slot.start : slot.start + slot.size].any(axis=1)
        for name in dict.fromkeys(owner[columns].tolist()):
            if name != slot.name:
                edges[slot.name, name] = None
    return list(edges)


def _add_legend(axis: "Axes", methods: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    used = [method for method in COLORS if method in methods.values()]
    handles = [Patch(color=COLORS[method], label=method) for method in used]
    axis.legend(handles=handles, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
