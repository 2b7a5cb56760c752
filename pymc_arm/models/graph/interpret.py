"""Evaluating a batched graph with NumPy, without compiling anything.

A graph that is batched over a thousand particles spends its time inside array operations, so an
interpreter that calls NumPy for each of them is within a small factor of compiled code and starts
at once, where numba takes 5 to 60 seconds for a model it has not seen. It needs every operation to
be one array operation. Some scalar functions and some batched ones have no such form in PyTensor
and get one here; a graph with any other (:attr:`Program.vectorized`) is better compiled.
"""

import contextlib
import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.scalar.basic import Add, Cast, Clip, Composite, Mul, Second
from pytensor.scalar.math import Softplus
from pytensor.scan.op import Scan
from pytensor.tensor.basic import AllocDiag, Join, Split
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.draws import draw_function
from pymc_arm.models.graph.program import ArrayFunction, Instruction, Program, serialized

__all__ = ["compile_with_numpy", "read_graph"]


def compile_with_numpy(
    inputs: Sequence[Variable], *outputs: TensorVariable, trusted: bool = False
) -> Program:
    """Return an interpreted function, with all rewrites that simplify and stabilise.

    A trusted graph loses what asserts that shapes agree, which is half of a gradient.
    """
    # Fused operations exist for compilers; here they would run element by element.
    query = RewriteDatabaseQuery(
        include=["fast_run", "py_only", *(["local_remove_all_assert"] if trusted else [])],
        exclude=["fusion", "inplace", "BlasOpt", "cxx_only", "numba"],
    )
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        function = pytensor.function(
            list(inputs),
            list(outputs),
            mode=Mode(linker="py", optimizer=query),
            on_unused_input="ignore",
        )
    return read_graph(function.maker.fgraph)


def read_graph(fgraph: FunctionGraph) -> Program:
    """Return a graph as array operations."""
    places: dict[Variable, int] = {variable: k for k, variable in enumerate(fgraph.inputs)}
    constants: dict[int, Any] = {}
    instructions: list[Instruction] = []
    vectorized = True

    def place_of(variable: Variable) -> int:
        if variable not in places:
            places[variable] = len(places)
            constants[places[variable]] = variable.data
        return places[variable]

    for node in fgraph.toposort():
        sources = tuple(place_of(variable) for variable in node.inputs)
        for variable in node.outputs:
            places[variable] = len(places)
        function = _array_function(node)
        vectorized &= function is not None
        targets = tuple(places[variable] for variable in node.outputs)
        execute = function or _perform(node)
        instructions.append(Instruction(execute, sources, targets, type(node.op)))
    outputs = [place_of(variable) for variable in fgraph.outputs]
    return Program(range(len(fgraph.inputs)), outputs, constants, instructions, vectorized)


def _array_function(node: Apply) -> ArrayFunction | None:
    """Return a function from the inputs of a node to its outputs, if no loop is needed."""
    if isinstance(node.op, Elemwise):
        return _elementwise(node)
    if isinstance(node.op, Blockwise):
        return _batched(node)
    if isinstance(node.op, Subtensor):
        return _subtensor(node)
    if isinstance(node.op, RandomVariable):
        return draw_function(node) or _perform(node)
    if isinstance(node.op, Scan) or type(node.op).__name__ == "OpFromGraph":
        return None
    perform = _perform(node)
    if isinstance(node.op, OpFromGraph):  # it has a compiled function, which keeps its arrays
        return serialized(lambda *arrays: [np.array(array) for array in perform(*arrays)])
    return perform


def _perform(node: Apply) -> ArrayFunction:
    """Return PyTensor's own implementation of a node."""
    node.op.prepare_node(node, storage_map=None, compute_map=None, impl="py")

    def perform(*arrays: Any) -> Sequence[Any]:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, list(arrays), storage)
        return [cell[0] for cell in storage]

    return perform


def _subtensor(node: Apply) -> ArrayFunction:
    """Return a function that slices, with the symbolic parts of the slices as arguments."""
    entries = node.op.idx_list
    if any(isinstance(entry, int) for entry in entries) or node.op.idx_list is None:
        return _perform(node)
    parts = []
    for entry in entries:
        if not isinstance(entry, slice):
            return _perform(node)
        bounds = (entry.start, entry.stop, entry.step)
        parts.append(tuple(bound is not None for bound in bounds))

    def take(array: np.ndarray, *bounds: Any) -> Sequence[np.ndarray]:
        values = iter(bounds)
        slices = (
            slice(*(int(next(values)) if given else None for given in part)) for part in parts
        )
        return (array[tuple(slices)],)

    return take


