"""The tables of a model's terms: each at all values of the discrete variables that it depends on.

Variables that share no term have the same color, and all of a color take the same value at once. So
the transitions of a chain of K states take K^2 evaluations of all of them, however long it is, and
its emissions take K. What does not depend on the discrete variables is evaluated once.
"""

import functools
import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out

from pymc_arm._compat import COMPILING
from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.cover import cover_cells, cover_colors
from pymc_arm.models.elimination.graph import color_graph, connect
from pymc_arm.models.graph.batching import copy_graphs, open_graph
from pymc_arm.models.graph.first_axes import index_first_axes
from pymc_arm.models.graph.gradient import differentiate
from pymc_arm.models.graph.reuse import compile_batched
from pymc_arm.models.support import Support

__all__ = ["Group", "WeightedGradient", "as_rows", "evaluate_group", "make_groups", "spread"]

# Elements of the largest array that a gradient makes at once; see CHUNK of graph/gradient.py.
CHUNK = 65_536
# How many products of a matrix take as long as one term.
PRODUCT = 50
# Tables with fewer cells than this are not looked at for repetition, nor are those that would take
# more than a share of the evaluations all the same.
FEWEST_CELLS, LARGEST_SHARE = 16, 0.3
# Points at which tables must repeat themselves.
TRIED = 3


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
        What they are set to in each evaluation, (evaluations, columns).
    rows
        In which evaluation each cell of each term is found, (cells, terms).
    repeated
        Whether all tables have one scope and repeat themselves, so that cells share evaluations.
    constant
        Whether the tables are the same whatever the other coordinates are.
    """

    terms: np.ndarray
    scopes: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    columns: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    repeated: bool
    constant: bool

    @property
    def cells(self) -> int:
        """The number of cells of a table."""
        return math.prod(self.shape)

    @property
    def work(self) -> int:
        """How many single terms are evaluated for a point, and what it takes to spread them."""
        if self.constant:
            return 0
        evaluated = len(self.values) * len(self.terms)
        return evaluated + (self.cells * evaluated // PRODUCT if self.repeated else 0)

    @functools.cached_property
    def in_order(self) -> bool:
        """Whether the evaluations are the cells."""
        return self.rows.shape[0] == len(self.values) and bool(
            (self.rows == np.arange(self.cells)[:, None]).all()
        )


def make_groups(
    density: LogDensity,
    scopes: np.ndarray,
    terms: np.ndarray,
    supports: Mapping[int, Support],
) -> list[Group]:
    """Divide terms by how many discrete coordinates of which kind they depend on.

    Those that depend on nothing else, such as fixed transitions, have groups of their own.

    Parameters
    ----------
    density
        The terms.
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    terms
        Those that depend on discrete coordinates that are summed.
    supports
        The supports of these coordinates.
    """
    coordinates = np.array(sorted(supports), dtype=int)
    kinds: dict[Support, int] = {}
    kind_of = {c: kinds.setdefault(supports[c], len(kinds)) for c in supports}
    own = [tuple(coordinates[scopes[term, coordinates]].tolist()) for term in terms]
    neighbours = connect([*own, *((c,) for c in supports)])
    colors = color_graph(neighbours, kind_of)
    # Axes are in the order of kinds, so that all tables of a group have the same shape.
    own = [tuple(sorted(scope, key=lambda c: (kind_of[c], colors[c]))) for scope in own]
    constant = scopes[terms].sum(axis=1) == [len(scope) for scope in own]
    members: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for place, scope in enumerate(own):
        key = bool(constant[place]), tuple(kind_of[c] for c in scope)
        members.setdefault(key, []).append(place)
    return [
        _make_group(density, terms[places], [own[p] for p in places], colors, supports, fixed)
        for (fixed, _), places in members.items()
    ]


def _make_group(
    density: LogDensity,
    terms: np.ndarray,
    scopes: list[tuple[int, ...]],
    colors: Mapping[int, int],
    supports: Mapping[int, Support],
    constant: bool,
) -> Group:
    """Choose the evaluations of terms whose tables have the same shape."""
    shape = tuple(supports[c].count for c in scopes[0])
    sets = [tuple(colors[c] for c in scope) for scope in scopes]
    distinct = list(dict.fromkeys(sets))
    counts = {color: n for chosen in distinct for color, n in zip(chosen, shape, strict=True)}
    if len(distinct) == 1:
        axes = [range(n) for n in shape]
        places, order = np.array(list(itertools.product(*axes))), list(distinct[0])
        rows = np.arange(len(places))[:, None]
    else:
        places, order, rows = cover_colors(distinct, counts)
    columns = np.array(sorted(c for c in supports if colors[c] in counts), dtype=int)
    lows = np.array([supports[c].low for c in columns.tolist()])
    values = lows + places[:, [order.index(colors[c]) for c in columns.tolist()]]
    number = {chosen: place for place, chosen in enumerate(distinct)}
    rows = rows[:, [number[chosen] for chosen in sets]]
    group = Group(terms, tuple(scopes), shape, columns, values.astype(float), rows, False, constant)
    return _shorten(density, group)


def _shorten(density: LogDensity, group: Group) -> Group:
    """Return a group that evaluates less, if its tables repeat themselves."""
    if group.constant or len(set(group.scopes)) > 1 or group.cells < FEWEST_CELLS:
        return group
    chosen, rows = cover_cells(evaluate_group(density, group, density.reference[:TRIED]))
    if len(chosen) > LARGEST_SHARE * group.cells:
        return group
    return replace(group, values=group.values[chosen], rows=rows, repeated=True)


def evaluate_group(density: LogDensity, group: Group, points: np.ndarray) -> np.ndarray:
    """Return the evaluations of a group, (evaluations, terms, points); one point if constant."""
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
            gradient = differentiate(total, x)
            fgraph = FunctionGraph([x, row], copy_graphs(x, [gradient]), clone=False)
            in2out(open_graph).rewrite(fgraph)
            index_first_axes(fgraph)
            batched = {x: rows, row: weights}
            self._program = compile_batched([x, row], batched, fgraph.outputs, trusted=True)
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
    many = np.repeat(points, len(group.values), axis=0)
    many[:, group.columns] = np.tile(group.values, (len(points), 1))
    return many


def as_rows(weights: np.ndarray) -> np.ndarray:
    """Return weights, (evaluations, terms, points), as rows for spread points."""
    return np.ascontiguousarray(weights.transpose(2, 0, 1)).reshape(-1, weights.shape[1])
