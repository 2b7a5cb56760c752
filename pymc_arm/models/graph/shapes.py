"""Shapes as numbers: what a graph computes about the sizes of its arrays is known beforehand.

All inputs of a model have fixed shapes, and so has everything that is computed from them. PyTensor
batches a graph one operation at a time, and for each shape that it meets in it, it copies and
simplifies all that leads to it. Here that is done once for the whole graph: the gradient of a
covariance matrix of five scales and ten correlations took 14 s to batch and simplify, and takes 2.
"""

from collections.abc import Sequence

import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.basic import infer_shape_db
from pytensor.tensor.rewriting.basic import topo_constant_folding
from pytensor.tensor.rewriting.shape import ShapeFeature
from pytensor.tensor.variable import TensorVariable

__all__ = ["fix_shapes"]


def fix_shapes(
    inputs: Sequence[Variable], graphs: Sequence[TensorVariable]
) -> tuple[list[Variable], list[TensorVariable]]:
    """Return copies of the inputs and of the graphs with numbers in place of shapes.

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
    >>> _, (graph,) = fix_shapes([x], [pt.exp(x).shape[0] * x])
    >>> [type(v).__name__ for v in graph.owner.inputs]
    ['TensorConstant', 'TensorVariable']
    """
    fgraph = FunctionGraph(list(inputs), list(graphs), clone=True, features=[ShapeFeature()])
    with pytensor.config.change_flags(optdb__max_use_ratio=10, cxx="", traceback__limit=0):
        infer_shape_db.default_query.rewrite(fgraph)
        topo_constant_folding.rewrite(fgraph)
    return list(fgraph.inputs), list(fgraph.outputs)
