"""The entry of the table for sums over the last axis, which NumPy makes slowly where it is short.

A product with a vector of ones is the same sum, whichever way the array lies in memory. Of
(4, 12573) numbers with the particle fastest it takes 6 microseconds a particle where NumPy's sum
takes 50; of (14, 900, 5) it takes one where NumPy's takes 15.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.math import Sum

from pymc_arm.models.graph.operations import array_function, perform_function
from pymc_arm.models.graph.program import ArrayFunction

__all__: list[str] = []


@array_function.register(Sum)
def _sum(operation: Sum, node: Apply) -> ArrayFunction:
    """Return the product with ones for a sum of floats over the last axis, else NumPy's sum."""
    dimensions = node.inputs[0].type.ndim
    axes = range(dimensions) if operation.axis is None else operation.axis
    last = dimensions > 1 and [axis % dimensions for axis in axes] == [dimensions - 1]
    types = {node.inputs[0].type.dtype, node.outputs[0].type.dtype, _accumulator(operation, node)}
    if not last or types != {"float64"}:
        return perform_function(node)

    def add(array: Any) -> Sequence[np.ndarray]:
        return (array @ np.ones(array.shape[-1]),)

    return add


def _accumulator(operation: Sum, node: Apply) -> str:
    """Return the type that a sum is made in."""
    own = getattr(operation, "acc_dtype", None)
    return str(node.outputs[0].type.dtype if own is None else own)
