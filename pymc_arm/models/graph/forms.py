"""What a PyTensor graph is, by its form: a constant, one plus something, a part of a join."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, get_idx_list
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "STRUCTURAL",
    "are_equal",
    "is_constant",
    "joined_parts",
    "last_slice",
    "minus_one",
    "opposite_of",
    "rebuild",
    "scalar_kind",
]

# Operations that only put elements of their first input elsewhere.
STRUCTURAL = (
    AdvancedSubtensor,
    # PyTensor 3 has no operation of its own for one vector of indices.
    getattr(subtensor, "AdvancedSubtensor1", AdvancedSubtensor),
    Alloc,
    DimShuffle,
    Reshape,
    SpecifyShape,
    Subtensor,
)


def scalar_kind(node: Apply) -> type | None:
    """Return the kind of a node's scalar operation."""
    return type(node.op.scalar_op) if isinstance(node.op, Elemwise) else None


def is_constant(graph: Variable, number: float) -> bool:
    """Whether a graph is a constant, broadcast or not, of one number."""
    graph = _without_broadcast(graph)
    return isinstance(graph, Constant) and bool(np.all(np.asarray(graph.data) == number))


def _without_broadcast(graph: Variable) -> Variable:
    """Return what a graph repeats along more axes."""
    while graph.owner is not None:
        node = graph.owner
        if scalar_kind(node) is scalar.Second:
            graph = node.inputs[1]
        elif isinstance(node.op, Alloc) or getattr(node.op, "is_expand_dims", False):
            graph = node.inputs[0]
        else:
            break
    return graph


def are_equal(one: Variable, other: Variable) -> bool:
    """Whether two graphs are the same, or constants of one number."""
    one = _without_broadcast(one)
    if one is _without_broadcast(other):
        return True
    constants = isinstance(one, Constant) and np.size(one.data) == 1
    return constants and is_constant(other, float(np.asarray(one.data).reshape(-1)[0]))


def opposite_of(graph: Variable) -> TensorVariable | None:
    """Return z of a graph -z, which PyMC may have written as -1 * z."""
    node = graph.owner
    if node is None:
        return None
    if scalar_kind(node) is scalar.Neg:
        return node.inputs[0]
    if scalar_kind(node) is scalar.Mul:
        for number, factor in enumerate(node.inputs):
            if isinstance(factor, Constant) and bool(np.all(np.asarray(factor.data) < 0)):
                rest = [i for k, i in enumerate(node.inputs) if k != number]
                if not is_constant(factor, -1):
                    rest.append(pt.constant(-np.asarray(factor.data)))
                return rest[0] if len(rest) == 1 else pt.mul(*rest)
    return None


def rebuild(node: Apply, inner: TensorVariable | None) -> TensorVariable | None:
    """Return a structural operation on another first input."""
    if inner is None:
        return None
    rebuilt: TensorVariable = node.op.make_node(inner, *node.inputs[1:]).outputs[0]
    return rebuilt


def joined_parts(node: Apply) -> list[TensorVariable]:
    """Return what a node joins."""
    # Up to PyTensor 2 the axis is an input.
    return list(node.inputs if hasattr(node.op, "axis") else node.inputs[1:])


def last_slice(node: Apply) -> tuple[Any, Any] | None:
    """Return the ends of what a node takes of the last axis, if it takes all of the others."""
    *others, last = get_idx_list(node.inputs, node.op.idx_list)
    whole = all(isinstance(one, slice) and one == slice(None) for one in others)
    if not whole or len(others) != node.inputs[0].type.ndim - 1 or not isinstance(last, slice):
        return None
    ends = []
    for end in (last.start, last.stop):
        end = end.owner.inputs[0] if getattr(end, "owner", None) is not None else end
        ends.append(int(end.data) if isinstance(end, Constant) else end)
    return (ends[0], ends[1]) if last.step in (None, 1) else None


def minus_one(graph: TensorVariable) -> TensorVariable | None:
    """Return x of a graph 1 + x."""
    node = graph.owner
    if node is None or scalar_kind(node) is not scalar.Add or len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        if is_constant(one, 1):
            return other
    return None
