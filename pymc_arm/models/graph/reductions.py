"""Entries of the table for sums, maxima and conjunctions over one axis that NumPy makes slowly.

NumPy goes along the axis for each of the others, which takes long where it is short. A product with
a vector of ones is the same sum, whichever way the array lies in memory. Of (4, 12573) numbers with
the particle fastest it takes 6 microseconds a particle where NumPy's sum takes 50; of (14, 900, 5)
it takes one where NumPy's takes 15. Over an axis between the first and the last, ``einsum`` is fast
for any layout: of (512, 20, 2) it takes 32 microseconds in place of 170, and of (512, 20, 400) 2.7
milliseconds in place of 4.4. The maximum over a short axis is that of its slices: of (1000, 10, 2)
it takes 9 microseconds in place of 960, and of (1000, 10, 8) 59 in place of 420.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.math import All, Max, Min, Sum
from pytensor.tensor.math import Any as AnyOf

from pymc_arm.models.graph.operations import array_function, perform_function
from pymc_arm.models.graph.program import ArrayFunction

__all__ = ["fold_last"]

# Slices of an axis are taken one by one up to this length and from this size of an array on: with
# 16, arrays of 3 million numbers take twice as long as by NumPy, and of 200 rows of 5 numbers the
# two are equally fast.
MOST_SLICES, LEAST_ELEMENTS = 8, 1000


@array_function.register(Sum)
def _sum(operation: Sum, node: Apply) -> ArrayFunction:
    """Return a sum of floats over one axis, the first excepted, by a product; else NumPy's sum."""
    axis = _single_axis(operation, node)
    types = {node.inputs[0].type.dtype, node.outputs[0].type.dtype, _accumulator(operation, node)}
    if not axis or types != {"float64"}:  # over the first axis whole rows are added
        return perform_function(node)

    axes = list(range(node.inputs[0].type.ndim))
    kept = [other for other in axes if other != axis]

    def add(array: Any) -> Sequence[np.ndarray]:
        return (array @ np.ones(array.shape[-1]),)

    def add_between(array: Any) -> Sequence[np.ndarray]:
        return (np.einsum(array, axes, kept),)

    return add if axis == axes[-1] else add_between


@array_function.register(Max)
@array_function.register(Min)
@array_function.register(All)
@array_function.register(AnyOf)
def _fold(operation: CAReduce, node: Apply) -> ArrayFunction:
    """Return what combines the slices of a short last axis, else NumPy's function."""
    combine = FOLDS[type(operation)]
    perform = perform_function(node)
    if _single_axis(operation, node) != node.inputs[0].type.ndim - 1:
        return perform

    def fold(array: Any) -> Sequence[np.ndarray]:
        return (fold_last(combine, array),) if _in_slices(array) else perform(array)

    return fold


def fold_last(combine: np.ufunc, array: np.ndarray) -> np.ndarray:
    """Return what combines the elements along the last axis, by slices where these are few."""
    if not _in_slices(array):
        reduced: np.ndarray = combine.reduce(array, axis=-1)
        return reduced
    found: np.ndarray = combine(array[..., 0], array[..., 1])
    for place in range(2, array.shape[-1]):
        combine(found, array[..., place], out=found)
    return found


def _in_slices(array: np.ndarray) -> bool:
    """Whether slices of the last axis are few, and long enough."""
    return 2 <= array.shape[-1] <= MOST_SLICES and array.size >= LEAST_ELEMENTS


FOLDS: dict[type[CAReduce], np.ufunc] = {
    Max: np.maximum,
    Min: np.minimum,
    All: np.logical_and,
    AnyOf: np.logical_or,
}


def _single_axis(operation: CAReduce, node: Apply) -> int | None:
    """Return the one axis of several that an array is reduced over, or None."""
    dimensions = node.inputs[0].type.ndim
    axes = range(dimensions) if operation.axis is None else operation.axis
    return axes[0] % dimensions if dimensions > 1 and len(axes) == 1 else None


def _accumulator(operation: Sum, node: Apply) -> str:
    """Return the type that a sum is made in."""
    own = getattr(operation, "acc_dtype", None)
    return str(node.outputs[0].type.dtype if own is None else own)
