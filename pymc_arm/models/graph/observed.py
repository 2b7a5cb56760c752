"""Of a table of probabilities, what was observed.

The density of a category is looked up in a table with a row for each observation and a column for
each category: an ordered probit model of 1000 rows and five categories computes 5000 logarithms of
differences of distribution functions, and takes 1000. Here the places that are looked up are known
beforehand, and what leads to the table is computed at these alone (:mod:`elements`).

PyMC also checks that the whole table is one of probabilities, for which all of it would have to be
computed. Whether it can fail is asked of its values: at draws of the prior, and at points up to
a hundred times as far apart. Cutpoints in the wrong order, or probabilities that are linear in a
parameter, make it fail at half of them. Where it never does, it is left out; else nothing changes.
"""

import logging
import warnings

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.tensor.subtensor import indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.elements import LOOK_UPS, pick
from pymc_arm.models.graph.forms import is_constant, scalar_kind
from pymc_arm.models.graph.interpret import read_graph
from pymc_arm.models.graph.reuse import compile_batched
from pymc_arm.models.graph.shapes import fix_shapes
from pymc_arm.models.graph.verification import Reference

__all__ = ["compute_observed"]

_log = logging.getLogger("pymc")

# Where a check is tried: prior draws, moved by so many of their standard deviations.
SPREADS = (0.0, 1.0, 10.0, 100.0)
# Points at each of them, fewer where they would take more elements than this altogether, but not
# less than the fewest: a check that fails in half of all directions passes ten with 0.001.
TRIED, FEWEST, ELEMENTS = 100, 10, 20_000_000
COMPARISONS = (scalar.LT, scalar.LE, scalar.GT, scalar.GE, scalar.EQ)


