"""Whole numbers that are computed from a variable near the end of its support.

Where p is in (0, 1), floor(5 p) is at most 4, and may be the index of a table of five. A run works
with the logit of p, of which the sigmoid is 1.0 from 37 on: floor(5 p) is 5 there, which is no
index. Beta(0.1, 0.1) has 2 % of its mass there. So what is rounded to a whole number is computed
from coordinates that are kept from the end, by so little that hardly any mass is between.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import (
    CircularTransform,
    IntervalTransform,
    LogOddsTransform,
    LogTransform,
    Transform,
)
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import (
    Cast,
    Ceil,
    Floor,
    IntDiv,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    Trunc,
)
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

__all__ = ["inner_range", "keep_inside"]

ROUNDING = (Ceil, Floor, IntDiv, RoundHalfAwayFromZero, RoundHalfToEven, Trunc)
# sigmoid(36) is the largest number below one but one, and exp(-700) is still no zero.
BELOW_ONE, ABOVE_ZERO = 36.0, -700.0
# The ends of an interval are sums: 1000 + 20 sigmoid(30) is still below 1020.
WITHIN_INTERVAL = 30.0
WITHIN_CIRCLE = np.pi - 1e-12


def inner_range(transform: Transform | None) -> tuple[float, float]:
    """Return between which values of a transform its variable is not rounded to an end."""
    if isinstance(transform, LogOddsTransform):
        return ABOVE_ZERO, BELOW_ONE
    if isinstance(transform, LogTransform):
        return ABOVE_ZERO, np.inf
    if isinstance(transform, IntervalTransform):
        return -WITHIN_INTERVAL, WITHIN_INTERVAL
    if isinstance(transform, CircularTransform):
        return -WITHIN_CIRCLE, WITHIN_CIRCLE
    return -np.inf, np.inf


def keep_inside(
    graphs: Sequence[TensorVariable], model: pm.Model, values: Sequence[TensorVariable]
) -> list[TensorVariable]:
    """Return graphs in which what is rounded is computed from values that are kept from an end.

    Parameters
    ----------
    graphs
        Graphs over the values.
    model
        Whose transforms tell where the ends are.
    values
        The values of its free variables, in their order.
    """
    bounds = [inner_range(model.rvs_to_transforms.get(rv)) for rv in model.free_RVs]
    ranges = {v: b for v, b in zip(values, bounds, strict=True) if np.isfinite(b).any()}
    if not ranges:
        return list(graphs)
    found = [
        variable
        for variable in ancestors(graphs)
        if variable.owner is not None
        and _rounds(variable.owner)
        and not ranges.keys().isdisjoint(ancestors([variable]))
    ]
    if not found:
        return list(graphs)
    inner = {v: pt.clip(v, *b).astype(v.type.dtype) for v, b in ranges.items()}
    copies = graph_replace(found, inner, strict=False)
    return _with_copies(graphs, dict(zip(found, copies, strict=True)))


def _with_copies(
    graphs: Sequence[TensorVariable], copies: Mapping[Variable, Variable]
) -> list[TensorVariable]:
    """Return graphs with copies of some of their variables."""
    # PyTensor's graph_replace loses count where one of these is an ancestor of another.
    replaced: dict[Variable, Variable] = dict(copies)
    for node in toposort(list(graphs), blockers=copies.keys()):
        inputs = [replaced.get(one, one) for one in node.inputs]
        if any(one is not other for one, other in zip(inputs, node.inputs, strict=True)):
            changed = node.clone_with_new_inputs(inputs, strict=False)
            replaced.update(zip(node.outputs, changed.outputs, strict=True))
    return [replaced.get(graph, graph) for graph in graphs]


def _rounds(node: Apply) -> bool:
    """Whether a node makes whole numbers of others."""
    if not isinstance(node.op, Elemwise):
        return False
    operation = node.op.scalar_op
    if not _is_float(node.inputs[0]):
        return False
    if isinstance(operation, Cast):
        return not _is_float(node.outputs[0])
    return isinstance(operation, ROUNDING)


def _is_float(variable: Variable) -> bool:
    return str(variable.type.dtype).startswith("float")
