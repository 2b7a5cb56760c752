"""Evaluating a batched graph with NumPy, without compiling anything.

A graph that is batched over a thousand particles spends its time inside array operations, so an
interpreter that calls NumPy for each of them is within a small factor of compiled code and starts
at once, where numba takes 5 to 60 seconds for a model it has not seen. It needs every operation to
be one array operation. Some scalar functions and some batched ones have no such form in PyTensor
and get one in the table (:mod:`~pymc_arm.models.graph.operations`); a graph with any other
(:attr:`Program.vectorized`) is better compiled.
"""

from collections.abc import Sequence
from typing import Any

import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer, in2out
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.scalar import Add, Mul, Neg, Reciprocal, Sub, TrueDiv
from pytensor.tensor.variable import TensorVariable

# The entries of the table register themselves.
from pymc_arm.models.graph import (  # noqa: F401
    elementwise,
    indexing,
    linear_algebra,
    loops,
    reductions,
    softmax,
)
from pymc_arm.models.graph.operations import array_function, own_function, perform_function
from pymc_arm.models.graph.program import Instruction, Program, Rewrites

__all__ = ["compile_with_numpy", "read_graph", "rewrite_large"]

# Graphs with more nodes than this are merged and made stable only. Bringing them to a canonical
# form takes a time that grows with the square of their size: 1.6 and 5.0 CPU seconds for 100 and
# 200 steps of Euler's method that are not a loop (905 and 1805 nodes with the gradient). What is
# left takes 0.3 and 0.4, and 0.9 for 400 steps. All rewrites of the gradient of 100 steps of
# Runge-Kutta's (9906 nodes) took 59.
MANY_NODES = 2_000

# These follow each summand on each of its ways through sums of sums. A seasonal term is minus the
# sum of the eleven before it, so that each step doubles the ways; 20 steps took minutes.
CANONIZERS = ("local_add_canonizer", "local_mul_canonizer")
SUMS, PRODUCTS = (Add, Sub, Neg), (Mul, TrueDiv, Reciprocal)
MOST_WAYS = 10_000


def compile_with_numpy(
    inputs: Sequence[Variable],
    *outputs: TensorVariable,
    trusted: bool = False,
    by_perform: bool = False,
    rewrites: Rewrites = "all",
) -> Program:
    """Return an interpreted function, with all rewrites that simplify and stabilise, or fewer.

    A trusted graph loses what asserts that shapes agree, which is half of a gradient. For
    ``by_perform`` see :func:`read_graph`.
    """
    fgraph = FunctionGraph(list(inputs), list(outputs), clone=True)
    if rewrites == "none":
        MergeOptimizer().rewrite(fgraph)
        return read_graph(fgraph, by_perform)
    kept = ["local_remove_all_assert"] if trusted else []
    if len(fgraph.apply_nodes) > MANY_NODES:
        few = fgraph.clone()
        rewrite_large(few, trusted)
        program = read_graph(few, by_perform)
        if program.vectorized:
            return program
    some = ["fast_run", "py_only"] if rewrites == "all" else ["merge", "canonicalize"]
    _rewrite(fgraph, [*some, *kept])
    return read_graph(fgraph, by_perform)


def rewrite_large(fgraph: FunctionGraph, trusted: bool = True) -> None:
    """Merge what is the same in a large graph, and make it stable, in place."""
    _rewrite(fgraph, ["stabilize", "merge", *(["local_remove_all_assert"] if trusted else [])])


def _rewrite(fgraph: FunctionGraph, included: Sequence[str]) -> None:
    """Apply the rewrites with some tags, in place."""
    # Fused operations exist for compilers; here they would run element by element. Nor do factors
    # that several solves share have a form for batches.
    query = RewriteDatabaseQuery(
        include=list(included),
        exclude=[
            *(CANONIZERS if _is_tangled(fgraph) else ()),
            "fusion",
            "inplace",
            "BlasOpt",
            "cxx_only",
            "numba",
            "reuse_decomposition_multiple_solves",
            # It tries products over sums without an end in the gradient of an ODE's steps.
            "local_greedy_distributor",
            # In PyTensor 2 it fails on batches.
            "slogdet_specialization",
        ],
    )
    # The rewrites alone: a function of PyTensor's would also compile what is inside of scans.
    # Nor traces of where nodes were made: rewrites join them until memory is full.
    with pytensor.config.change_flags(mode="FAST_COMPILE", traceback__limit=0):
        Mode(linker="py", optimizer=query).optimizer.rewrite(fgraph)
        in2out(linear_algebra.take_log_determinants).rewrite(fgraph)
    for node in fgraph.apply_nodes:
        node.tag.rewritten = True


def _is_tangled(fgraph: FunctionGraph) -> bool:
    """Whether sums of sums, or products of products, share their parts over and over."""
    ways: dict[Variable, float] = {}
    for node in fgraph.toposort():
        scalar = getattr(node.op, "scalar_op", None)
        kind = next((kind for kind in (SUMS, PRODUCTS) if isinstance(scalar, kind)), None)
        if kind is None:
            continue
        count = 0.0
        for variable in node.inputs:
            own = getattr(variable.owner, "op", None)
            same = isinstance(getattr(own, "scalar_op", None), kind)
            count += ways.get(variable, 1.0) if same else 1.0
        if count > MOST_WAYS:
            return True
        ways[node.outputs[0]] = count
    return False


def read_graph(fgraph: FunctionGraph, by_perform: bool = False) -> Program:
    """Return a graph as array operations; by PyTensor's own ``perform`` of each, if so asked."""
    places: dict[Variable, int] = {variable: k for k, variable in enumerate(fgraph.inputs)}
    constants: dict[int, Any] = {}
    instructions: list[Instruction] = []
    vectorized = True

    def place_of(variable: Variable) -> int:
        if variable not in places:
            places[variable] = len(places)
            constants[places[variable]] = variable.data
        return places[variable]

    for node in fgraph.toposort():
        sources = tuple(place_of(variable) for variable in node.inputs)
        for variable in node.outputs:
            places[variable] = len(places)
        function = (own_function if by_perform else array_function)(node.op, node)
        vectorized &= function is not None
        targets = tuple(places[variable] for variable in node.outputs)
        execute = function or perform_function(node)
        instructions.append(Instruction(execute, sources, targets, type(node.op)))
    outputs = [place_of(variable) for variable in fgraph.outputs]
    return Program(range(len(fgraph.inputs)), outputs, constants, instructions, vectorized)
