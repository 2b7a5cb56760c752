"""Evaluating a batched graph with NumPy, without compiling anything.

A graph that is batched over a thousand particles spends its time inside array operations, so an
interpreter that calls NumPy for each of them is within a small factor of compiled code and starts
at once, where numba takes 5 to 60 seconds for a model it has not seen. It needs every operation to
be one array operation: PyTensor's Python linker has no such form for a few scalar functions, which
are given one here, and falls back on loops for others, which :attr:`Program.vectorized` tells.
"""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.scalar.basic import Add, Cast, Clip, Mul
from pytensor.scalar.math import Softplus
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

__all__ = ["Program", "compile_with_numpy"]


class Program:
    """A rewritten graph as a list of array operations.

    Unlike PyTensor's own functions it keeps no state between or during calls, so threads can share
    it, and it calls NumPy's functions directly, without the checks in between.
    """

    def __init__(self, fgraph: FunctionGraph) -> None:
        self.fgraph = fgraph
        places: dict[Variable, int] = {variable: k for k, variable in enumerate(fgraph.inputs)}
        self._constants: list[tuple[int, Any]] = []
        self._instructions: list[tuple[Callable[..., Sequence[Any]], list[int], list[int]]] = []
        for node in fgraph.toposort():
            for variable in node.inputs:
                if variable not in places:
                    places[variable] = len(places)
                    self._constants.append((places[variable], variable.data))
            for variable in node.outputs:
                places[variable] = len(places)
            sources = [places[variable] for variable in node.inputs]
            targets = [places[variable] for variable in node.outputs]
            self._instructions.append((_executable(node), sources, targets))
        for variable in fgraph.outputs:
            if variable not in places:
                places[variable] = len(places)
                self._constants.append((places[variable], variable.data))
        self._size = len(places)
        self._output = places[fgraph.outputs[0]]

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        """Evaluate the graph."""
        values: list[Any] = [None] * self._size
        values[: len(inputs)] = inputs
        for place, constant in self._constants:
            values[place] = constant
        with np.errstate(all="ignore"):
            for execute, sources, targets in self._instructions:
                results = execute(*[values[source] for source in sources])
                for target, result in zip(targets, results, strict=True):
                    values[target] = result
        return values[self._output]

    @property
    def vectorized(self) -> bool:
        """Whether no operation is a loop in Python."""
        return not any(_is_loop(node.op) for node in self.fgraph.apply_nodes)


def compile_with_numpy(inputs: Sequence[Variable], output: TensorVariable) -> Program:
    """Return an interpreted function, with all rewrites that simplify and stabilise."""
    # Fused operations exist for compilers; here they would run element by element.
    query = RewriteDatabaseQuery(
        include=["fast_run", "py_only"],
        exclude=["fusion", "inplace", "BlasOpt", "cxx_only", "numba"],
    )
    last = 1000.0
    mode = Mode(linker="py", optimizer=query).register((in2out(_to_array_operation), last))
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        function = pytensor.function(list(inputs), output, mode=mode, on_unused_input="ignore")
    return Program(function.maker.fgraph)


def _executable(node: Apply) -> Callable[..., Sequence[Any]]:
    """Return a function from the inputs of a node to its outputs."""
    operation = node.op
    if isinstance(operation, Elemwise) and not _is_loop(operation):
        name, takes, gives = operation.scalar_op.nfunc_spec
        if takes == len(node.inputs) and gives == 1:
            function = _find_function(name)
            dtype = np.dtype(node.outputs[0].type.dtype)

            def call(*arrays: Any) -> Sequence[Any]:
                result = np.asarray(function(*arrays))
                return (result if result.dtype == dtype else result.astype(dtype),)

            return call
    if isinstance(operation, ArrayOperation):
        return lambda *arrays: (np.asarray(operation.function(*arrays), dtype=operation.dtype),)

    def perform(*arrays: Any) -> Sequence[Any]:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        operation.perform(node, list(arrays), storage)
        return [cell[0] for cell in storage]

    return perform


def _find_function(name: str) -> Callable[..., Any]:
    """Return the function that PyTensor names, such as ``"scipy.special.gammaln"``."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module or "numpy"), attribute)


def _is_loop(op: Op) -> bool:
    if isinstance(op, Elemwise):
        return getattr(op.scalar_op, "nfunc_spec", None) is None
    return isinstance(op, Blockwise | Scan) or type(op).__name__ == "OpFromGraph"


class ArrayOperation(Op):
    """A NumPy function as an operation."""

    __props__ = ("function", "dtype", "ndim")

    def __init__(self, function: Callable[..., np.ndarray], dtype: str, ndim: int) -> None:
        self.function = function
        self.dtype = dtype
        self.ndim = ndim

    def make_node(self, *inputs: Variable) -> Apply:
        """Return a node whose output has the dtype and the number of axes given."""
        output = pytensor.tensor.TensorType(self.dtype, shape=(None,) * self.ndim)()
        return Apply(self, list(inputs), [output])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Call the function."""
        outputs[0][0] = np.asarray(self.function(*inputs), dtype=self.dtype)


def _softplus(values: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, values)


def _identity(values: np.ndarray) -> np.ndarray:
    return values


def _gather(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Look each row's own indices up in its own row of a table."""
    rows = max(len(table), len(index))
    table = np.broadcast_to(table, (rows, *table.shape[1:]))
    return np.take_along_axis(table, np.broadcast_to(index, (rows, *index.shape[1:])), axis=1)


def _add(*arrays: np.ndarray) -> np.ndarray:
    return functools.reduce(np.add, arrays)


def _multiply(*arrays: np.ndarray) -> np.ndarray:
    return functools.reduce(np.multiply, arrays)


# NumPy's own functions take two arrays; PyTensor's sums and products take any number.
_VARIADIC_FUNCTIONS: dict[type, Callable[..., np.ndarray]] = {Add: _add, Mul: _multiply}
_SCALAR_FUNCTIONS: dict[type, Callable[..., np.ndarray]] = {
    Softplus: _softplus,
    Clip: np.clip,
    Cast: _identity,
}


@node_rewriter([Elemwise, Blockwise])
def _to_array_operation(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    output = node.outputs[0]
    function = None
    if isinstance(node.op, Elemwise):
        functions = _VARIADIC_FUNCTIONS if len(node.inputs) > 2 else {}
        function = {**_SCALAR_FUNCTIONS, **functions}.get(type(node.op.scalar_op))
    elif isinstance(node.op.core_op, AdvancedSubtensor):
        vectors = node.op.inputs_sig == (("i00",), ("i10",)) and node.inputs[0].type.ndim == 2
        function = _gather if vectors and output.type.ndim == 2 else None
    if function is None:
        return None
    operation = ArrayOperation(function, output.type.dtype, output.type.ndim)
    return [output.type.filter_variable(operation(*node.inputs), allow_convert=True)]
