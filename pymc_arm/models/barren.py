"""Free variables that no data depend on: they are left out, and drawn at the end.

A missing response, a prediction, a newcomer of a group: its prior integrates to one whatever its
parents are, so that log Z is that of the model without it. Such nodes of a graph are called barren
(Shachter 1986). Without them a model is smaller, and often has a gradient: missing counts are
discrete. Their draws, and what is computed from them, follow from those of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
from pymc.distributions.custom import CustomDistRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph_sampler import INTERPRETED
from pymc_arm.models.transforms import is_usual

__all__ = ["Barren", "leave_out_barren"]


@dataclass(frozen=True)
class Barren:
    """The model that is left, and how to draw what was left out.

    Attributes
    ----------
    names
        The variables that were left out.
    rest
        The model without them, and without the deterministics that need them.
    draw
        From a generator and draws of the other free variables, one a row, to draws of these and of
        their deterministics.
    """

    names: tuple[str, ...]
    rest: pm.Model
    draw: Callable[[np.random.Generator, Mapping[str, np.ndarray]], dict[str, np.ndarray]]

    @property
    def note(self) -> str:
        """What the plan says."""
        return f"drawn at the end: {', '.join(self.names)}, which no data depend on"


def leave_out_barren(model: pm.Model) -> Barren | None:
    """Return a model without the free variables that no data depend on, or None if it has none."""
    possible = {rv for rv in model.free_RVs if _is_normalized(model, rv)}
    others = [rv for rv in model.free_RVs if rv not in possible]
    needed = set(ancestors([*model.observed_RVs, *model.potentials, *others]))
    names = tuple(rv.name for rv in model.free_RVs if rv not in needed)
    kept = [rv for rv in model.free_RVs if rv in needed]
    if not names or not kept:
        return None
    out = {rv for rv in model.free_RVs if rv not in needed}
    later = [d for d in model.deterministics if out & set(ancestors([d]))]
    rest = pm.Model.__new__(pm.Model)
    rest.__dict__.update(model.__dict__)
    rest.free_RVs = kept
    rest.deterministics = [d for d in model.deterministics if d not in later]
    drawn = [rv for rv in model.free_RVs if rv in out]
    return Barren(names, rest, _draw_given(model, kept, [*drawn, *later]))


def _is_normalized(model: pm.Model, rv: TensorVariable) -> bool:
    """Whether a variable's own density is PyMC's, over all of its support, and can be drawn."""
    operation = rv.owner.op
    known = isinstance(operation, RandomVariable) and not isinstance(operation, CustomDistRV)
    # Those of vectors may be known up to a factor, which is corrected elsewhere.
    known = known and operation.ndim_supp == 0
    return known and is_usual(rv, model.rvs_to_transforms.get(rv))


def _draw_given(
    model: pm.Model, known: Sequence[TensorVariable], wanted: Sequence[TensorVariable]
) -> Callable[[np.random.Generator, Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return the function that draws variables, one row after another, given others."""
    inputs = [rv.clone() for rv in known]
    replaced = dict(zip(known, inputs, strict=True))
    # What is computed from data is computed from the data as they are.
    replaced |= {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    graphs = clone_replace(list(wanted), replaced)
    names = [variable.name for variable in wanted]
    generators = [
        v
        for v in ancestors(graphs)
        if isinstance(v, SharedVariable) and isinstance(v.type, RandomGeneratorType)
    ]
    own = [v.type() for v in generators]
    graphs = clone_replace(graphs, dict(zip(generators, own, strict=True)))
    compiled: list[Callable[..., list[np.ndarray]]] = []

    def draw(rng: np.random.Generator, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns = [np.asarray(draws[i.name]).astype(i.type.dtype) for i in inputs]
        streams = rng.spawn(len(own))
        with COMPILING:  # PyTensor's functions keep state during a call
            if not compiled:
                function = pytensor.function(
                    [*inputs, *own], graphs, mode=INTERPRETED, on_unused_input="ignore"
                )
                compiled.append(function)
            rows = [_row(compiled[0], row, streams) for row in zip(*columns, strict=True)]
        filled = _fill_rows(rows, graphs)
        return {name: np.stack(c) for name, c in zip(names, zip(*filled, strict=True), strict=True)}

    return draw


def _row(
    function: Callable[..., list[np.ndarray]],
    values: Sequence[np.ndarray],
    streams: Sequence[np.random.Generator],
) -> list[np.ndarray] | None:
    """Return one draw, or None if a parameter is beyond what can be drawn from."""
    # A function copies a generator, so each draw has one of its own.
    own = [np.random.default_rng(stream.integers(2**63, size=4)) for stream in streams]
    try:
        return function(*values, *own)
    except (ValueError, ArithmeticError):
        return None


def _fill_rows(
    rows: Sequence[list[np.ndarray] | None], graphs: Sequence[TensorVariable]
) -> list[list[np.ndarray]]:
    """Return rows with NaN, or zero for whole numbers, in place of those that are None."""
    good = next((row for row in rows if row is not None), None)
    if good is None:
        good = [np.zeros([n or 0 for n in graph.type.shape], graph.type.dtype) for graph in graphs]
    none = [np.full(a.shape, np.nan if a.dtype.kind == "f" else 0, a.dtype) for a in good]
    return [none if row is None else row for row in rows]
