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
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.indexing import AdvancedSubtensor1
from pymc_arm.models.graph.shapes import fix_shapes

__all__ = ["pick_elements"]

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
    return _Picked()(fixed, (np.asarray(places, dtype=np.int64),))


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
            found = self._through(node.op, node.inputs, graph, indices)
        if found is not None:
            return found
        return graph[indices] if indices else graph

    def _through(
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
        if isinstance(op, LOOK_UPS):
            rows = _rows_of(op, inputs)
            return None if rows is None else self(inputs[0], (rows[indices[0]], *indices[1:]))
        if isinstance(op, Reshape) and None not in (*graph.type.shape, *inputs[0].type.shape):
            if not inputs[0].type.ndim:
                return None
            flat = np.ravel_multi_index(np.broadcast_arrays(*indices), graph.type.shape)
            return self(inputs[0], tuple(np.unravel_index(flat, inputs[0].type.shape)))
        return None

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
