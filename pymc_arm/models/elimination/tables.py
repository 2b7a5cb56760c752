"""The tables of a model's terms: each at all values of the discrete variables that it depends on.

Variables that share no term have the same color, and all of a color take the same value at once. So
the transitions of a chain of K states take K^2 evaluations of all of them, however long it is, and
its emissions take K. What does not depend on the discrete variables is evaluated once.
"""

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import in2out

from pymc_arm._compat import COMPILING
from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.graph import color_graph, connect
from pymc_arm.models.graph.batching import copy_graphs, open_graph
from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.support import Support

__all__ = ["Group", "WeightedGradient", "as_rows", "evaluate_group", "make_groups", "spread"]

# Elements of the largest array that a gradient makes at once; see CHUNK of graph/gradient.py.
CHUNK = 65_536


@dataclass(frozen=True)
class Group:
    """Terms that are evaluated together.

    Attributes
    ----------
    terms
        Which of the density they are.
    scopes
        The discrete coordinates that each depends on, in the order of the axes of its table.
    shape
        That of the table of each.
    columns
        All coordinates that are set.
    values
        What they are set to, (cells, columns).
    constant
        Whether the tables are the same whatever the other coordinates are.
    """

    terms: np.ndarray
    scopes: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    columns: np.ndarray
    values: np.ndarray
    constant: bool

    @property
    def cells(self) -> int:
        """The number of evaluations."""
        return math.prod(self.shape)


def make_groups(
    scopes: np.ndarray, terms: np.ndarray, supports: Mapping[int, Support]
) -> list[Group]:
    """Divide terms by the colors of the discrete coordinates that they depend on.

    Those that depend on nothing else, such as fixed transitions, have groups of their own.

    Parameters
    ----------
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    terms
        Those that depend on discrete coordinates that are summed.
    supports
        The supports of these coordinates.
    """
    coordinates = np.array(sorted(supports), dtype=int)
    own = [tuple(coordinates[scopes[term, coordinates]].tolist()) for term in terms]
    kinds: dict[Support, int] = {}
    kind_of = {c: kinds.setdefault(supports[c], len(kinds)) for c in supports}
    neighbours = connect([*own, *((c,) for c in supports)])
    colors = color_graph(neighbours, kind_of)
    constant = scopes[terms].sum(axis=1) == [len(scope) for scope in own]
    members: dict[tuple[bool, bool, tuple[int, ...]], list[int]] = {}
    for place, scope in enumerate(own):
        # Coordinates of one kind can all be set at once where terms depend on one of them only.
        single = len(scope) == 1
        chosen = (kind_of[scope[0]],) if single else tuple(sorted(colors[c] for c in scope))
        members.setdefault((bool(constant[place]), single, chosen), []).append(place)
    groups = []
    for (fixed, single, chosen), places in members.items():
        ordered = tuple(tuple(sorted(own[p], key=colors.__getitem__)) for p in places)
        first = ordered[0]
        axis_of = {colors[c]: axis for axis, c in enumerate(first)}
        if single:
            axis_of = {colors[c]: 0 for c in supports if kind_of[c] == chosen[0]}
        columns = np.array([c for c in coordinates if colors[c] in axis_of], dtype=int)
        grid = np.array(list(itertools.product(*(supports[c].values for c in first))))
        values = grid[:, [axis_of[colors[c]] for c in columns.tolist()]]
        shape = tuple(supports[c].count for c in first)
        groups.append(Group(terms[places], ordered, shape, columns, values, fixed))
    return groups


def evaluate_group(density: LogDensity, group: Group, points: np.ndarray) -> np.ndarray:
    """Return the tables of a group, (cells, terms, points); for one point if they are constant."""
    if group.constant:
        points = points[:1]
    values = np.broadcast_to(group.values, (len(points), *group.values.shape))
    found = density.terms_at(points, group.columns, values, group.terms)
    return np.ascontiguousarray(found.transpose(1, 2, 0))


class WeightedGradient:
    """The gradient of sum_k w_k t_k(x) for weights that differ from point to point.

    Parameters
    ----------
    density
        The compiled terms.
    terms
        Which of them.
    """

    def __init__(self, density: LogDensity, terms: np.ndarray) -> None:
        x, graphs, counts = density.graphs_of(terms)
        row = pt.tensor("weights", dtype="float64", shape=(len(terms),))
        rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
        weights = pt.tensor("W", dtype="float64", shape=(None, len(terms)))
        with COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Piece by piece: PyTensor 3.3 loses count when it batches the gradient of a join.
            total, first = pt.zeros(()), 0
            for graph, count in zip(graphs, counts, strict=True):
                own = row[first : first + count]
                # A cell that has no share may be -inf, which zero times would make a NaN.
                total += pt.sum(pt.switch(pt.neq(own, 0), own * graph, 0.0))
                first += count
            gradient = pytensor.grad(total, x, disconnected_inputs="ignore")
            fgraph = FunctionGraph([x, row], copy_graphs(x, [gradient]), clone=False)
            in2out(open_graph).rewrite(fgraph)
            batched = vectorize_graph(list(fgraph.outputs), {x: rows, row: weights})
            self._program = compile_with_numpy([rows, weights], *batched, trusted=True)
        #: Whether no operation is a loop in Python.
        self.vectorized = self._program.vectorized
        some = density.reference[:2]
        trial = np.ones((len(some), len(terms)))
        elements = self._program.elements_per_point(some, trial)
        self._chunk = max(1, CHUNK // max(len(terms), some.shape[1], elements))

    def __call__(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gradients, (size, dimension), for weights (size, terms)."""
        result = np.empty(points.shape)
        for first in range(0, len(points), self._chunk):
            part = slice(first, first + self._chunk)
            (result[part],) = self._program(points[part], weights[part])
        return result


def spread(points: np.ndarray, group: Group) -> np.ndarray:
    """Return points at all values of a group, those of a point next to each other."""
    many = np.repeat(points, group.cells, axis=0)
    many[:, group.columns] = np.tile(group.values, (len(points), 1))
    return many


def as_rows(weights: np.ndarray) -> np.ndarray:
    """Return weights of cells, (cells, terms, points), as rows for spread points."""
    return np.ascontiguousarray(weights.transpose(2, 0, 1)).reshape(-1, weights.shape[1])
