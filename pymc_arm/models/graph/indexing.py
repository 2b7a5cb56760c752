"""Entries of the table for slices, indices and joins, also where each particle has its own.

Labels and missing values lead to indices that differ from particle to particle.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor import subtensor
from pytensor.tensor.basic import AllocEmpty, Join, Split
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)
from pytensor.tensor.type import TensorType
from scipy.sparse import csr_array

from pymc_arm.models.graph.operations import (
    array_function,
    batch_shape,
    core_function,
    perform_function,
)
from pymc_arm.models.graph.program import ArrayFunction, Single

__all__ = ["AdvancedSubtensor1", "constant_index"]

# PyTensor 3 has one operation for vectors and for other indices.
AdvancedSubtensor1 = getattr(subtensor, "AdvancedSubtensor1", AdvancedSubtensor)
AdvancedIncSubtensor1 = getattr(subtensor, "AdvancedIncSubtensor1", AdvancedIncSubtensor)


@array_function.register(Subtensor)
def _subtensor(operation: Subtensor, node: Apply) -> ArrayFunction:
    """Return a function that slices, with the symbolic parts of the slices as arguments."""
    entries = operation.idx_list
    index = constant_index(operation, node.inputs[1:])
    if index is not None and node.outputs[0].type.ndim:
        return Single(lambda array, *_: array[index])
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


@array_function.register(IncSubtensor)
def _change_part(operation: IncSubtensor, node: Apply) -> ArrayFunction:
    """Return a function that adds to a fixed part of an array, or replaces it."""
    index = constant_index(operation, node.inputs[2:])
    if index is None or node.inputs[0].type.dtype != node.outputs[0].type.dtype:
        return perform_function(node)

    def replace(array: np.ndarray, part: np.ndarray, *_: Any) -> np.ndarray:
        result = np.array(array)
        result[index] = part
        return result

    def add(array: np.ndarray, part: np.ndarray, *_: Any) -> np.ndarray:
        result = np.array(array)
        result[index] += part
        return result

    return Single(replace if operation.set_instead_of_inc else add)


def constant_index(operation: Any, inputs: Sequence[Variable]) -> tuple[Any, ...] | None:
    """Return the index of a part of an array, if it is known beforehand."""
    if not all(isinstance(variable, Constant) for variable in inputs):
        return None
    values = [variable.data for variable in inputs]
    return tuple(
        slice(*(None if bound is None else int(bound) for bound in (e.start, e.stop, e.step)))
        if isinstance(e, slice)
        else int(e)
        for e in indices_from_subtensor(values, operation.idx_list)
    )


@array_function.register(DimShuffle)
def _shuffle(operation: DimShuffle, node: Apply) -> ArrayFunction:
    """Return a function that exchanges, adds and drops axes."""
    kept = [axis for axis in operation.new_order if axis != "x"]
    order = [*kept, *(axis for axis in range(node.inputs[0].type.ndim) if axis not in kept)]
    whole = tuple(None if axis == "x" else slice(None) for axis in operation.new_order)
    index = (*whole, *[0] * (len(order) - len(kept)))
    if not whole:  # an element would be a number, not an array
        return perform_function(node)
    if order == sorted(order):
        return Single(lambda array: array[index])
    return Single(lambda array: array.transpose(order)[index])


@core_function.register(Join)
def _join(core: Join, node: Apply) -> ArrayFunction | None:
    # Up to PyTensor 2 the axis is the first input; later it is a part of the operation.
    own_axis = hasattr(core, "axis")
    cores = {len(axes) for axes in node.op.inputs_sig[0 if own_axis else 1 :]}
    if len(cores) != 1:
        return None
    (dimensions,) = cores
    if own_axis:
        return functools.partial(_concatenate, dimensions, core.axis)
    return functools.partial(_concatenate, dimensions)


@core_function.register(AllocEmpty)
def _allocate(core: AllocEmpty, node: Apply) -> ArrayFunction:
    def allocate(*lengths: np.ndarray) -> Sequence[np.ndarray]:
        batch = np.broadcast_shapes(*(np.shape(length) for length in lengths))
        sizes = [int(np.max(length, initial=0)) for length in lengths]
        if any(np.any(length != size) for length, size in zip(lengths, sizes, strict=True)):
            raise ValueError("the particles differ in the shapes of their arrays")
        return [np.empty((*batch, *sizes), core.dtype)]

    return allocate


@core_function.register(Split)
def _split(core: Split, node: Apply) -> ArrayFunction:
    dimensions = len(node.op.inputs_sig[0])
    if hasattr(core, "axis"):  # as of Join
        return lambda array, sizes: _cut(dimensions, array, core.axis, sizes)
    return functools.partial(_cut, dimensions)


@core_function.register(AdvancedSubtensor)
@core_function.register(AdvancedSubtensor1)
def _look_up(core: Any, node: Apply) -> ArrayFunction | None:
    signature = node.op.inputs_sig
    integers = all(i.type.dtype.startswith(("int", "uint")) for i in node.inputs[1:])
    same = len({len(axes) for axes in signature[1:]}) == 1
    slices = any(isinstance(entry, slice) for entry in getattr(core, "idx_list", None) or ())
    if integers and same and not slices:
        return functools.partial(_gather, len(signature[0]), len(signature[1]))
    if not _shared(node, first=1) or not _in_place(core, node, first=1):
        return None
    return functools.partial(_take, core, [len(axes) for axes in signature])


@core_function.register(Subtensor)
def _look_up_part(core: Subtensor, node: Apply) -> ArrayFunction | None:
    signature = node.op.inputs_sig
    if len(core.idx_list) == 1 and not isinstance(core.idx_list[0], slice):
        return functools.partial(_gather, len(signature[0]), 0)
    if not _same_elements(core, node, first=1):
        return None
    return functools.partial(_take, core, [len(axes) for axes in signature])


@core_function.register(IncSubtensor)
def _add_to_slice(core: IncSubtensor, node: Apply) -> ArrayFunction | None:
    if not _same_elements(core, node, first=2):
        return None
    return functools.partial(_put_at, core, [len(axes) for axes in node.op.inputs_sig])


def _same_elements(core: Any, node: Apply, first: int) -> bool:
    """Whether particles have the same indices, apart from bounds of slices, which must not differ.

    Slices of different lengths have no batch; what tries that is told so when it runs.
    """
    inputs, dimensions = iter(node.inputs[first:]), node.op.batch_ndim(node)
    for entry in core.idx_list:
        if isinstance(entry, slice):
            for bound in (entry.start, entry.stop, entry.step):
                if bound is not None:
                    next(inputs)
        elif not all(next(inputs).type.broadcastable[:dimensions]):
            return False
    return True


@core_function.register(AdvancedIncSubtensor)
@core_function.register(AdvancedIncSubtensor1)
def _put(core: Any, node: Apply) -> ArrayFunction | None:
    cores = [len(axes) for axes in node.op.inputs_sig]
    if _shared(node, first=2):
        return functools.partial(_put_at, core, cores) if _in_place(core, node, 2) else None
    vectors = cores == [1, 1, 1] and node.inputs[2].type.dtype != "bool"
    return functools.partial(_scatter, core.set_instead_of_inc) if vectors else None


def _shared(node: Apply, first: int) -> bool:
    """Whether all particles have the same indices."""
    dimensions = node.op.batch_ndim(node)
    return all(all(i.type.broadcastable[:dimensions]) for i in node.inputs[first:])


def _in_place(core: Any, node: Apply, first: int) -> bool:
    """Whether no slice lies between the indices: NumPy then moves their axes to the front."""
    entries = getattr(core, "idx_list", None) or node.inputs[first:]
    arrays = [number for number, entry in enumerate(entries) if not isinstance(entry, slice)]
    return arrays == list(range(arrays[0], arrays[-1] + 1)) if arrays else True


def _one_index(core: Any, batch: int, indices: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """Return the index that all particles share, with the axes of the particles before it."""
    first = []
    for index in indices:
        one = index[(0,) * batch]
        if index.size != one.size and np.any(index != one):
            raise ValueError("particles differ in the bounds of a slice")
        first.append(int(one) if one.ndim == 0 and one.dtype != bool else one)
    entries = getattr(core, "idx_list", None)
    inner = indices_from_subtensor(first, entries) if entries else tuple(first)
    return (slice(None),) * batch + tuple(inner)


def _take(core: Any, cores: Sequence[int], table: np.ndarray, *indices: np.ndarray) -> Any:
    """Look up table[b, i] for each element b of a batch."""
    batch = table.ndim - cores[0]
    shape = batch_shape([table, *indices], cores)
    taken = table[_one_index(core, batch, indices)]
    return (np.broadcast_to(taken, (*shape, *taken.shape[batch:])),)


def _put_at(
    core: Any, cores: Sequence[int], array: np.ndarray, values: np.ndarray, *indices: np.ndarray
) -> Sequence[np.ndarray]:
    """Set array[b, i] to values[b], or add them, for each element b of a batch."""
    batch = array.ndim - cores[0]
    shape = batch_shape([array, values, *indices], cores)
    result = np.array(np.broadcast_to(array, (*shape, *array.shape[batch:])))
    index = _one_index(core, batch, indices)
    target = result[index]
    missing = (1,) * (target.ndim - batch - cores[1])
    values = values.reshape(*values.shape[:batch], *missing, *values.shape[batch:])
    if core.set_instead_of_inc:
        result[index] = values
    elif not any(isinstance(entry, np.ndarray) and entry.dtype != bool for entry in index):
        result[index] += values
    else:
        _add_at(result, index, np.broadcast_to(values, target.shape))
    return (result,)


def _add_at(result: np.ndarray, index: tuple[Any, ...], values: np.ndarray) -> None:
    """Add values at an index where places may come more than once.

    For one vector of places, those of a place are added first, by one reduction for all particles.
    """
    vectors = [k for k, entry in enumerate(index) if not _is_whole(entry)]
    if len(vectors) != 1 or not isinstance(index[vectors[0]], np.ndarray):
        np.add.at(result, index, values)
        return
    (axis,) = vectors
    places = index[axis]
    if places.ndim != 1 or not len(places):
        np.add.at(result, index, values)
        return
    places = places % result.shape[axis]
    order = np.argsort(places, kind="stable")
    groups, starts = np.unique(places[order], return_index=True)
    ordered = np.take(values, order, axis=axis)
    sums = np.add.reduceat(ordered, starts, axis=axis, dtype=result.dtype)
    result[(*index[:axis], groups, *index[axis + 1 :])] += sums


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry == slice(None)


@array_function.register(AdvancedIncSubtensor)
@array_function.register(AdvancedIncSubtensor1)
def _add_to_groups(operation: Any, node: Apply) -> ArrayFunction:
    """Return PyTensor's own function, or a quicker one where values are added up in groups."""
    perform = perform_function(node)
    indices = node.inputs[2:]
    if operation.set_instead_of_inc or any(i.type.dtype == "bool" for i in _tensors(indices)):
        return perform
    entries = getattr(operation, "idx_list", None)
    is_float = node.outputs[0].type.dtype == node.inputs[1].type.dtype == "float64"
    latest: list[_Grouping] = []

    def add(array: np.ndarray, values: np.ndarray, *given: Any) -> Sequence[np.ndarray]:
        index = tuple(indices_from_subtensor(list(given), entries) if entries else given)
        if is_float and _is_vector(index) and np.shape(values) == (len(index[0]), *array.shape[1:]):
            # The places are those of the data, and the same at every call.
            if not (latest and latest[0].fits(index[0], len(array))):
                latest[:] = [_Grouping(index[0], len(array))]
            return (array + latest[0](values),)
        result = np.array(array)
        _add_at(result, index, np.broadcast_to(values, result[index].shape))
        return (result,)

    return add


