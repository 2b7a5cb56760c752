"""Some elements of a graph, computed without the others.

PyTensor moves slices towards the inputs of a graph, but not arrays of indices: of a vector of terms
it would compute all, and pick. Here each operation that works element by element is applied to what
was picked from its arguments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.forms import joined_parts
from pymc_arm.models.graph.indexing import AdvancedSubtensor1, constant_index
from pymc_arm.models.graph.shapes import fix_shapes

__all__ = ["LOOK_UPS", "pick", "pick_elements"]

# Indices of rows, which are one operation in PyTensor 3 and another one in PyTensor 2.
LOOK_UPS = (AdvancedSubtensor, AdvancedSubtensor1)
# For each axis of an array the places along it, all of as many dimensions as the result has.
_Indices = tuple[np.ndarray, ...]


def pick_elements(graph: TensorVariable, places: np.ndarray) -> TensorVariable:
    """Return some elements of a vector, without computing the others where that can be done.

    Parameters
    ----------
    graph
        A vector whose inputs have fixed shapes.
    places
        Of the elements.

    Examples
    --------
    >>> import numpy as np, pytensor.tensor as pt
    >>> x = pt.tensor("x", dtype="float64", shape=(3,))
    >>> picked = pick_elements(pt.exp(x) * np.array([1.0, 2.0, 3.0]), np.array([2, 0]))
    >>> picked.eval({x: np.zeros(3)}).tolist()
    [3.0, 1.0]
    """
    inputs = [v for v in ancestors([graph]) if v.owner is None and not isinstance(v, Constant)]
    (fixed,) = fix_shapes(inputs, [graph])
    return pick(fixed, (np.asarray(places, dtype=np.int64),))


def pick(graph: TensorVariable, indices: Sequence[np.ndarray]) -> TensorVariable:
    """Return the elements of an array at places along each axis, as indexing with these would.

    Parameters
    ----------
    graph
        An array without shapes in its graph (:func:`~pymc_arm.models.graph.shapes.fix_shapes`).
    indices
        For each axis, of the same number of dimensions each, none counted from the end.
    """
    shape = np.broadcast_shapes(*(one.shape for one in indices))
    return _spread(_Picked()(graph, tuple(indices)), shape)


class _Picked:
    """Elements of the variables of a graph, each picked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], TensorVariable] = {}

    def __call__(self, graph: Variable, indices: _Indices) -> TensorVariable:
        """Return the elements of a variable at the places along its axes."""
        key = (graph, *((one.shape, one.tobytes()) for one in indices))
        if key not in self._known:
            self._known[key] = self._pick(graph, indices)
        return self._known[key]

    def _pick(self, graph: Any, indices: _Indices) -> TensorVariable:
        if isinstance(graph, Constant):
            return pt.constant(np.asarray(graph.data)[indices], dtype=graph.type.dtype)
        node = graph.owner
        found = None
        if node is not None and indices:
            found = self._elements_of_inputs(node.op, node.inputs, graph, indices)
        if found is not None:
            return found
        return _look_up(graph, indices) if indices else graph

    def _elements_of_inputs(
        self, op: Any, inputs: Sequence[Any], graph: Any, indices: _Indices
    ) -> TensorVariable | None:
        """Return the elements by those of the arguments, or None where that is not known."""
        dimensions = indices[0].ndim
        first = np.zeros((1,) * dimensions, dtype=np.int64)
        if isinstance(op, Elemwise):
            parts = [
                self(
                    given,
                    tuple(
                        first if alone else index
                        for alone, index in zip(given.type.broadcastable, indices, strict=True)
                    ),
                )
                for given in inputs
            ]
            return op(*parts)
        if isinstance(op, DimShuffle):
            (given,) = inputs
            own = [
                indices[op.new_order.index(axis)] if axis in op.new_order else first
                for axis in range(given.type.ndim)
            ]
            # A number has no axis along which it could be picked from.
            return self(given, tuple(own)) if own else given.dimshuffle(["x"] * dimensions)
        if isinstance(op, Sum):
            return self._of_sum(op, inputs[0], indices)
        if isinstance(op, SpecifyShape):
            return self(inputs[0], indices)
        if isinstance(op, Alloc):
            value = inputs[0]
            own = [
                first if alone else index
                for alone, index in zip(
                    value.type.broadcastable, indices[len(indices) - value.type.ndim :], strict=True
                )
            ]
            return self(value, tuple(own)) if own else value.dimshuffle(["x"] * dimensions)
        if isinstance(op, Join):
            return self._of_join(graph.owner, indices)
        if isinstance(op, Subtensor):
            return self._of_slice(op, inputs, indices)
        if isinstance(op, LOOK_UPS):
            rows = _rows_of(op, inputs)
            return None if rows is None else self(inputs[0], (rows[indices[0]], *indices[1:]))
        if isinstance(op, Reshape) and None not in (*graph.type.shape, *inputs[0].type.shape):
            if not inputs[0].type.ndim:
                return None
            flat = np.ravel_multi_index(np.broadcast_arrays(*indices), graph.type.shape)
            return self(inputs[0], tuple(np.unravel_index(flat, inputs[0].type.shape)))
        return None

    def _of_join(self, node: Any, indices: _Indices) -> TensorVariable | None:
        """Return the elements of each part, put in order."""
        axis = node.op.axis if hasattr(node.op, "axis") else node.inputs[0]
        axis = int(axis.data) if isinstance(axis, Constant) else axis
        parts = joined_parts(node)
        if not isinstance(axis, int) or any(part.type.shape[axis] is None for part in parts):
            return None
        ends = np.cumsum([part.type.shape[axis] for part in parts])
        starts = np.concatenate([[0], ends[:-1]])
        owners = np.searchsorted(ends, indices[axis], side="right")
        used = np.unique(owners)
        if len(used) == 1:
            own = list(indices)
            own[axis] = own[axis] - starts[used[0]]
            return self(parts[used[0]], tuple(own))
        together = np.broadcast_arrays(*indices, owners)
        shape = together[0].shape
        *flat, owners = (one.ravel() for one in together)
        picked, order = [], []
        for number in used:
            mine = np.flatnonzero(owners == number)
            own = [one[mine] for one in flat]
            own[axis] = own[axis] - starts[number]
            picked.append(_spread(self(parts[number], tuple(own)), mine.shape))
            order.append(mine)
        joined = pt.concatenate(picked)[np.argsort(np.concatenate(order))]
        return joined.reshape(shape) if len(shape) > 1 else joined

    def _of_slice(
        self, op: Subtensor, inputs: Sequence[Any], indices: _Indices
    ) -> TensorVariable | None:
        given = inputs[0]
        entries = constant_index(op, inputs[1:])
        if entries is None or None in given.type.shape:
            return None
        entries = (*entries, *[slice(None)] * (given.type.ndim - len(entries)))
        left, own = iter(indices), []
        for entry, length in zip(entries, given.type.shape, strict=True):
            if isinstance(entry, slice):
                start, _, step = entry.indices(length)
                own.append(start + step * next(left))
            else:
                own.append(np.full((1,) * indices[0].ndim, entry % length))
        return self(given, tuple(own))

    def _of_sum(self, op: Sum, given: Any, indices: _Indices) -> TensorVariable | None:
        axes = range(given.type.ndim) if op.axis is None else op.axis
        lengths = [given.type.shape[axis] for axis in axes]
        if None in lengths:
            return None
        dimensions = indices[0].ndim
        padded = iter(one.reshape(*one.shape, *[1] * len(lengths)) for one in indices)
        own = []
        for axis in range(given.type.ndim):
            if axis not in axes:
                own.append(next(padded))
                continue
            shape = [1] * (dimensions + len(lengths))
            shape[dimensions + list(axes).index(axis)] = given.type.shape[axis]
            own.append(np.arange(given.type.shape[axis]).reshape(shape))
        total = tuple(range(dimensions, dimensions + len(lengths)))
        return pt.sum(self(given, tuple(own)), axis=total)


