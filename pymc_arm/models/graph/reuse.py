"""Batched functions of graphs that differ in their data alone, rewritten once.

Rewriting a graph takes most of the time of a short run. Hundreds of data sets of the same model
(:func:`pymc_arm.calibrate`, :func:`pymc_arm.design`) have graphs of the same structure, so that the
program of the first serves all of them: data that are marked as such become arguments of it, and
what depends on them alone is evaluated again. A graph that is the same in everything is known too.
Where many models are looked at before any is run (:mod:`pymc_arm.comparison.screening`), all arrays
count as data.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_arm.models.graph.added_parts import add_parts
from pymc_arm.models.graph.interpret import (
    compile_with_numpy,
    read_graph,
    rewrite_large,
)
from pymc_arm.models.graph.program import Program, Rewrites
from pymc_arm.models.graph.shapes import fix_shapes
from pymc_arm.models.graph.vectorizing import vectorize

__all__ = ["compile_batched", "compile_gradient", "exchangeable", "plain_gradient"]

# Programs that are kept: a model takes three, and a comparison by simulation has a few models.
MOST_KEPT = 24
# Graphs with larger constants than this are not kept: rewriting is not what they spend time on.
MOST_ELEMENTS = 100_000

_known: OrderedDict[Hashable, Program] = OrderedDict()


def exchangeable(data: np.ndarray, name: str | None = None) -> TensorConstant:
    """Return data as a constant that programs take as an argument."""
    array = np.asarray(data)
    constant = TensorConstant(TensorType(array.dtype, array.shape), array, name=name)
    constant.tag.exchangeable = True
    return constant


def compile_batched(
    inputs: Sequence[TensorVariable],
    batched: Mapping[Variable, Variable],
    graphs: Sequence[TensorVariable],
    *,
    trusted: bool = False,
    rewrites: Rewrites = "all",
) -> Program:
    """Return graphs as a function of many points at once, on NumPy.

    Parameters
    ----------
    inputs
        Of the graphs.
    batched
        Which of them get a new first axis, and the variables that have it.
    graphs
        To be evaluated.
    trusted, rewrites
        As of :func:`~pymc_arm.models.graph.interpret.compile_with_numpy`.
    """

    def compile_one(inputs: Sequence[Variable], graphs: Sequence[TensorVariable]) -> Program:
        many = _batch(inputs, batched, graphs)
        places = [batched.get(v, v) for v in inputs]
        return compile_with_numpy(places, *many, trusted=trusted, rewrites=rewrites)

    return _compile_once(inputs, batched, graphs, (trusted, rewrites), compile_one)


def compile_gradient(
    inputs: Sequence[TensorVariable],
    batched: Mapping[Variable, Variable],
    total: TensorVariable,
    differentiate: Callable[[TensorVariable, TensorVariable], TensorVariable],
) -> Program:
    """Return a scalar and its gradient in the first of the inputs, at many points at once.

    The graph is batched and rewritten before it is differentiated. Points do not depend on each
    other, so that the gradient of the sum over all of them has that of each in its row. It has
    several times as many nodes as the graph: to batch and rewrite those takes most of the time that
    a model written out step by step needs (100 steps of Runge-Kutta's method in two variables: 32
    CPU seconds, and 9 in this order).

    Parameters
    ----------
    inputs
        Of the graph; the first is a vector.
    batched
        Which of them get a new first axis, the first among them, and the variables that have it.
    total
        To be evaluated and differentiated.
    differentiate
        Returns the gradient of a scalar with respect to a variable.
    """

    def compile_one(inputs: Sequence[Variable], graphs: Sequence[TensorVariable]) -> Program:
        places = [batched.get(v, v) for v in inputs]
        fgraph = FunctionGraph(places, _batch(inputs, batched, graphs), clone=True)
        rewrite_large(fgraph)
        (values,), rows = fgraph.outputs, fgraph.inputs[0]
        gradient = differentiate(values.sum(), rows)
        both = FunctionGraph(fgraph.inputs, [values, gradient], clone=True)
        MergeOptimizer().rewrite(both)
        add_parts(both)
        return read_graph(both)

    return _compile_once(inputs, batched, [total], "gradient", compile_one)


def _compile_once(
    inputs: Sequence[TensorVariable],
    batched: Mapping[Variable, Variable],
    graphs: Sequence[TensorVariable],
    kind: Hashable,
    compile_one: Callable[[Sequence[Variable], Sequence[TensorVariable]], Program],
) -> Program:
    """Return the program of graphs for their data, compiled unless one of the same kind is kept."""
    data = [v for v in ancestors(graphs) if getattr(v.tag, "exchangeable", False)]
    key = _structure(inputs, data, graphs, (kind, *(v.type for v in batched.values())))
    values = [variable.data for variable in data]
    program = _recall(key)
    if program is not None:
        return program.bind(*values)
    places = [pt.tensor(dtype=v.type.dtype, shape=v.type.shape) for v in data]
    opened = clone_replace(list(graphs), dict(zip(data, places, strict=True))) if data else graphs
    program = compile_one([*inputs, *places], opened)
    if data and not program.vectorized:  # an operation may have an array form for constants only
        return compile_one(inputs, graphs)
    if program.vectorized:
        _keep(key, program)
    return program.bind(*values)


def plain_gradient(inputs: Sequence[TensorVariable], graph: TensorVariable) -> Program:
    """Return a scalar and its derivatives with respect to the inputs, without any rewrites.

    All arrays in the graph are exchanged, so that regressions on as many predictors, say, share one
    program, and only the first of them takes derivatives.
    """
    data = [v for v in ancestors([graph]) if isinstance(v, TensorConstant) and v.data.size > 1]
    key = _structure(inputs, data, [graph], "value and gradient")
    program = _recall(key)
    if program is None:
        places = [pt.tensor(dtype=v.type.dtype, shape=v.type.shape) for v in data]
        (opened,) = clone_replace([graph], dict(zip(data, places, strict=True)))
        slopes = pytensor.grad(opened, list(inputs), disconnected_inputs="ignore")
        fgraph = FunctionGraph([*inputs, *places], [opened, *slopes], clone=True)
        MergeOptimizer().rewrite(fgraph)
        program = read_graph(fgraph, by_perform=True)
        _keep(key, program)
    return program.bind(*(variable.data for variable in data))


def _recall(key: Hashable | None) -> Program | None:
    if key not in _known:
        return None
    _known.move_to_end(key)
    return _known[key]


def _keep(key: Hashable | None, program: Program) -> None:
    if key is not None:
        _known[key] = program
    if len(_known) > MOST_KEPT:
        _known.popitem(last=False)


def _batch(
    inputs: Sequence[Variable],
    batched: Mapping[Variable, Variable],
    graphs: Sequence[TensorVariable],
) -> list[TensorVariable]:
    """Return graphs with a new first axis for the points."""
    fixed = fix_shapes(inputs, graphs)
    many = vectorize(fixed, batched) if graphs else []
    for number, (graph, before) in enumerate(zip(fixed, graphs, strict=True)):
        # A term may have depended on a point by its size alone: it is one number for all points.
        alone = batched.keys().isdisjoint(ancestors([graph]))
        if alone and not batched.keys().isdisjoint(ancestors([before])):
            size = next(iter(batched.values())).shape[0]
            many[number] = pt.broadcast_to(graph, (size, *graph.shape))
    for variable in ancestors(many):
        # Rewrites join the traces of what they merge; those of some small models double until
        # memory is full.
        variable.tag.trace = []
    return many


def _structure(
    inputs: Sequence[Variable],
    data: Sequence[Variable],
    graphs: Sequence[Variable],
    more: Hashable,
) -> Hashable | None:
    """Return what two graphs have in common that are equal but for their data, or None."""
    numbers = {variable: number for number, variable in enumerate([*inputs, *data])}
    parts: list[Hashable] = [more, *(variable.type for variable in numbers)]
    elements = 0

    def number_of(variable: Variable) -> Hashable:
        nonlocal elements
        if variable in numbers:
            return numbers[variable]
        if not isinstance(variable, Constant):
            raise _UnknownInput
        elements += np.size(variable.data) if isinstance(variable, TensorConstant) else 0
        return _constant(variable)

    try:
        for node in toposort(graphs):
            parts.append((node.op, tuple(number_of(variable) for variable in node.inputs)))
            for variable in node.outputs:
                numbers[variable] = len(numbers)
                parts.append(variable.type)
        parts.append(tuple(number_of(variable) for variable in graphs))
        hash(key := tuple(parts))
    except (_UnknownInput, TypeError):  # something in it can't be compared
        return None
    return key if elements <= MOST_ELEMENTS else None


class _UnknownInput(Exception):
    """A graph has an input that is none of those given."""


def _constant(variable: Any) -> Hashable:
    if not isinstance(variable, TensorConstant):
        return (variable.type, variable.signature())
    digest = hashlib.sha256(np.ascontiguousarray(variable.data).tobytes()).digest()
    return (variable.type, np.shape(variable.data), digest)