def _elementwise(node: Apply) -> ArrayFunction | None:
    function = _scalar_function(node.op.scalar_op, len(node.inputs))
    if function is None:
        return None
    dtype = np.dtype(node.outputs[0].type.dtype)

    def call(*arrays: Any) -> Sequence[Any]:
        result = np.asarray(function(*arrays))
        return (result if result.dtype == dtype else result.astype(dtype),)

    return call


def _scalar_function(operation: Any, count: int) -> ArrayFunction | None:
    """Return what applies a scalar operation to whole arrays."""
    kind = type(operation)
    if kind is Softplus:
        return functools.partial(np.logaddexp, 0.0)
    if kind is Clip:
        return np.clip
    if kind is Cast:
        return np.asarray
    if kind is Second:
        return _fill
    if kind is Composite:
        return _composite(operation)
    if kind in (Add, Mul) and count > 2:
        # NumPy's own functions take two arrays; PyTensor's sums and products any number.
        return _reduction(np.add if kind is Add else np.multiply)
    if getattr(operation, "nfunc_spec", None) and operation.nfunc_spec[1:] == (count, 1):
        # Such as "scipy.special.gammaln".
        module, _, attribute = operation.nfunc_spec[0].rpartition(".")
        return getattr(importlib.import_module(module or "numpy"), attribute)
    return None


def _composite(operation: Composite) -> ArrayFunction | None:
    """Return what runs the small graph inside of a fused operation, node by node."""
    inner = operation.fgraph
    nodes = [(node, _scalar_function(node.op, len(node.inputs))) for node in inner.toposort()]
    if len(inner.outputs) > 1 or any(function is None for _, function in nodes):
        return None

    def run(*arrays: Any) -> Any:
        values = dict(zip(inner.inputs, arrays, strict=True))
        for node, function in nodes:
            assert function is not None
            sources = [v.data if isinstance(v, Constant) else values[v] for v in node.inputs]
            values[node.outputs[0]] = function(*sources)
        return values[inner.outputs[0]]

    return run


def _fill(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, np.broadcast_shapes(np.shape(shape), np.shape(values)))


def _reduction(function: ArrayFunction) -> ArrayFunction:
    return lambda *arrays: functools.reduce(function, arrays)


def _batched(node: Apply) -> ArrayFunction | None:
    """Return an array function for the indexing that labels and missing values lead to."""
    core, signature = node.op.core_op, node.op.inputs_sig
    kind = type(core).__name__  # the module of these two differs between PyTensor's majors
    if kind == "Cholesky":
        return functools.partial(_cholesky, core.lower)
    if kind == "SolveTriangular" and not core.unit_diagonal:
        return functools.partial(_solve_triangular, core.lower, core.b_ndim)
    if isinstance(core, AllocDiag) and core.offset == 0 and (core.axis1, core.axis2) == (0, 1):
        return _allocate_diagonal
    if isinstance(core, Dot):
        return _product if [len(axes) for axes in signature] == [2, 2] else None
    # Up to PyTensor 2 the axis is an input of these two; later it is a part of the operation.
    own_axis = hasattr(core, "axis")
    function: ArrayFunction
    if isinstance(core, Join):
        cores = [len(axes) for axes in signature[0 if own_axis else 1 :]]
        function = functools.partial(_concatenate, None) if own_axis else _concatenate
        return function if set(cores) == {1} else None
    if isinstance(core, Split):
        function = _split if own_axis else lambda array, axis, sizes: _split(array, sizes)
        return function if len(signature[0]) == 1 else None
    if isinstance(core, AdvancedSubtensor):
        indices = len(node.inputs) - 1
        integers = all(i.type.dtype.startswith(("int", "uint")) for i in node.inputs[1:])
        same = len({len(axes) for axes in signature[1:]}) == 1
        # A view of only some axes would need the slices between them.
        whole = len(signature[0]) == indices and integers and same
        return functools.partial(_gather, len(signature[1])) if whole else None
    if isinstance(core, Subtensor) and len(signature) == 2 and signature[1] == ():
        first_only = len(signature[0]) == 2 and len(node.op.outputs_sig[0]) == 1
        return _gather_rows if first_only and core.idx_list[0] is not None else None
    if isinstance(core, AdvancedIncSubtensor) and core.set_instead_of_inc:
        vectors = [len(axes) for axes in signature] == [1, 1, 1]
        index = node.inputs[2].type
        one_mask = all(index.broadcastable[:-1]) or index.dtype != "bool"
        return _scatter if vectors and one_mask else None
    return None


