"""Evaluating a batched graph with NumPy, without compiling anything.

A graph that is batched over a thousand particles spends its time inside array operations, so an
interpreter that calls NumPy for each of them is within a small factor of compiled code and starts
at once, where numba takes 5 to 60 seconds for a model it has not seen. It needs every operation to
be one array operation: PyTensor's Python linker has no such form for a few scalar functions, which
are given one here, and falls back on loops for others, which :func:`is_vectorized` finds.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.function.types import Function
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

__all__ = ["compile_with_numpy", "is_vectorized"]


def compile_with_numpy(inputs: Sequence[Variable], output: TensorVariable) -> Function:
    """Return an interpreted function, with all rewrites that simplify and stabilise."""
    # Fused operations exist for compilers; here they would run element by element.
    query = RewriteDatabaseQuery(
        include=["fast_run", "py_only"],
        exclude=["fusion", "inplace", "BlasOpt", "cxx_only", "numba"],
    )
    last = 1000.0
    mode = Mode(linker="py", optimizer=query).register((in2out(_to_array_operation), last))
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        return pytensor.function(
            list(inputs), output, mode=mode, on_unused_input="ignore", trust_input=True
        )


def is_vectorized(function: Function) -> bool:
    """Whether no operation of the graph is a loop in Python."""
    return not any(_is_loop(node.op) for node in function.maker.fgraph.apply_nodes)


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
