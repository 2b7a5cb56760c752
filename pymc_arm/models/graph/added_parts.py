"""The gradient of an array of which single parts were used: all parts are added to one array.

PyTensor adds up one array of the whole size for each part, zero everywhere else. A recursion over
150 steps takes a row of its data in each, so that its gradient would be a sum of 150 arrays of 150
rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.scalar import Add, Second
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import IncSubtensor

from pymc_arm.models.graph.indexing import constant_index

__all__ = ["AddedParts", "add_parts"]

# So many parts are worth an operation of their own.
FEWEST = 3


class AddedParts(Op):
    """An array to which parts are added at fixed places.

    Parameters
    ----------
    indices
        Of each part.
    """

    __props__ = ()

    def __init__(self, indices: Sequence[Any]) -> None:
        self.indices = tuple(indices)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same operation; indices are not compared."""
        return self is other

    def __hash__(self) -> int:
        """Return a number for this operation alone."""
        return id(self)

    def make_node(self, base: Variable, *parts: Variable) -> Apply:
        """Return the node for an array of the right size, and the parts."""
        return Apply(self, [base, *parts], [base.type()])

    def perform(
        self, node: Apply, inputs: Sequence[np.ndarray], outputs: Sequence[list[Any]]
    ) -> None:
        """Add the parts to a copy of the first array."""
        base, *parts = inputs
        result = np.array(base)
        for index, part in zip(self.indices, parts, strict=True):
            result[index] += part
        outputs[0][0] = result


def add_parts(fgraph: FunctionGraph) -> None:
    """Replace sums of arrays that are zero but for a part, in place."""
    for node in fgraph.toposort()[::-1]:
        if node not in fgraph.apply_nodes or not _is_sum(node):
            continue
        (result,) = node.outputs
        users = fgraph.clients[result]
        if len(users) == 1 and _is_sum(users[0][0], result.type):
            continue  # a part of a larger sum
        summands = _summands(fgraph, node, result.type)
        found = [(variable, _part(fgraph, variable, result.type)) for variable in summands]
        parts = [part for _, part in found if part is not None]
        if len(parts) < FEWEST:
            continue
        bases = {base for base, _, _ in parts}
        others = [variable for variable, part in found if part is None]
        indices = [*(index for _, index, _ in parts), *[Ellipsis] * len(others)]
        whole = AddedParts(indices)(next(iter(bases)), *(own for _, _, own in parts), *others)
        fgraph.replace(result, whole, import_missing=True)


def _is_sum(node: Any, of: Any = None) -> bool:
    """Whether a node adds arrays up, of a type if one is given."""
    op = getattr(node, "op", None)
    sums = isinstance(op, Elemwise) and isinstance(op.scalar_op, Add)
    return sums and (of is None or node.outputs[0].type == of)


def _summands(fgraph: FunctionGraph, node: Apply, of: Any) -> list[Variable]:
    """Return what a sum of sums adds up."""
    found, pending = [], list(node.inputs[::-1])
    while pending:
        variable = pending.pop()
        own = variable.owner
        if own is not None and _is_sum(own, of) and len(fgraph.clients[variable]) == 1:
            pending.extend(own.inputs[::-1])
        else:
            found.append(variable)
    return found


def _part(
    fgraph: FunctionGraph, variable: Variable, of: Any
) -> tuple[Variable, tuple[Any, ...], Variable] | None:
    """Return the zeros, the index and the part, if an array is zero everywhere else."""
    node = variable.owner
    if node is None or type(node.op) is not IncSubtensor or node.op.set_instead_of_inc:
        return None
    base, own, *rest = node.inputs
    index = constant_index(node.op, rest)
    same = variable.type == of and base.type == of and len(fgraph.clients[variable]) == 1
    return (base, index, own) if same and _is_zero(base) and index is not None else None


def _is_zero(variable: Variable) -> bool:
    """Whether a variable is an array of zeros."""
    node = variable.owner
    if node is None:
        return isinstance(variable, Constant) and not np.any(variable.data)
    filled = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Second)
    if filled:
        return _is_zero(node.inputs[1])
    if isinstance(node.op, Alloc | DimShuffle):
        return _is_zero(node.inputs[0])
    return False