def _rows_of(op: Any, inputs: Sequence[Any]) -> np.ndarray | None:
    """Return the rows that a fixed vector of indices looks up, if they are none from the end."""
    given = getattr(op, "idx_list", None)
    entries = indices_from_subtensor(inputs[1:], given) if given else inputs[1:]
    if len(entries) != 1 or not isinstance(entries[0], Constant):
        return None
    rows = np.asarray(entries[0].data)
    usable = rows.ndim == 1 and rows.dtype.kind in "iu" and (rows >= 0).all()
    return rows if usable else None


def _look_up(graph: TensorVariable, indices: _Indices) -> TensorVariable:
    """Return elements of an array that is computed as a whole, by as few indices as will do."""
    shape = graph.type.shape
    if _is_whole(shape, indices):
        return graph
    long = [axis for axis, length in enumerate(shape) if length != 1]
    dimensions = indices[0].ndim
    if len(long) != 1 or indices[long[0]].size == 1:
        return graph[indices]
    # One vector of indices is quicker than several, and so is its gradient.
    (axis,) = long
    index = indices[axis]
    picked = graph.dimshuffle(axis)[index.ravel()]
    return picked.reshape(index.shape) if dimensions > 1 else picked


def _is_whole(shape: Sequence[int | None], indices: _Indices) -> bool:
    """Whether indices are those of all elements, each in its place."""
    if len(shape) != indices[0].ndim:
        return False
    for axis, (length, index) in enumerate(zip(shape, indices, strict=True)):
        own = [1] * len(shape)
        own[axis] = -1
        if length is None or not np.array_equal(index, np.arange(length).reshape(own)):
            return False
    return True


def _spread(graph: TensorVariable, shape: tuple[int, ...]) -> TensorVariable:
    """Return elements repeated along axes of which they have one place only."""
    return graph if graph.type.shape == shape else pt.broadcast_to(graph, shape)
