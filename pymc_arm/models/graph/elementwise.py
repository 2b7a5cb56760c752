"""Entries of the table for operations on single numbers: from a scalar operation to a ufunc."""

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.scalar.basic import Add, Cast, Clip, Composite, Mul, ScalarOp, Second
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise

from pymc_arm.models.graph.operations import array_function
from pymc_arm.models.graph.program import ArrayFunction

__all__ = ["scalar_function"]


@array_function.register(Elemwise)
def _elementwise(operation: Elemwise, node: Apply) -> ArrayFunction | None:
    function = scalar_function(operation.scalar_op, node)
    if function is None:
        return None
    dtype = np.dtype(node.outputs[0].type.dtype)

    def call(*arrays: Any) -> Sequence[Any]:
        result = np.asarray(function(*arrays))
        return (result if result.dtype == dtype else result.astype(dtype),)

    return call


@functools.singledispatch
def scalar_function(operation: ScalarOp, node: Apply) -> ArrayFunction | None:
    """Return what applies a scalar operation to whole arrays.

    PyTensor names a function of NumPy or SciPy for most, such as "scipy.special.gammaln".
    """
    specification = getattr(operation, "nfunc_spec", None)
    if not specification or specification[1:] != (len(node.inputs), 1):
        return None
    module, _, attribute = specification[0].rpartition(".")
    function: ArrayFunction = getattr(importlib.import_module(module or "numpy"), attribute)
    return function


@scalar_function.register(Add)
def _add(operation: Add, node: Apply) -> ArrayFunction:
    return np.add if len(node.inputs) == 2 else _reduction(np.add)


@scalar_function.register(Mul)
def _multiply(operation: Mul, node: Apply) -> ArrayFunction:
    return np.multiply if len(node.inputs) == 2 else _reduction(np.multiply)


def _reduction(function: ArrayFunction) -> ArrayFunction:
    """NumPy's own functions take two arrays; PyTensor's sums and products any number."""
    return lambda *arrays: functools.reduce(function, arrays)


@scalar_function.register(Softplus)
def _softplus(operation: Softplus, node: Apply) -> ArrayFunction:
    return functools.partial(np.logaddexp, 0.0)


@scalar_function.register(Clip)
def _clip(operation: Clip, node: Apply) -> ArrayFunction:
    return np.clip


@scalar_function.register(Cast)
def _cast(operation: Cast, node: Apply) -> ArrayFunction:
    return np.asarray


@scalar_function.register(Second)
def _second(operation: Second, node: Apply) -> ArrayFunction:
    return _fill


def _fill(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, np.broadcast_shapes(np.shape(shape), np.shape(values)))


@scalar_function.register(Composite)
def _composite(operation: Composite, node: Apply) -> ArrayFunction | None:
    """Return what runs the small graph inside of a fused operation, node by node."""
    inner = operation.fgraph
    nodes = [(node, scalar_function(node.op, node)) for node in inner.toposort()]
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
