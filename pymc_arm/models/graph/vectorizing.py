"""PyTensor's ``vectorize_graph``, one node at a time.

Many nodes work out the length of their axes from all that comes before them. In a graph that is a
chain (variables declared in a loop of Python, each given the one before) this takes a time that
grows with the square of its length: 28 CPU seconds for the prior of 60 states. So each node is
vectorized on places of the same types as its inputs, and put where it belongs afterwards.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import _vectorize_node
from pytensor.graph.traversal import toposort, truncated_graph_inputs

__all__ = ["put_in_place", "vectorize"]


def vectorize(outputs: Sequence[Variable], replace: Mapping[Any, Variable]) -> list[Any]:
    """Return graphs with more axes on the left, where some of their variables have more.

    Parameters
    ----------
    outputs
        The graphs.
    replace
        From variables to those that have more axes.
    """
    inputs = truncated_graph_inputs(outputs, ancestors_to_include=replace.keys())
    known: dict[Variable, Variable] = {one: replace.get(one, one) for one in inputs}
    for node in toposort(outputs, blockers=inputs):
        given = [known.get(one, one) for one in node.inputs]
        if all(new is old for new, old in zip(given, node.inputs, strict=True)):
            continue
        places = {
            new: new.type()
            for new, old in zip(given, node.inputs, strict=True)
            if new is not old and new.owner is not None
        }
        found = _vectorize_node(node.op, node, *(places.get(one, one) for one in given))
        found = found.outputs if isinstance(found, Apply) else found
        results = put_in_place(found, {place: one for one, place in places.items()})
        for output, result in zip(node.outputs, results, strict=True):
            known.setdefault(output, result)
    return [known.get(output, output) for output in outputs]


def put_in_place(graphs: Sequence[Variable], given: Mapping[Any, Variable]) -> list[Variable]:
    """Return graphs with some of their variables replaced by others, which are not copied.

    PyTensor's ``graph_replace`` loses count where one of these is an ancestor of another.
    """
    known: dict[Variable, Variable] = dict(given)
    for node in toposort(graphs, blockers=given.keys()):
        inputs = [known.get(one, one) for one in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            # Of the same types they leave the node as it is: its axes are known.
            same = all(new.type == old.type for new, old in zip(inputs, node.inputs, strict=True))
            changed = node.clone_with_new_inputs(inputs, strict=same)
            known.update(zip(node.outputs, changed.outputs, strict=True))
    return [known.get(graph, graph) for graph in graphs]