def compute_observed(
    x: TensorVariable, graph: TensorVariable, points: np.ndarray
) -> TensorVariable:
    """Return terms that compute no more of a table than is looked up in it.

    Parameters
    ----------
    x
        The vector of coordinates.
    graph
        A vector of terms over x.
    points
        Draws of the prior, (size, dimension).

    Returns
    -------
    TensorVariable
        The graph itself if it has no such table, if that may not be one of probabilities
        everywhere, or if nothing would be saved.
    """
    variables = list(ancestors([graph]))
    # Data that will be exchanged, as between simulations, are no known places.
    if any(getattr(variable.tag, "exchangeable", False) for variable in variables):
        return graph
    owners = (v.owner for v in variables)
    if not any(node is not None and isinstance(node.op, LOOK_UPS) for node in owners):
        return graph
    points = points[np.isfinite(points).all(axis=1)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            (fixed,) = fix_shapes([x], [graph])
            unchecked = _without_checks(x, fixed, points)
            found = min((fixed, unchecked, _with_elements(x, unchecked)), key=_elements)
            if found is fixed or not _is_same(x, graph, found, points):
                return graph
    except Exception as error:  # rewrites raise anything: the graph as it is remains
        _log.info("pymc_arm: a table is computed as a whole: %s: %s", type(error).__name__, error)
        return graph
    return found


def _is_look_up(node: Apply, x: Variable) -> bool:
    """Whether a node takes known elements, one by one, of an array that depends on x."""
    if not isinstance(node.op, LOOK_UPS):
        return False
    table, *indices = node.inputs
    return x in ancestors([table]) and x not in ancestors(indices)


def _without_checks(x: TensorVariable, graph: TensorVariable, points: np.ndarray) -> TensorVariable:
    """Return a graph without those checks of arrays that never fail."""
    kept = {}
    for variable in ancestors([graph]):
        node = variable.owner
        if node is None or scalar_kind(node) is not scalar.Switch:
            continue
        valid, value, otherwise = node.inputs
        if (
            all(valid.type.broadcastable)
            and is_constant(otherwise, -np.inf)
            and value.type == variable.type
            and x in ancestors([valid])
            and _never_fails(x, valid, points)
        ):
            kept[variable] = value
    return graph_replace([graph], kept, strict=False)[0] if kept else graph


def _never_fails(x: TensorVariable, valid: TensorVariable, points: np.ndarray) -> bool:
    """Whether a condition holds at all points where what it compares are numbers."""
    compared = {
        argument
        for variable in ancestors([valid])
        if variable.owner is not None and scalar_kind(variable.owner) in COMPARISONS
        for argument in variable.owner.inputs
        if argument.type.dtype.startswith("float") and x in ancestors([argument])
    }
    if not compared:
        return False
    known = pt.all([pt.all(~(pt.isnan(argument) | pt.isinf(argument))) for argument in compared])
    elements = max(1, _elements(valid))
    each = int(np.clip(ELEMENTS // (len(SPREADS) * elements), FEWEST, TRIED))
    rng = np.random.default_rng(0)
    some = points[:each]
    spread = points.std(axis=0)
    tried = np.concatenate([some + far * spread * rng.normal(size=some.shape) for far in SPREADS])
    rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
    graphs = [pt.all(valid)[None], known[None]]
    function = compile_batched([x], {x: rows}, graphs, rewrites="none")
    holds, counts = (part.ravel().astype(bool) for part in function(tried))
    # The first are draws of the prior: of those most must tell.
    return bool((holds | ~counts).all() and counts.sum() > 0.5 * len(tried))


def _with_elements(x: TensorVariable, graph: TensorVariable) -> TensorVariable:
    """Return a graph in which what is looked up is computed element by element."""
    nodes = dict.fromkeys(v.owner for v in ancestors([graph]) if v.owner is not None)
    picked = {}
    for node in nodes:
        if not _is_look_up(node, x):
            continue
        table, result = node.inputs[0], node.outputs[0]
        indices = _places(node)
        if indices is None or np.broadcast_shapes(*(i.shape for i in indices)) == table.type.shape:
            continue
        found = pick(table, indices)
        if found.type.dtype == result.type.dtype and found.type.ndim == result.type.ndim:
            picked[result] = result.type.filter_variable(found)
    return graph_replace([graph], picked, strict=False)[0] if picked else graph


def _places(node: Apply) -> list[np.ndarray] | None:
    """Return the places that a node looks up along each axis, if there are some for each."""
    table, *given = node.inputs
    idx_list = getattr(node.op, "idx_list", None)
    entries = indices_from_subtensor(given, idx_list) if idx_list else given
    whole = all(
        isinstance(entry, Variable) and getattr(entry.type, "dtype", "").startswith(("int", "uint"))
        for entry in entries
    )
    if len(entries) != table.type.ndim or not whole or None in table.type.shape:
        return None
    values = read_graph(FunctionGraph([], list(entries), clone=True), by_perform=True)()
    dimensions = max(np.ndim(value) for value in values)
    padded = [
        np.reshape(value, (1,) * (dimensions - np.ndim(value)) + np.shape(value))
        for value in values
    ]
    lengths = zip(padded, table.type.shape, strict=True)
    return [value.astype(np.int64) % length for value, length in lengths]


def _elements(graph: TensorVariable) -> int:
    """Return how many numbers the operations of a graph compute, as far as shapes are known."""
    outputs = (v for v in ancestors([graph]) if v.owner is not None)
    return sum(
        int(np.prod([1 if n is None else n for n in v.type.shape]))
        for v in outputs
        if hasattr(v.type, "shape")
    )


def _is_same(
    x: TensorVariable, before: TensorVariable, after: TensorVariable, points: np.ndarray
) -> bool:
    """Whether two graphs have the same values at prior draws."""
    own = Reference(x, [before], points)
    program = read_graph(FunctionGraph([x], [after], clone=True), by_perform=True)
    return (
        bool(len(own.points))
        and own.compare(lambda rows: np.stack([np.ravel(program(row)[0]) for row in rows])) is None
    )
