"""Questions about the graph of a classifier's probabilities."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import SpecifyShape

from pymc_arm.models.prior import INTERPRETED, is_fixed

__all__ = [
    "LINK_RANGE",
    "PROBES",
    "dependent_nodes",
    "evaluate_fixed",
    "find_latent",
    "read_labels",
]

# Where the link is compared with Phi: beyond, 0.5 * (1 + erf(f / sqrt(2))) is all rounding error.
LINK_RANGE = 7.0
PROBES = 15
ELEMENTWISE = (Elemwise, DimShuffle, ViewOp, SpecifyShape, CheckAndRaise)


def read_labels(model: pm.Model, observed: Variable) -> np.ndarray | str:
    """Return the observed labels, 0 or 1."""
    labels = np.asarray(evaluate_fixed([model.rvs_to_values[observed]])[0])
    if labels.ndim != 1:
        return f"{observed.name} has {labels.ndim} dimensions, not one"
    binary = np.isin(labels, (0, 1))
    if not binary.all():
        entry = int(np.argmin(binary))
        return f"{observed.name}[{entry}] is {labels[entry]}, which is not 0 or 1"
    return labels


def find_latent(
    free: Variable, probability: Variable, size: int, *, fixed: bool = True
) -> tuple[Variable, Variable | None, bool] | str:
    """Return what the link is applied to, and the matrix that makes it, maybe transposed.

    ``fixed`` is whether the matrix must be known.
    """
    dependent = {free}
    product = None
    for node in dependent_nodes(free, probability, dependent):
        operation = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if isinstance(operation, Dot):
            if product is not None or node.outputs[0].type.ndim > 2:
                return f"{free.name} enters by more than one product"
            product = node
        elif not isinstance(operation, ELEMENTWISE):
            return f"the probabilities depend on {free.name} through {operation}, not elementwise"
    if probability not in dependent:
        return f"the observed variable does not depend on {free.name}"
    if product is None:
        return free, None, False
    left, right = product.inputs
    if left in dependent and right in dependent:
        return f"the probabilities are not a linear function of {free.name}"
    vector, matrix = (left, right) if left in dependent else (right, left)
    if not _reshapes(free, vector):
        return f"{free.name} is transformed before it is multiplied by a matrix"
    if fixed and not is_fixed([matrix]):
        return f"the matrix that multiplies {free.name} is random"
    if tuple(matrix.type.shape) != (size, size) and tuple(evaluate_fixed([matrix.shape])[0]) != (
        size,
        size,
    ):
        return f"the matrix that multiplies {free.name} is not square"
    return product.outputs[0], matrix, vector is left


def evaluate_fixed(variables: list[Variable]) -> list[Any]:
    """Return the values of variables that depend on constants and data only."""
    values: list[Any] = pytensor.function([], variables, mode=INTERPRETED)()
    return values


def dependent_nodes(free: Variable, target: Variable, dependent: set[Variable]) -> Iterator[Any]:
    """Yield the nodes on the way from ``free`` to ``target``, and collect their outputs."""
    visited: dict[Variable, bool] = {free: True}
    nodes = []
    waiting = [target]
    while waiting:
        variable = waiting[-1]
        if variable in visited or variable.owner is None:
            visited.setdefault(variable, False)
            waiting.pop()
            continue
        missing = [parent for parent in variable.owner.inputs if parent not in visited]
        if missing:
            waiting.extend(missing)
            continue
        visited[variable] = any(visited[parent] for parent in variable.owner.inputs)
        if visited[variable]:
            nodes.append(variable.owner)
        waiting.pop()
    dependent.update(variable for variable, depends in visited.items() if depends)
    yield from nodes


def _reshapes(free: Variable, vector: Variable) -> bool:
    """Whether ``vector`` is ``free`` but for its shape."""
    reshaping = (DimShuffle, ViewOp, SpecifyShape)
    while vector is not free:
        if vector.owner is None or not isinstance(vector.owner.op, reshaping):
            return False
        vector = vector.owner.inputs[0]
    return True
