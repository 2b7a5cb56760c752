"""Entries of the table for slices, indices and joins, also where each particle has its own.

Labels and missing values lead to indices that differ from particle to particle.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Join, Split
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor

from pymc_arm.models.graph.operations import (
    array_function,
    batch_shape,
    core_function,
    perform_function,
)
from pymc_arm.models.graph.program import ArrayFunction

__all__: list[str] = []


@array_function.register(Subtensor)
def _subtensor(operation: Subtensor, node: Apply) -> ArrayFunction:
    """Return a function that slices, with the symbolic parts of the slices as arguments."""
    entries = operation.idx_list
    if entries is None or not all(isinstance(entry, slice) for entry in entries):
        return perform_function(node)
    bounds = [(entry.start, entry.stop, entry.step) for entry in entries]
    given = [tuple(bound is not None for bound in entry) for entry in bounds]

    def take(array: np.ndarray, *bounds: Any) -> Sequence[np.ndarray]:
        values = iter(bounds)
        slices = (
            slice(*(int(next(values)) if present else None for present in entry)) for entry in given
        )
        return (array[tuple(slices)],)

    return take


@core_function.register(Join)
def _join(core: Join, node: Apply) -> ArrayFunction | None:
    # Up to PyTensor 2 the axis is the first input; later it is a part of the operation.
    own_axis = hasattr(core, "axis")
    cores = {len(axes) for axes in node.op.inputs_sig[0 if own_axis else 1 :]}
    if cores != {1}:
        return None
    return functools.partial(_concatenate, None) if own_axis else _concatenate


@core_function.register(Split)
def _split(core: Split, node: Apply) -> ArrayFunction | None:
    if len(node.op.inputs_sig[0]) != 1:
        return None
    own_axis = hasattr(core, "axis")  # as of Join
    return _cut if own_axis else lambda array, axis, sizes: _cut(array, sizes)


@core_function.register(AdvancedSubtensor)
def _look_up(core: AdvancedSubtensor, node: Apply) -> ArrayFunction | None:
    signature = node.op.inputs_sig
    integers = all(i.type.dtype.startswith(("int", "uint")) for i in node.inputs[1:])
    same = len({len(axes) for axes in signature[1:]}) == 1
    # A view of only some axes would need the slices between them.
    whole = len(signature[0]) == len(node.inputs) - 1 and integers and same
    return functools.partial(_gather, len(signature[1])) if whole else None


@core_function.register(Subtensor)
def _look_up_row(core: Subtensor, node: Apply) -> ArrayFunction | None:
    signature = node.op.inputs_sig
    if len(signature) != 2 or signature[1] != ():
        return None
    first_only = len(signature[0]) == 2 and len(node.op.outputs_sig[0]) == 1
    return _gather_rows if first_only and core.idx_list[0] is not None else None


@core_function.register(AdvancedIncSubtensor)
def _put(core: AdvancedIncSubtensor, node: Apply) -> ArrayFunction | None:
    if not core.set_instead_of_inc:
        return None
    vectors = [len(axes) for axes in node.op.inputs_sig] == [1, 1, 1]
    index = node.inputs[2].type
    one_mask = all(index.broadcastable[:-1]) or index.dtype != "bool"
    return _scatter if vectors and one_mask else None


def _concatenate(axis: np.ndarray | None, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    batch = batch_shape(arrays, [1] * len(arrays))
    return (np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in arrays], axis=-1),)


def _cut(array: np.ndarray, sizes: np.ndarray) -> Sequence[np.ndarray]:
    return np.split(array, np.cumsum(sizes.reshape(-1))[:-1], axis=-1)


def _gather(core: int, table: np.ndarray, *indices: np.ndarray) -> Sequence[np.ndarray]:
    """Look up table[b, i[b], j[b], ...] for each element b of a batch."""
    batch = batch_shape([table, *indices], [len(indices), *[core] * len(indices)])
    table = np.broadcast_to(table, (*batch, *table.shape[table.ndim - len(indices) :]))
    places = [place.reshape(place.shape + (1,) * core) for place in np.indices(batch, sparse=True)]
    return (table[(*places, *indices)],)


def _gather_rows(table: np.ndarray, index: np.ndarray) -> Sequence[np.ndarray]:
    """Look up the row table[b, i[b]] for each element b of a batch."""
    batch = batch_shape([table, index], [2, 0])
    table = np.broadcast_to(table, (*batch, *table.shape[-2:]))
    return (table[(*np.indices(batch, sparse=True), index)],)


def _scatter(array: np.ndarray, values: np.ndarray, index: np.ndarray) -> Sequence[np.ndarray]:
    """Set array[b, i[b]] to values[b] for each element b of a batch."""
    if index.dtype == bool:  # a mask, the same for all
        index = np.flatnonzero(index.reshape(-1))
    batch = batch_shape([array, values, index], [1, 1, 1])
    result = np.array(np.broadcast_to(array, (*batch, array.shape[-1])))
    width = max(values.shape[-1], index.shape[-1])
    index = np.broadcast_to(index, (*batch, width))
    np.put_along_axis(result, index, np.broadcast_to(values, (*batch, width)), axis=-1)
    return (result,)
