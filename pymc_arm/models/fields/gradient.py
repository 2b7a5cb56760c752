"""The gradient in a field alone, at many points with the same parameters.

Newton's method for the mode of a field asks for gradients at a hundred points that differ in the
field only. What depends on the parameters, a covariance matrix and its factor above all, is
evaluated once for all of them, and no derivative in the parameters is taken.
"""

import warnings
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedGrad, disconnected_grad
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.density import Density
from pymc_arm.models.graph.batching import copy_graphs, open_graph
from pymc_arm.models.graph.first_axes import index_first_axes
from pymc_arm.models.graph.gradient import differentiate
from pymc_arm.models.graph.indexing import constant_index
from pymc_arm.models.graph.partial_evaluation import GroupedProgram, partial_evaluation
from pymc_arm.models.graph.reuse import compile_batched

__all__ = ["FieldGradient", "compile_field_gradient"]

# Elements of matrices that are held at once, one for each point.
CHUNK = 2_000_000
# How far values and gradients may be from those of all coordinates.
TOLERANCE = 1e-7


class FieldGradient:
    """Values and gradients of a log-density in some of its coordinates.

    Parameters
    ----------
    program
        Of points in groups, which differ in the field within a group.
    field
        The coordinates of the field.
    """

    def __init__(self, program: GroupedProgram, field: np.ndarray) -> None:
        self._program, self._field = program, field

    def __call__(self, points: np.ndarray, fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, (groups, members), and gradients, (groups, members, field).

        Parameters
        ----------
        points
            One for each group, (groups, dimension); those of its field do not count.
        fields
            Of the members, (groups, members, field).
        """
        groups, members, size = fields.shape
        values, slopes = np.empty((groups, members)), np.empty(fields.shape)
        chunk = max(1, CHUNK // (members * size**2))
        for first in range(0, groups, chunk):
            part = slice(first, first + chunk)
            found, gradient = self._program(points[part], fields[part])
            values[part] = found.reshape(-1, members)
            slopes[part] = gradient[:, self._field].reshape(-1, members, size)
        wrong = ~np.isfinite(slopes).all(axis=2) | ~(values < np.inf)
        values[wrong], slopes[wrong] = -np.inf, 0.0
        return values, slopes


def compile_field_gradient(density: Density, field: np.ndarray) -> FieldGradient | None:
    """Return the gradient in a field, if that spares the work of a matrix for each point.

    It is compared with the gradient in all coordinates; where it differs, or something else goes
    wrong, there is none.
    """
    try:
        x, graphs, _ = density.graphs_of(np.arange(density.count))
        if not any(_is_matrix_operation(variable) for variable in ancestors(graphs)):
            return None
        given = [v for v in ancestors(graphs) if _is_slice_without(v, x, field)]
        with COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = {variable: disconnected_grad(variable) for variable in given}
            terms = clone_replace(graphs, held)
            total = pt.add(pt.zeros(()), *(pt.sum(term) for term in terms))
            opened = _open(x, [total, differentiate(total, x)])
            rows = pt.tensor(dtype="float64", shape=(None, *x.type.shape))
            program = compile_batched([x], {x: rows}, opened, trusted=True)
        grouped = partial_evaluation(program, field, density.reference)
        if not program.vectorized or grouped is None:
            return None
        found = FieldGradient(grouped, field)
        return found if _is_right(found, density, field) else None
    except Exception as error:  # compilers raise anything: it is noted
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        density.notes.append(f"no gradient of a field alone: {reason}")
        return None


def _is_matrix_operation(variable: Any) -> bool:
    """Whether a variable is made by an operation of linear algebra."""
    return isinstance(getattr(variable.owner, "op", None), Blockwise)


def _is_slice_without(variable: Any, x: TensorVariable, field: np.ndarray) -> bool:
    """Whether a variable is a part of x that has nothing of the field in it."""
    node = variable.owner
    if node is None or not isinstance(node.op, Subtensor) or node.inputs[0] is not x:
        return False
    index = constant_index(node.op, node.inputs[1:])
    if index is None:
        return False
    return not np.isin(np.arange(x.type.shape[0])[index], field).any()


def _open(x: TensorVariable, graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs in a form that can be batched, without marks for derivatives."""
    fgraph = FunctionGraph([x], copy_graphs(x, graphs), clone=False)
    for node in fgraph.toposort():
        if isinstance(node.op, DisconnectedGrad):
            fgraph.replace(node.outputs[0], node.inputs[0])
    in2out(open_graph).rewrite(fgraph)
    index_first_axes(fgraph)
    return list(fgraph.outputs)


def _is_right(found: FieldGradient, density: Density, field: np.ndarray) -> bool:
    """Whether values and gradients are those of all coordinates, at points that are tried."""
    points = density.reference
    expected, gradients = density.gradient(points, np.ones(density.count))
    values, slopes = found(points, points[:, None, field])
    usable = np.isfinite(expected) & gradients.any(axis=1)
    both = [(values[usable, 0], expected[usable]), (slopes[usable, 0], gradients[usable][:, field])]
    return bool(usable.any()) and all(
        np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * np.abs(b).max(initial=1.0))
        for a, b in both
    )
