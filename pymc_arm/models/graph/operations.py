"""The table from PyTensor operations to functions of NumPy arrays.

An entry takes an operation and its node, and returns a function from the node's inputs to its
outputs, or None where only a loop in Python would do. An operation without an entry runs its own
``perform``: most of PyTensor's operations are array operations already. The entries live in
:mod:`~pymc_arm.models.graph.elementwise`, :mod:`~pymc_arm.models.graph.indexing`,
:mod:`~pymc_arm.models.graph.linear_algebra` and :mod:`~pymc_arm.models.graph.loops`; a new one is
registered there, and is tested against PyTensor. What PyTensor and PyMC apply to one matrix or
vector after another has no array form, but is an array operation for each (a singular value
decomposition, a matrix exponential, a convolution): it is called in a loop over particles, which
takes some ten microseconds for each, where compiling the graph would take 5 to 60 seconds.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.ifelse import IfElse
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.op import RandomVariable

from pymc_arm.models.graph.draws import draw_function
from pymc_arm.models.graph.program import ArrayFunction, serialized

# Packages whose operations keep no state between calls.
WELL_KNOWN = {"pytensor", "pymc", "pymc_extras"}

__all__ = [
    "array_function",
    "batch_shape",
    "core_function",
    "looped",
    "own_function",
    "perform_function",
]


@functools.singledispatch
def array_function(operation: Op, node: Apply) -> ArrayFunction | None:
    """Return a function from the inputs of a node to its outputs, if no loop is needed."""
    return perform_function(node)


@functools.singledispatch
def core_function(core: Op, node: Apply) -> ArrayFunction | None:
    """Return the same for a node that applies a core operation to every element of a batch.

    What has no entry is called for one element after another, as PyTensor does, but those of users:
    they may take any time, and need not allow for threads.
    """
    known = type(core).__module__.partition(".")[0] in WELL_KNOWN
    return looped(node) if known and not isinstance(core, OpFromGraph | IfElse) else None


@functools.singledispatch
def own_function(operation: Op, node: Apply) -> ArrayFunction:
    """Return PyTensor's own implementation of a node, which others are compared with."""
    return perform_function(node)


def perform_function(node: Apply) -> ArrayFunction:
    """Return the ``perform`` of a node's operation.

    One that has a graph inside has a compiled function, which keeps its arrays: for one thread at a
    time.
    """
    node.op.prepare_node(node, storage_map=None, compute_map=None, impl="py")

    def perform(*arrays: Any) -> Sequence[Any]:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, list(arrays), storage)
        return [cell[0] for cell in storage]

    if not isinstance(node.op, OpFromGraph):
        return perform
    return serialized(lambda *arrays: [np.array(array) for array in perform(*arrays)])


def batch_shape(arrays: Sequence[np.ndarray], cores: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that arrays have in common before their core axes, broadcast."""
    shapes = [a.shape[: a.ndim - core] for a, core in zip(arrays, cores, strict=True)]
    return np.broadcast_shapes(*shapes)


class _Looped:
    """A core operation on a batch, by its ``perform`` at one element after another.

    Where that raises since a matrix has no inverse, say, results are NaN.

    Parameters
    ----------
    node
        Of the operation on a batch.
    """

    def __init__(self, node: Apply) -> None:
        core = node.op._create_dummy_core_node(node.inputs)
        self._perform = perform_function(core)
        self._cores = [variable.type.ndim for variable in core.inputs]
        self._types = [np.dtype(variable.type.dtype) for variable in core.outputs]

    def __call__(self, *arrays: np.ndarray) -> Sequence[np.ndarray]:
        """Return the outputs, with the axes of the batch first."""
        batch = batch_shape(arrays, self._cores)
        spread = [
            np.broadcast_to(array, (*batch, *array.shape[array.ndim - core :]))
            for array, core in zip(arrays, self._cores, strict=True)
        ]
        found: list[Sequence[np.ndarray] | None] = []
        failure: Exception | None = None
        for place in np.ndindex(batch):
            try:
                found.append(self._perform(*[array[place] for array in spread]))
            except (np.linalg.LinAlgError, ValueError) as error:
                found.append(None)
                failure = error
        some = next((results for results in found if results is not None), None)
        if some is None:
            try:  # for shapes: at matrices and numbers for which everything exists
                some = self._perform(*map(self._plain, spread, self._cores))
            except (np.linalg.LinAlgError, ValueError) as error:
                raise failure or error from None
        # What comes may have more digits than was announced: singular values of whole numbers.
        types = [np.result_type(t, one) for t, one in zip(self._types, some, strict=True)]
        outputs = [
            np.full((len(found), *np.shape(one)), np.nan if dtype.kind in "fc" else 0, dtype)
            for one, dtype in zip(some, types, strict=True)
        ]
        for number, results in enumerate(found):
            if results is not None:
                for output, result in zip(outputs, results, strict=True):
                    output[number] = result
        return [output.reshape(*batch, *output.shape[1:]) for output in outputs]

    @staticmethod
    def _plain(array: np.ndarray, core: int) -> np.ndarray:
        shape = array.shape[array.ndim - core :]
        return np.eye(*shape, dtype=array.dtype) if core == 2 else np.ones(shape, array.dtype)


def looped(node: Apply) -> ArrayFunction:
    """Return what calls the core operation of a node for one element of a batch after another."""
    return _Looped(node)


@array_function.register(Blockwise)
def _blockwise(operation: Blockwise, node: Apply) -> ArrayFunction | None:
    return core_function(operation.core_op, node)


@array_function.register(RandomVariable)
def _random(operation: RandomVariable, node: Apply) -> ArrayFunction:
    return draw_function(node) or perform_function(node)


@array_function.register(OpFromGraph)
def _inner_graph(operation: OpFromGraph, node: Apply) -> ArrayFunction | None:
    # What is inside of one without a name is the user's, and may be a loop.
    return None if type(operation) is OpFromGraph else perform_function(node)
