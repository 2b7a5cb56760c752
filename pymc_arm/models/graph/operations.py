"""The table from PyTensor operations to functions of NumPy arrays.

An entry takes an operation and its node, and returns a function from the node's inputs to its
outputs, or None where only a loop in Python would do. An operation without an entry runs its own
``perform``: most of PyTensor's operations are array operations already. The entries live in
:mod:`~pymc_arm.models.graph.elementwise`, :mod:`~pymc_arm.models.graph.indexing`,
:mod:`~pymc_arm.models.graph.linear_algebra` and :mod:`~pymc_arm.models.graph.loops`; a new one is
registered there, and is tested against PyTensor.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.op import RandomVariable

from pymc_arm.models.graph.draws import draw_function
from pymc_arm.models.graph.program import ArrayFunction, serialized

__all__ = ["array_function", "batch_shape", "core_function", "own_function", "perform_function"]


@functools.singledispatch
def array_function(operation: Op, node: Apply) -> ArrayFunction | None:
    """Return a function from the inputs of a node to its outputs, if no loop is needed."""
    return perform_function(node)


@functools.singledispatch
def core_function(core: Op, node: Apply) -> ArrayFunction | None:
    """Return the same for a node that applies a core operation to every element of a batch.

    PyTensor's own way is a loop over the batch, so what has no entry has no array form.
    """
    return None


@functools.singledispatch
def own_function(operation: Op, node: Apply) -> ArrayFunction:
    """Return PyTensor's own implementation of a node, which others are compared with."""
    return perform_function(node)


def perform_function(node: Apply) -> ArrayFunction:
    """Return the ``perform`` of a node's operation."""
    node.op.prepare_node(node, storage_map=None, compute_map=None, impl="py")

    def perform(*arrays: Any) -> Sequence[Any]:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, list(arrays), storage)
        return [cell[0] for cell in storage]

    return perform


def batch_shape(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that arrays have in common before their core axes, broadcast."""
    shapes = [a.shape[: a.ndim - core] for a, core in zip(arrays, cores, strict=True)]
    return np.broadcast_shapes(*shapes)


@array_function.register(Blockwise)
def _blockwise(operation: Blockwise, node: Apply) -> ArrayFunction | None:
    return core_function(operation.core_op, node)


@array_function.register(RandomVariable)
def _random(operation: RandomVariable, node: Apply) -> ArrayFunction:
    return draw_function(node) or perform_function(node)


@array_function.register(OpFromGraph)
def _inner_graph(operation: OpFromGraph, node: Apply) -> ArrayFunction | None:
    if type(operation) is OpFromGraph:  # what is inside is the user's, and may be a loop
        return None
    perform = perform_function(node)
    # It has a compiled function, which keeps its arrays.
    return serialized(lambda *arrays: [np.array(array) for array in perform(*arrays)])
