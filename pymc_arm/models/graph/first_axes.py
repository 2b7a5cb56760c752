"""Indices beside slices, as indices of the first axes: PyTensor can batch those.

``b[:, county]``, its gradient, and the gradient of a diagonal mix arrays of indices with slices.
PyTensor 2 batches no assignment to such places, and neither version looks them up where indices
are far apart or differ from particle to particle. With the indexed axes in front the slices go.
"""

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    indices_from_subtensor,
)
from pytensor.tensor.type import TensorType
from pytensor.tensor.type_other import MakeSlice, NoneTypeT
from pytensor.tensor.variable import TensorVariable

__all__ = ["index_first_axes"]


def index_first_axes(fgraph: FunctionGraph) -> None:
    """Rewrite a graph, in place, so that no index stands beside a slice."""
    in2out(_assign, ignore_newtrees=True).rewrite(fgraph)
    in2out(_look_up, ignore_newtrees=True).rewrite(fgraph)


@node_rewriter([AdvancedIncSubtensor])
def _assign(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Move the indexed axes of an array to the front, assign or add there, and move them back."""
    array, values = node.inputs[:2]
    entries = _entries(node, first=2)
    if entries is None:
        return None
    part = _slice(array, entries)
    forward, arrays, of_result = _axes(array, entries)
    values = pt.shape_padleft(values, len(of_result) - values.type.ndim)
    target = part.transpose(forward)[arrays]
    values = values.transpose(_inverse(of_result))
    changed = target.set(values) if node.op.set_instead_of_inc else target.inc(values)
    changed = changed.transpose(_inverse(forward))
    return [changed if part is array else part.set(changed)]


@node_rewriter([AdvancedSubtensor])
def _look_up(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Look up along the first axes, and put those of the result in their places."""
    array = node.inputs[0]
    entries = _entries(node, first=1)
    if entries is None:
        return None
    forward, arrays, of_result = _axes(array, entries)
    return [_slice(array, entries).transpose(forward)[arrays].transpose(of_result)]


def _entries(node: Apply, first: int) -> list[Any] | None:
    """Return the slices and arrays of an index, if it has both and all can be moved."""
    given = getattr(node.op, "idx_list", None)
    entries = indices_from_subtensor(node.inputs[first:], given) if given else node.inputs[first:]
    found = [_as_slice(entry) for entry in entries]
    whole_numbers = all(
        isinstance(entry, slice)
        or (isinstance(entry.type, TensorType) and entry.type.dtype.startswith(("int", "uint")))
        for entry in found
    )
    if not whole_numbers or not any(isinstance(entry, slice) for entry in found):
        return None
    return found


def _as_slice(entry: Any) -> Any:
    """Return the slice that a variable stands for, or what was given."""
    if isinstance(entry, Constant) and isinstance(entry.data, slice):
        return entry.data
    node = getattr(entry, "owner", None)
    if node is not None and isinstance(node.op, MakeSlice):
        return slice(*(None if isinstance(i.type, NoneTypeT) else i for i in node.inputs))
    return entry


def _slice(array: TensorVariable, entries: Sequence[Any]) -> TensorVariable:
    """Return what the slices leave of an array, with all of the axes that are indexed."""
    slices = tuple(entry if isinstance(entry, slice) else slice(None) for entry in entries)
    return array if all(one == slice(None) for one in slices) else array[slices]


def _axes(
    array: TensorVariable, entries: Sequence[Any]
) -> tuple[list[int], tuple[TensorVariable, ...], list[int]]:
    """Return the axes of an array with the indexed ones first, its indices, and the way back.

    The last are the axes of what was looked up along the first axes, in the order of the result.
    """
    indexed = [axis for axis, entry in enumerate(entries) if not isinstance(entry, slice)]
    others = [axis for axis in range(array.type.ndim) if axis not in indexed]
    arrays = tuple(entries[axis] for axis in indexed)
    count = max(entry.type.ndim for entry in arrays)
    # NumPy puts the axes of indices that are not next to each other first.
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    before = sum(axis < indexed[0] for axis in others) if together else 0
    rest = list(range(count, count + len(others)))
    return [*indexed, *others], arrays, [*rest[:before], *range(count), *rest[before:]]


def _inverse(axes: Sequence[int]) -> list[int]:
    return [axes.index(place) for place in range(len(axes))]
