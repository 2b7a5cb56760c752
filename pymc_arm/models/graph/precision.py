"""Arithmetic in double precision where PyTensor would take less.

A number of Python becomes a constant of the smallest type that holds it: 1e6 is one of single
precision, and so is its logarithm, to 7 digits. ``pm.Poisson("y", 1e6)`` multiplies that by counts
of a million, so that its log-density is wrong by 0.19. The constants themselves are exact, so what
is computed from them alone can be computed again in double precision.
"""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import Cast
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.forms import STRUCTURAL, scalar_kind

__all__ = ["widen"]

NARROW = ("float16", "float32")


def widen(graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return graphs in which what is computed from narrow numbers is computed in float64.

    What the model casts is rounded as it says. Operations that insist on types keep them.
    """
    wide: dict[Variable, Variable] = {}
    for node in toposort(list(graphs)):
        known = any(i in wide for i in node.inputs)
        computes = any(_is_narrow(o) for o in node.outputs) and not _only_moves(node)
        if known or computes:
            wide.update(_recompute(node, wide, computes=computes))
    return [wide.get(graph, graph) for graph in graphs]


def _recompute(
    node: Apply, wide: dict[Variable, Variable], *, computes: bool
) -> dict[Variable, Variable]:
    """Return what takes the place of the outputs of a node."""
    given = [wide.get(i, i) for i in node.inputs]
    if computes:
        given = [_as_double(i) for i in given]
    if all(new is old for new, old in zip(given, node.inputs, strict=True)):
        return {}
    try:
        again = node.op.make_node(*given)
        fits = all(
            new.type.ndim == old.type.ndim and (new.type.dtype == "float64" or new.type == old.type)
            for new, old in zip(again.outputs, node.outputs, strict=True)
            if isinstance(old.type, TensorType)
        )
    except (TypeError, ValueError, NotImplementedError):
        fits = False
    if not fits:
        given = [
            pt.cast(new, old.type.dtype) if _differs(new, old) else new
            for new, old in zip(given, node.inputs, strict=True)
        ]
        again = node.clone_with_new_inputs(given)
    return dict(zip(node.outputs, again.outputs, strict=True))


def _as_double(variable: Variable) -> Variable:
    if not _is_narrow(variable):
        return variable
    if isinstance(variable, Constant):
        return pt.constant(np.asarray(variable.data, dtype=np.float64), name=variable.name)
    return pt.cast(variable, "float64")


def _is_narrow(variable: Variable) -> bool:
    return isinstance(variable.type, TensorType) and variable.type.dtype in NARROW


def _only_moves(node: Apply) -> bool:
    """Whether a node casts numbers or puts them elsewhere, without computing any."""
    return isinstance(node.op, STRUCTURAL) or scalar_kind(node) is Cast


def _differs(new: Variable, old: Variable) -> bool:
    return isinstance(old.type, TensorType) and new.type.dtype != old.type.dtype
