"""The modes of the summands (branches) of a log-density that is a mixture.

A density that is a sum of several, log(exp(a) + exp(b)), has a narrow mode that nothing outside of
it shows: far away the wider branch is larger, and climbs, trajectories and prior draws see that
alone. But the graph names its branches. With one branch in place of the sum, a climb sees this
branch from anywhere; where it ends, a climb of the whole density begins.

So are discrete variables that are summed, if they have few values: a climb takes each of them.

Only a sum that is a single number is taken apart: one of many elements (a mixture for each of many
observations) has as many combinations of branches.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as special
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.estimation.climbs import climb
from pymc_arm.models.density import Density, LogDensity
from pymc_arm.models.elimination.density import EliminatedDensity
from pymc_arm.models.graph.forms import scalar_kind
from pymc_arm.models.graph.gradient import Gradient
from pymc_arm.models.graph.loops import has_loop

__all__ = ["branch_modes", "find_mixtures"]

# Branches that are climbed, of all mixtures together. Each takes some dozens of gradients.
MOST_BRANCHES = 32
# With fewer coordinates than this, prior draws show what there is, and the values of discrete
# variables are not climbed one by one: another gradient takes half a second to compile.
SMALLEST_DIMENSION = 3
# Operations that move or add elements, and do nothing else to them.
REARRANGING = (DimShuffle, Sum, Reshape, SpecifyShape, Join, MakeVector)
# Climbs of a branch: from the middle of the prior and from some of its draws. A branch is a single
# density in all that was seen, and one start would do.
STARTS = 4


class Mixture(NamedTuple):
    """The logarithm of a sum of densities in a graph, and the logarithms of what is added."""

    total: TensorVariable
    branches: list[TensorVariable]


def branch_modes(density: Density) -> np.ndarray:
    """Return the modes that a density would have with one branch of a mixture alone.

    Parameters
    ----------
    density
        Of a model whose variables are all continuous.

    Returns
    -------
    numpy.ndarray
        (size, dimension); empty where no mixture is found, or its gradient is not to be had.
    """
    if isinstance(density, EliminatedDensity):
        return _modes_of_configurations(density)
    if isinstance(density, LogDensity):
        return _modes_of_branches(density)
    return np.zeros((0, density.reference.shape[1]))


def _modes_of_branches(density: LogDensity) -> np.ndarray:
    """Climb with one branch in place of each sum that the graph takes."""
    none = np.zeros((0, density.reference.shape[1]))
    x, pieces = density.gradient.graphs
    lengths = [size for sizes in density.piece_sizes for size in sizes]
    copies: list[TensorVariable] = []
    selections: list[tuple[list[int], list[int]]] = []
    sizes = list(lengths)
    for total, branches in find_mixtures(pieces):
        # The last of many sums: all others are inside of the loop. Another gradient of a hidden
        # Markov model takes 10 s.
        if has_loop([total]):
            continue
        own = [n for n, piece in enumerate(pieces) if total in ancestors([piece])]
        for branch in branches[: MOST_BRANCHES - len(selections)]:
            replaced = graph_replace([pieces[n] for n in own], {total: branch}, strict=False)
            first = len(pieces) + len(copies)
            selections.append((own, list(range(first, first + len(own)))))
            copies += replaced
            sizes += [lengths[n] for n in own]
    starts = _starts(density)
    if not selections or len(starts) < STARTS:
        return none
    gradient = Gradient(x, [*pieces, *copies], np.array(sizes), starts, [], by_row=True)
    use = np.zeros((len(selections), len(sizes)))
    use[:, : len(pieces)] = 1.0
    for row, (without, instead) in zip(use, selections, strict=True):
        row[without], row[instead] = 0.0, 1.0
    weights = np.repeat(np.repeat(use, sizes, axis=1), STARTS, axis=0)
    return _climb(gradient, weights, np.tile(starts[:STARTS], (len(selections), 1)), starts)


def _modes_of_configurations(density: EliminatedDensity) -> np.ndarray:
    """Climb with each of the values of discrete variables that are summed, if they are few."""
    values, starts = density.configurations(MOST_BRANCHES), _starts(density.whole)
    if not len(values) or len(starts) < STARTS or len(density.kept) < SMALLEST_DIMENSION:
        return np.zeros((0, len(density.kept)))
    x, pieces = density.whole.gradient.graphs
    lengths = [size for sizes in density.whole.piece_sizes for size in sizes]
    gradient = Gradient(x, pieces, np.array(lengths), starts, [], by_row=True)
    rows = np.tile(starts[:STARTS], (len(values), 1))
    summed = np.delete(np.arange(rows.shape[1]), density.kept)
    rows[:, summed] = np.repeat(values, STARTS, axis=0)
    found = _climb(gradient, np.ones((len(rows), sum(lengths))), rows, starts)
    return found[:, density.kept]


def _starts(density: LogDensity) -> np.ndarray:
    """Return the middle of the prior, and draws of it."""
    prior = density.reference[np.isfinite(density.reference).all(axis=1)]
    return np.concatenate([np.median(prior, axis=0)[None], prior]) if len(prior) else prior


def _climb(
    gradient: Gradient, weights: np.ndarray, rows: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    """Return the best end of each group of climbs; none where there is no gradient."""
    if not gradient.available():
        return rows[:0]
    low, high = np.quantile(reference, [0.16, 0.84], axis=0)
    with np.errstate(all="ignore"):
        ends, heights = climb(
            lambda points, climbs: gradient(points, weights[climbs])[0],
            lambda points, climbs: gradient(points, weights[climbs])[1],
            rows,
            np.clip(0.5 * (high - low), 1e-8, 1e8),
            by_row=True,
        )
    best = np.argmax(np.nan_to_num(heights, nan=-np.inf).reshape(-1, STARTS), axis=1)
    modes: np.ndarray = ends.reshape(-1, STARTS, ends.shape[1])[np.arange(len(best)), best]
    return modes


def find_mixtures(graphs: Sequence[TensorVariable]) -> list[Mixture]:
    """Return the logarithms of sums in graphs that are a single number, the outermost first.

    They have the forms of :mod:`pymc_arm.models.stable_logarithms`, and are added to the
    log-density as they are: the logarithm of a sum that makes the parts of a simplex add up to one
    is no mixture.
    """
    found: list[Mixture] = []
    inside: set[Variable] = set()
    added = _added(graphs)
    variables = [v for v in ancestors(graphs) if v.owner is not None and v in added]
    for variable in variables:
        if variable in inside or not _is_single(variable):
            continue
        branches = list(_open(variable, inside))
        if len(branches) > 1 and all(_is_alike(branch, variable) for branch in branches):
            found.append(Mixture(variable, branches))
    return found


def _added(graphs: Sequence[Variable]) -> set[Variable]:
    """Return what is added up to graphs, itself or its elements, without a factor."""
    found: set[Variable] = set()
    waiting = list(graphs)
    while waiting:
        variable = waiting.pop()
        if variable in found:
            continue
        found.add(variable)
        node = variable.owner
        if node is None:
            continue
        kind = scalar_kind(node)
        if isinstance(node.op, REARRANGING) or kind in (scalar.Add, scalar.Identity):
            waiting += node.inputs
        elif kind is scalar.Switch:
            waiting += node.inputs[1:]
        elif isinstance(node.op, CheckAndRaise | Subtensor) or kind is scalar.Sub:
            waiting += node.inputs[:1]
    return found


def _open(variable: TensorVariable, inside: set[Variable]) -> Iterator[TensorVariable]:
    """Yield what a sum adds, in logarithms; a variable that is no such sum is one by itself."""
    node = variable.owner
    parts = None if node is None else (_two_of(node) or _many_of(node))
    if parts is None:
        yield variable
        return
    inside.add(variable)
    first, *others = parts
    # Three are the logarithm of the first two, and the third.
    yield from _open(first, inside) if node is not None and _two_of(node) else [first]
    yield from others


def _two_of(node: Apply) -> list[TensorVariable] | None:
    """Return a and b of a + softplus(b - a)."""
    if scalar_kind(node) is not scalar.Add or len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        more = other.owner
        if more is None or scalar_kind(more) is not special.Softplus:
            continue
        below = more.inputs[0].owner
        if below is not None and scalar_kind(below) is scalar.Sub and below.inputs[1] is one:
            return [one, below.inputs[0]]
    return None


def _many_of(node: Apply) -> list[TensorVariable] | None:
    """Return the elements of l in log(sum(exp(l - m))) + m."""
    if scalar_kind(node) is not scalar.Add or len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        logarithm = other.owner
        if logarithm is None or scalar_kind(logarithm) is not scalar.Log:
            continue
        total = logarithm.inputs[0].owner
        if total is not None and isinstance(total.op, DimShuffle):
            total = total.inputs[0].owner
        if total is None or not isinstance(total.op, Sum):
            continue
        power = total.inputs[0].owner
        if power is None or scalar_kind(power) is not scalar.Exp:
            continue
        below = power.inputs[0].owner
        if below is None or scalar_kind(below) is not scalar.Sub or below.inputs[1] is not one:
            continue
        logs = below.inputs[0]
        shape = logs.type.shape
        if None in shape or not 1 < np.prod(shape) <= MOST_BRANCHES:
            return None
        flat = logs.ravel()
        return [flat[k].reshape((1,) * logs.type.ndim) for k in range(int(np.prod(shape)))]
    return None


def _is_single(variable: Variable) -> bool:
    """Whether a graph has one element."""
    shape = getattr(variable.type, "shape", (None,))
    return all(length == 1 for length in shape)


def _is_alike(branch: TensorVariable, total: TensorVariable) -> bool:
    """Whether a branch can stand where the sum does."""
    return bool(branch.type.ndim == total.type.ndim and branch.type.dtype == total.type.dtype)
