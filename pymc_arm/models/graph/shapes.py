"""Shapes as numbers: what a graph computes about the sizes of its arrays is known beforehand.

All inputs of a model have fixed shapes, and so has everything that is computed from them. PyTensor
batches a graph one operation at a time, and for each shape that it meets in it, it copies and
simplifies all that leads to it. Here that is done once for the whole graph: the gradient of a
covariance matrix of five scales and ten correlations took 14 s to batch and simplify, and takes 3.
"""

from collections.abc import Sequence

import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import infer_shape_db
from pytensor.tensor.rewriting.basic import topo_constant_folding
from pytensor.tensor.rewriting.shape import ShapeFeature
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

__all__ = ["fix_shapes"]


def fix_shapes(
    inputs: Sequence[Variable], graphs: Sequence[TensorVariable]
) -> list[TensorVariable]:
    """Return graphs of the same inputs with numbers in place of shapes.

    Nothing else is computed beforehand: PyTensor takes functions of small integers in single
    precision.

    Parameters
    ----------
    inputs
        Of the graphs, with fixed shapes.
    graphs
        What is computed from them.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> x = pt.tensor("x", dtype="float64", shape=(3,))
    >>> (graph,) = fix_shapes([x], [pt.exp(x).shape])
    >>> graph.data.tolist()
    [3]
    """
    shapes = [node.outputs[0] for node in toposort(graphs) if isinstance(node.op, Shape | Shape_i)]
    if not shapes:
        return list(graphs)
    fgraph = FunctionGraph(list(inputs), shapes, clone=True, features=[ShapeFeature()])
    with pytensor.config.change_flags(optdb__max_use_ratio=10, cxx="", traceback__limit=0):
        infer_shape_db.default_query.rewrite(fgraph)
        topo_constant_folding.rewrite(fgraph)
    known = {
        shape: pt.constant(found.data, dtype=shape.type.dtype)
        for shape, found in zip(shapes, fgraph.outputs, strict=True)
        if isinstance(found, Constant)
    }
    return list(clone_replace(list(graphs), known))