def _cholesky(lower: bool, matrices: np.ndarray) -> Sequence[np.ndarray]:
    """Factor a batch of matrices; those that are not positive definite become NaN."""
    try:
        factors = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.full(matrices.shape, np.nan)
        for place in np.ndindex(matrices.shape[:-2]):
            with contextlib.suppress(np.linalg.LinAlgError):
                factors[place] = np.linalg.cholesky(matrices[place])
    return (factors if lower else np.swapaxes(factors, -1, -2),)


def _solve_triangular(
    lower: bool, width: int, factors: np.ndarray, right: np.ndarray
) -> Sequence[np.ndarray]:
    """Solve a batch of triangular systems by substitution, row by row for all at once."""
    right = right if width == 2 else right[..., None]
    batch = _batch_shape([factors, right], [2, 2])
    solution = np.empty((*batch, *right.shape[-2:]))
    size = factors.shape[-1]
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        total = np.matmul(factors[..., row : row + 1, known], solution[..., known, :])
        value = right[..., row, :] - total[..., 0, :]
        solution[..., row, :] = value / factors[..., row, row, None]
    return (solution if width == 2 else solution[..., 0],)


def _allocate_diagonal(vectors: np.ndarray) -> Sequence[np.ndarray]:
    result = np.zeros((*vectors.shape, vectors.shape[-1]), dtype=vectors.dtype)
    places = np.arange(vectors.shape[-1])
    result[..., places, places] = vectors
    return (result,)


def _product(left: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
    return (np.matmul(left, right),)


def _batch_shape(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> tuple[int, ...]:
    shapes = [a.shape[: a.ndim - core] for a, core in zip(arrays, cores, strict=True)]
    return np.broadcast_shapes(*shapes)


def _concatenate(axis: np.ndarray | None, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    batch = _batch_shape(arrays, [1] * len(arrays))
    return (np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in arrays], axis=-1),)


def _split(array: np.ndarray, sizes: np.ndarray) -> Sequence[np.ndarray]:
    return np.split(array, np.cumsum(sizes.reshape(-1))[:-1], axis=-1)


def _gather(core: int, table: np.ndarray, *indices: np.ndarray) -> Sequence[np.ndarray]:
    """Look up table[b, i[b], j[b], ...] for each element b of a batch."""
    batch = _batch_shape([table, *indices], [len(indices), *[core] * len(indices)])
    table = np.broadcast_to(table, (*batch, *table.shape[table.ndim - len(indices) :]))
    places = [place.reshape(place.shape + (1,) * core) for place in np.indices(batch, sparse=True)]
    return (table[(*places, *indices)],)


def _gather_rows(table: np.ndarray, index: np.ndarray) -> Sequence[np.ndarray]:
    """Look up the row table[b, i[b]] for each element b of a batch."""
    batch = _batch_shape([table, index], [2, 0])
    table = np.broadcast_to(table, (*batch, *table.shape[-2:]))
    return (table[(*np.indices(batch, sparse=True), index)],)


def _scatter(array: np.ndarray, values: np.ndarray, index: np.ndarray) -> Sequence[np.ndarray]:
    """Set array[b, i[b]] to values[b] for each element b of a batch."""
    if index.dtype == bool:  # a mask, the same for all
        index = np.flatnonzero(index.reshape(-1))
    batch = _batch_shape([array, values, index], [1, 1, 1])
    result = np.array(np.broadcast_to(array, (*batch, array.shape[-1])))
    width = max(values.shape[-1], index.shape[-1])
    index = np.broadcast_to(index, (*batch, width))
    np.put_along_axis(result, index, np.broadcast_to(values, (*batch, width)), axis=-1)
    return (result,)
