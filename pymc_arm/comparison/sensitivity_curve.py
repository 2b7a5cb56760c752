"""The Bayes factor over a range of scales of a prior, and where the conclusion changes.

Posterior draws of one run are reweighted to other scales as far as that is reliable
(:mod:`pymc_arm.comparison.sensitivity`). Where it is not, the model is run with another scale, and
its draws are reweighted from there, until all scales are covered. A model with a scaled prior needs
no knowledge of the distribution: x with center c is replaced by c + s (x - c) wherever it is used.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph

from pymc_arm._compat import find_model
from pymc_arm.comparison.factors import subtract
from pymc_arm.comparison.reading import read_evidence
from pymc_arm.comparison.running import run_models
from pymc_arm.comparison.sensitivity import find_center, sensitivity
from pymc_arm.html import box, paragraph, table
from pymc_arm.results import Evidence, summarize
from pymc_arm.sampling import sample

__all__ = ["SensitivityCurve", "scale_prior", "sensitivity_curve"]


@dataclass(frozen=True)
class SensitivityCurve:
    """A Bayes factor over the scale of a prior.

    :func:`sensitivity_curve` returns it.

    Attributes
    ----------
    variable
        The variable whose prior was scaled.
    table
        A row for each ``scale`` in ascending order: ``log_bayes_factor`` of the model against the
        other one, its ``standard_error`` and ``degrees_of_freedom``, and ``run_at``, the scale of
        the run whose draws were used: the same one, if the model was run at that scale.
    first, second
        The names of the models.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_arm import SensitivityCurve
    >>> columns = ["scale", "log_bayes_factor", "standard_error", "degrees_of_freedom", "run_at"]
    >>> rows = [(1.0, 2.0, 0.1, 10, 1.0), (4.0, -2.0, 0.1, 10, 4.0)]
    >>> curve = SensitivityCurve("x", pd.DataFrame(rows, columns=columns))
    >>> [round(flip, 1) for flip in curve.flips]
    [2.0]
    """

    variable: str
    table: pd.DataFrame
    first: str = "first"
    second: str = "second"

    @property
    def runs(self) -> list[float]:
        """The scales at which the model was run."""
        return sorted(set(self.table["run_at"]))

    @property
    def intervals(self) -> np.ndarray:
        """The ends of the 95 % interval of the log Bayes factor, for each scale."""
        columns = ["log_bayes_factor", "standard_error", "degrees_of_freedom"]
        return np.array([Evidence(*row).interval() for row in self.table[columns].to_numpy()])

    @property
    def settled(self) -> np.ndarray:
        """Whether that interval leaves zero out, for each scale."""
        low, high = self.intervals.T
        found: np.ndarray = (low > 0) | (high < 0)
        return found

    @property
    def flips(self) -> list[float]:
        """The scales at which the data begin to favour the other model, between two of the table.

        Only settled ones count: with a very narrow prior two models are nearly the same, and which
        of them is favoured means nothing. Between them the log Bayes factor is taken to be linear
        in the logarithm of the scale.
        """
        rows = self.table[self.settled]
        place, value = np.log(rows["scale"].to_numpy()), rows["log_bayes_factor"].to_numpy()
        found = []
        for left in range(len(value) - 1):
            here, there = value[left], value[left + 1]
            if here * there < 0:
                step = (place[left + 1] - place[left]) * here / (here - there)
                found.append(float(np.exp(place[left] + step)))
        return found

    def __str__(self) -> str:
        value = self.table["log_bayes_factor"]
        low, high = (self.table.loc[where] for where in (value.idxmin(), value.idxmax()))
        scales = self.table["scale"]
        lines = [
            f"With the scale of the prior of {self.variable} times {scales.iloc[0]:g} to "
            f"{scales.iloc[-1]:g}, the log Bayes factor of {self.first} against {self.second} is "
            f"between {_shown(low)} (at {low['scale']:g}) and {_shown(high)} (at "
            f"{high['scale']:g})."
        ]
        if self.flips:
            where = ", ".join(f"{flip:.3g}" for flip in self.flips)
            lines.append(f"The data favour the other model beyond a scale of {where}.")
        else:
            settled = value[self.settled]
            better = self.first if (settled > 0).all() else self.second
            words = f"The data favour {better} wherever the order is settled"
            lines.append(
                f"{words}." if len(settled) else "The order is not settled at any of them."
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, and the curve as a table."""
        rows = [
            (
                f"{row['scale']:g}",
                _shown(row),
                "run" if row["scale"] == row["run_at"] else f"from {row['run_at']:g}",
            )
            for _, row in self.table.iterrows()
        ]
        columns = ["factor on the scale", "log Bayes factor", "draws"]
        return box(paragraph(self), table(columns, rows, numbers=(0, 1)))


