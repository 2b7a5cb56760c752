"""From the graph of one random draw to the graph of many, along a new first axis.

What vectorizes a graph follows what depends on the variables that it is given. A random
variable that depends on none of them would be drawn once and shared by all, so each of those is
enlarged first. The operations that it can't follow are brought into a form that it can.
"""

from collections.abc import Sequence

import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable, clone_get_equiv
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import ScalarFromTensor
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import CLONE_INNER_GRAPHS, inline_ofg_node
from pymc_arm.models.graph.drawing_loops import DrawingLoop, replace_drawing_loops
from pymc_arm.models.graph.vectorizing import vectorize

__all__ = ["batch_draws", "copy_graphs", "open_graph"]


def batch_draws(
    outputs: Sequence[TensorVariable], variables: Sequence[TensorVariable], size: TensorVariable
) -> list[TensorVariable]:
    """Return the graphs of independent draws of the outputs, with a first axis of a given size.

    Parameters
    ----------
    outputs
        Graphs of one draw each.
    variables
        The random variables that they are made of.
    size
        The number of draws.
    """
    named = set(variables)
    roots = [rv for rv in variables if not (set(ancestors([rv])) - {rv}) & named]
    enlarged = [change_dist_size(rv, (size,), expand=True) for rv in roots]
    if len(roots) == len(variables):
        return vectorize(outputs, dict(zip(roots, enlarged, strict=True)))
    places = [rv.type() for rv in roots]
    graphs = clone_replace(outputs, dict(zip(roots, places, strict=True)))
    return _batch(graphs, dict(zip(places, enlarged, strict=True)), size)


def _batch(
    graphs: Sequence[Variable], replacements: dict[Variable, Variable], size: TensorVariable
) -> list[TensorVariable]:
    """Return graphs of many draws, with these in place of some of their variables.

    What is drawn and depends on none of them is enlarged.
    """
    graphs = _make_followable(graphs, size)
    for node in toposort(graphs):
        if not replacements.keys().isdisjoint(ancestors(node.inputs)):
            continue
        if isinstance(node.op, RandomVariable):
            larger = change_dist_size(node.outputs[1], (size,), expand=True)
            replacements |= dict(zip(node.outputs, larger.owner.outputs, strict=True))
        elif isinstance(node.op, DrawingLoop):
            loop = node.op.batched(node.inputs, node)
            replacements |= dict(zip(node.outputs, loop.outputs, strict=True))
    return vectorize(graphs, replacements)


def _make_followable(graphs: Sequence[Variable], size: TensorVariable) -> list[TensorVariable]:
    """Rewrite graphs, in place, into operations that PyTensor can batch."""
    inputs = [v for v in ancestors(graphs) if v.owner is None and not isinstance(v, Constant)]
    fgraph = FunctionGraph([*inputs, size], list(graphs), clone=False)
    in2out(open_graph).rewrite(fgraph)
    in2out(replace_drawing_loops(size, _batch), ignore_newtrees=True).rewrite(fgraph)
    for rewriter in (_spread_parameters, _name_the_index):
        in2out(rewriter, ignore_newtrees=True).rewrite(fgraph)
    return list(fgraph.outputs)


def copy_graphs(x: TensorVariable, graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs over x, inner graphs included: PyTensor 2 rewrites those in place.

    The gradient of a scan that was compiled before can't be derived.
    """
    inputs = [v for v in ancestors(graphs) if v.owner is None and not isinstance(v, Constant)]
    copies = clone_get_equiv(inputs, graphs, copy_inputs=False, **CLONE_INNER_GRAPHS)
    return [copies[graph] for graph in graphs]


@node_rewriter([OpFromGraph])
def open_graph(fgraph: FunctionGraph, node: Apply) -> list[Variable]:
    """Put the inside of an operation in its place: it can be batched where the whole can't."""
    return inline_ofg_node(node)


@node_rewriter([RandomVariable])
def _spread_parameters(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Give all parameters of a variable the same axes: PyTensor looks for a batch in the first."""
    random, size, *parameters = node.inputs
    if any(node.op.ndims_params) or len(parameters) < 2:
        return None
    spread: list[Variable] = node.op.make_node(
        random, size, *pt.broadcast_arrays(*parameters)
    ).outputs
    return spread


@node_rewriter([ScalarFromTensor])
def _name_the_index(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Put a variable between a draw and its use as an index.

    PyTensor takes all results of an operation for the index, and the draw is the second of two.
    """
    (index,) = node.inputs
    if index.owner is not None and len(index.owner.outputs) == 1:
        return None
    return [pt.scalar_from_tensor(pt.tensor_copy(index))]