class _Grouping:
    """Sums of the rows that belong to each place, as a product with a sparse matrix.

    Parameters
    ----------
    places
        Where each row belongs.
    count
        The number of places.
    """

    def __init__(self, places: np.ndarray, count: int) -> None:
        self._places, self._count = places, count
        rows = np.arange(len(places))
        entries = np.ones(len(places)), (places % count, rows)
        self._matrix = csr_array(entries, shape=(count, len(places)))

    def fits(self, places: np.ndarray, count: int) -> bool:
        """Whether this is the grouping of such places."""
        return places is self._places and count == self._count

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the sums, (count, ...)."""
        return (self._matrix @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])


def _is_vector(index: tuple[Any, ...]) -> bool:
    """Whether an index is one vector of places along the first axis."""
    return (
        len(index) == 1
        and isinstance(index[0], np.ndarray)
        and index[0].ndim == 1
        and len(index[0]) > 0
    )


def _tensors(variables: Sequence[Any]) -> list[Any]:
    return [variable for variable in variables if isinstance(variable.type, TensorType)]


def _concatenate(dimensions: int, axis: Any, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    batch = batch_shape(arrays, [dimensions] * len(arrays))
    wide = [np.broadcast_to(a, (*batch, *a.shape[a.ndim - dimensions :])) for a in arrays]
    return (np.concatenate(wide, axis=_last_axis(dimensions, axis)),)


def _cut(dimensions: int, array: np.ndarray, axis: Any, sizes: np.ndarray) -> Sequence[np.ndarray]:
    ends = np.cumsum(sizes.reshape(-1, sizes.shape[-1])[0])
    return np.split(array, ends[:-1], axis=_last_axis(dimensions, axis))


def _last_axis(dimensions: int, axis: Any) -> int:
    """Return an axis of the core, counted from the end."""
    return int(np.ravel(axis)[0]) % dimensions - dimensions


def _gather(
    dimensions: int, core: int, table: np.ndarray, *indices: np.ndarray
) -> Sequence[np.ndarray]:
    """Look up table[b, i[b], j[b], ...] for each element b of a batch."""
    batch = batch_shape([table, *indices], [dimensions, *[core] * len(indices)])
    table = np.broadcast_to(table, (*batch, *table.shape[table.ndim - dimensions :]))
    places = [place.reshape(place.shape + (1,) * core) for place in np.indices(batch, sparse=True)]
    return (table[(*places, *indices)],)


def _scatter(
    replace: bool, array: np.ndarray, values: np.ndarray, index: np.ndarray
) -> Sequence[np.ndarray]:
    """Set array[b, i[b]] to values[b], or add them, for each element b of a batch."""
    batch = batch_shape([array, values, index], [1, 1, 1])
    result = np.array(np.broadcast_to(array, (*batch, array.shape[-1])))
    width = max(values.shape[-1], index.shape[-1])
    index = np.broadcast_to(index, (*batch, width))
    values = np.broadcast_to(values, (*batch, width))
    if replace:
        np.put_along_axis(result, index, values, axis=-1)
    else:
        places = [place[..., None] for place in np.indices(batch, sparse=True)]
        np.add.at(result, (*places, index), values)
    return (result,)


@core_function.register(SortOp)
@core_function.register(ArgSortOp)
def _sort(core: SortOp | ArgSortOp, node: Apply) -> ArrayFunction:
    sort = np.sort if isinstance(core, SortOp) else np.argsort
    dimensions = len(node.op.inputs_sig[0])

    def sorted_along(values: np.ndarray, *axis: np.ndarray) -> Sequence[np.ndarray]:
        # Of one element of the batch, and the same for all; PyTensor 3 has it as an attribute.
        place = int(np.ravel(axis[0])[0]) if axis else core.axis
        return (sort(values, axis=place % dimensions - dimensions, kind=core.kind),)

    return sorted_along