def sensitivity_curve(
    model: pm.Model,
    against: Any,
    scales: Mapping[str, Sequence[float]],
    *,
    names: tuple[str, str] = ("first", "second"),
    random_seed: int | Sequence[int] | None = None,
    **sample_kwargs: Any,
) -> SensitivityCurve:
    """Return the Bayes factor of a model against another over a range of scales of a prior.

    Parameters
    ----------
    model
        The model whose prior is scaled.
    against
        The other model, which stays as it is: a model, a result, or an Evidence.
    scales
        The name of one variable, and the factors on the scale of its prior, as in
        :func:`pymc_arm.sensitivity`: ``{"delta": np.geomspace(0.1, 10, 9)}``.
    names
        What to call the models.
    random_seed
        One seed for everything.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`.

    Returns
    -------
    SensitivityCurve
        Print it for an answer in words; :func:`pymc_arm.plots.plot_sensitivity_curve` draws it.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_arm
    >>> def build(scale):
    ...     with pm.Model() as model:
    ...         mu = pm.Normal("mu", 0, 1) if scale else 0.0
    ...         y = pm.Normal("y", mu, 1, observed=[1.5, 1.0, 2.0])
    ...     return model
    >>> curve = pymc_arm.sensitivity_curve(
    ...     build(True), build(False), {"mu": [0.5, 1, 10, 20]}, random_seed=1, progressbar=False
    ... )
    >>> curve.table["log_bayes_factor"].round(1).tolist()
    [1.2, 1.8, 0.5, -0.2]
    >>> [round(flip, -1) for flip in curve.flips]  # exactly 16.8
    [20.0]
    """
    model = find_model(model)
    name, factors = _check(model, scales)
    seed = [] if random_seed is None else [int(part) for part in np.atleast_1d(random_seed)]
    other = against
    if not isinstance(against, Evidence):
        options = {**sample_kwargs, "random_seed": [*seed, 0]} if seed else sample_kwargs
        known = not hasattr(against, "attrs") or isinstance(against, pm.Model)
        other = run_models({names[1]: against}, options if known else {})[names[1]]
    reference = read_evidence(other)
    found: dict[float, tuple[float, Evidence, float]] = {}
    at, number = min(factors, key=lambda factor: abs(math.log(factor))), 0
    while True:
        number += 1
        own = {**sample_kwargs, "random_seed": [*seed, number]} if seed else sample_kwargs
        scaled = scale_prior(model, name, at)
        result = sample(scaled, **own)
        freedom = read_evidence(result).degrees_of_freedom
        rows = sensitivity(result, scaled, {name: [factor / at for factor in factors]})
        for factor, (_, row) in zip(factors, rows.iterrows(), strict=True):
            error = float(row["standard_error"])
            if row["reliable"] and (factor not in found or error < found[factor][0]):
                found[factor] = error, Evidence(float(row["log_evidence"]), error, freedom), at
        if at not in found:  # few draws: the run itself is all there is
            found[at] = math.inf, read_evidence(result), at
        missing = [factor for factor in factors if factor not in found]
        if not missing:
            break
        # The middle of those that are missing on one side: it covers the most of them.
        side = [factor for factor in missing if factor > at] or missing
        at = side[len(side) // 2]
    made = []
    for factor in factors:
        _, own_evidence, run_at = found[factor]
        difference = subtract(own_evidence, reference)
        made.append(
            {
                "scale": factor,
                "log_bayes_factor": difference.log_evidence,
                "standard_error": difference.standard_error,
                "degrees_of_freedom": difference.degrees_of_freedom,
                "run_at": run_at,
            }
        )
    return SensitivityCurve(name, pd.DataFrame(made), names[0], names[1])


def scale_prior(model: pm.Model, name: str, factor: float) -> pm.Model:
    """Return a model with the scale of a variable's prior multiplied.

    The variable of that name has the prior that it had; wherever it is used, what is used is
    c + factor (x - c), with c the center of its prior.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_arm.comparison.sensitivity_curve import scale_prior
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 1.0, 1.0), 1.0, observed=0.0)
    >>> scaled = scale_prior(model, "x", 3.0)
    >>> round(float(scaled.compile_logp()({"x": 2.0})), 3)  # y ~ Normal(4, 1)
    -10.338
    """
    center = find_center(model[name])
    if factor == 1.0:
        return model
    fgraph, memo = fgraph_from_model(model)
    variable = memo[model[name]]
    clients = [(node, place) for node, place in fgraph.clients[variable] if _is_used_by(node)]
    if not isinstance(center, float):
        center = find_center(variable.owner.inputs[0])
    scaled = center + factor * (variable - center)
    for node, place in clients:
        fgraph.change_node_input(node, place, scaled.astype(variable.type.dtype))
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _is_used_by(node: Any) -> bool:
    """Whether a client of a variable is a node of the model, and not the end of its graph."""
    return hasattr(node, "op") and type(node.op).__name__ != "Output"


def _check(model: pm.Model, scales: Mapping[str, Sequence[float]]) -> tuple[str, list[float]]:
    if not isinstance(scales, Mapping) or len(scales) != 1:
        raise TypeError(
            f"scales={scales!r} must name one variable, as in {{'delta': [0.5, 1, 2]}}."
        )
    ((name, given),) = scales.items()
    free = [rv.name for rv in model.free_RVs]
    if name not in free:
        raise ValueError(f"scales names {name!r}, which is not a free variable. Those are {free}.")
    try:
        factors = sorted({float(factor) for factor in np.atleast_1d(np.asarray(given, float))})
    except (TypeError, ValueError):
        factors = []
    if not factors or not all(0 < factor < math.inf for factor in factors):
        raise ValueError(
            f"scales[{name!r}]={given!r} must be positive factors, such as [0.5, 1, 2]."
        )
    return name, factors


def _shown(row: pd.Series) -> str:
    freedom = float(row["degrees_of_freedom"])
    return summarize(Evidence(row["log_bayes_factor"], row["standard_error"], freedom))
