"""One function for all terms of a model, batched over particles.

PyTensor builds ``terms(X, starts, stops)``: for a batch of particles, the terms
``starts[k]:stops[k]`` of each piece. The slices are arguments, and PyTensor's rewrites push them
down into the graph, so that one function serves every step and a step pays for what it needs.

A small model whose batched graph is all array operations runs on NumPy at once; any other is
compiled with numba; what numba can't compile falls back on C.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.errors import ModelError
from pymc_arm.models.graph.batching import copy_graphs
from pymc_arm.models.graph.gradient import Gradient
from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.graph.numba_functions import compile_with_numba
from pymc_arm.models.graph.partial_evaluation import GroupedProgram, partial_evaluation
from pymc_arm.models.graph.program import Program, serialized
from pymc_arm.models.graph.verification import Reference
from pymc_arm.models.terms import TermBlock, count_terms

__all__ = ["Density", "LogDensity"]

_log = logging.getLogger("pymc")

# Elements of the largest array evaluated at once: small enough that the arrays of one operation
# stay in the cache, large enough that the cost of a call, some hundred microseconds, does not show.
CHUNK = 131_072
# With more terms than this, compiled code gains more in a run than it costs.
LARGE = 2000
# How many selections of terms are kept ready for use.
PREPARED = 512


def _take(
    pieces: Sequence[TensorVariable], starts: TensorVariable, stops: TensorVariable
) -> Iterator[TensorVariable]:
    """Return the terms starts[k]:stops[k] of each piece.

    PyTensor takes a slice of a single element for that element, even if the slice is empty.
    """
    for number, piece in enumerate(pieces):
        first, last = starts[number], stops[number]
        if piece.type.shape == (1,):
            yield pt.alloc(piece[0], last - first)
        else:
            yield piece[first:last]


# From starts and stops to the function of the terms between them: a list of (size, width) arrays.
_Slicer = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], list[np.ndarray]]]


class _Restricted(NamedTuple):
    """The function of some terms, how many it returns, and which columns of them are meant.

    ``elements`` is the size of the largest array on the way, for each point.
    """

    function: Callable[[np.ndarray], list[np.ndarray]]
    width: int
    columns: np.ndarray | None
    elements: int


class GradientOfTerms(Protocol):
    """Value and gradient of weighted sums of terms."""

    def available(self) -> bool:
        """Whether there is one that can be evaluated in batches."""

    def __call__(self, points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values, (size,), and the gradients, (size, dimension)."""


class Density(Protocol):
    """The terms of a log-density, as paths ask for them; see :class:`LogDensity`."""

    blocks: tuple[TermBlock, ...]
    sizes: np.ndarray
    offsets: np.ndarray
    notes: list[str]
    backend: str

    @property
    def gradient(self) -> GradientOfTerms:
        """Value and gradient of weighted sums of the terms."""

    @property
    def count(self) -> int:
        """The number of terms."""

    @property
    def work(self) -> int:
        """How many single terms an evaluation at one point takes."""

    @property
    def held(self) -> int:
        """The elements of the largest array that an evaluation holds."""

    @property
    def reference(self) -> np.ndarray:
        """The points at which functions are tried, (size, dimension)."""

    @property
    def observations(self) -> np.ndarray:
        """How many observations are in each term."""

    def terms(self, points: np.ndarray, selection: np.ndarray | None = None) -> np.ndarray:
        """Return terms at points, (size, len(selection))."""

    def sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_k weights[k] t_k at each point."""

    def terms_at(
        self, points: np.ndarray, columns: np.ndarray, values: np.ndarray, selection: np.ndarray
    ) -> np.ndarray:
        """Return terms at points whose columns have each of some values."""

    def sum_at(
        self, points: np.ndarray, column: int, values: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return sum_k weights[k] t_k at points with a column set to each of a row of values."""

    def graphs_of(
        self, terms: np.ndarray
    ) -> tuple[TensorVariable, list[TensorVariable], list[int]]:
        """Return x, graphs over it of terms that are in order, and the number of terms of each."""


class LogDensity:
    """The terms of a model's log-density, compiled.

    Parameters
    ----------
    x
        The vector of coordinates.
    blocks
        The terms, as graphs over x.
    reference
        A few points at which the function is tried, (size, dimension).
    backend
        ``"numpy"``, ``"numba"`` or ``"c"``; by default NumPy for small models that need no loop,
        numba for others, and C where numba can't.
    """

    def __init__(
        self,
        x: TensorVariable,
        blocks: Sequence[TermBlock],
        reference: np.ndarray,
        backend: str | None = None,
    ) -> None:
        if backend not in (None, "numpy", "numba", "c"):
            raise ValueError(f"backend={backend!r} is not one of 'numpy', 'numba' and 'c'.")
        self.blocks = tuple(blocks)
        pieces = [piece for block in blocks for piece in block.pieces]
        self.notes: list[str] = []
        self._function, self._lengths = self._compile(x, pieces, reference, backend)
        #: The number of terms of each block, and where they begin.
        owners = np.repeat(np.arange(len(blocks)), [len(block.pieces) for block in blocks])
        self.sizes = np.bincount(owners, self._lengths, len(blocks)).astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self._firsts = np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64)
        self._reference = reference
        self._prepared: dict[bytes, _Restricted] = {}
        self._without_data: _Slicer | None = None
        self._prepared_varied: dict[bytes, GroupedProgram | None] = {}
        #: Value and gradient of weighted sums of the terms, where the model has one.
        self.gradient = Gradient(x, pieces, self._lengths, reference, self.notes)

    @property
    def count(self) -> int:
        """The number of terms."""
        return int(self.offsets[-1])

    @property
    def piece_sizes(self) -> list[list[int]]:
        """How many terms each piece of each block has."""
        ends = np.cumsum([len(block.pieces) for block in self.blocks])[:-1]
        return [part.tolist() for part in np.split(self._lengths, ends)]

    @property
    def work(self) -> int:
        """How many single terms an evaluation at one point takes, or elements of matrices."""
        if not self.count:
            return 0
        return max(self.count, self._restricted(np.arange(self.count)).elements)

    @property
    def held(self) -> int:
        """The elements of the largest array that an evaluation holds."""
        return max(self.count, CHUNK)

    @property
    def observations(self) -> np.ndarray:
        """How many observations are in each term: one or none."""
        return np.repeat([block.kind == "data" for block in self.blocks], self.sizes).astype(int)

    @property
    def reference(self) -> np.ndarray:
        """The points at which functions are tried, (size, dimension)."""
        return self._reference

    def graphs_of(
        self, terms: np.ndarray
    ) -> tuple[TensorVariable, list[TensorVariable], list[int]]:
        """Return x, graphs over it of terms that are in order, and the number of terms of each."""
        x, pieces = self.gradient.graphs
        piece_of = np.searchsorted(self._firsts, terms, side="right") - 1
        graphs, counts = [], []
        for number in np.unique(piece_of):
            local = terms[piece_of == number] - self._firsts[number]
            whole = len(local) == self._lengths[number]
            graphs.append(pieces[number] if whole else pieces[number][local])
            counts.append(len(local))
        return x, graphs, counts

    def terms(self, points: np.ndarray, selection: np.ndarray | None = None) -> np.ndarray:
        """Return terms at points, (size, len(selection)); all of them without a selection.

        A term that is not a number counts as -inf: there the density is zero.
        """
        restricted = self._restricted(selection)
        size, columns = len(points), restricted.columns
        result = np.empty((size, restricted.width if columns is None else len(columns)))
        chunk = max(1, CHUNK // restricted.elements)
        for first in range(0, size, chunk):
            parts = restricted.function(points[first : first + chunk])
            if columns is None:
                np.concatenate(parts, axis=1, out=result[first : first + chunk])
            else:
                result[first : first + chunk] = np.concatenate(parts, axis=1)[:, columns]
        result[np.isnan(result)] = -np.inf
        return result

    def sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_k weights[k] t_k at each point, over the terms of positive weight."""
        selection = np.flatnonzero(weights)
        if not len(selection):
            return np.zeros(len(points))
        restricted = self._restricted(selection)
        result = np.zeros(len(points))
        own = _unless_ones(weights[selection])
        chunk = max(1, CHUNK // restricted.elements)
        for first in range(0, len(points), chunk):
            parts = restricted.function(points[first : first + chunk])
            result[first : first + chunk] = _add(parts, restricted.columns, own)
        return result

    def terms_at(
        self, points: np.ndarray, columns: np.ndarray, values: np.ndarray, selection: np.ndarray
    ) -> np.ndarray:
        """Return terms at points whose ``columns`` have each of some values.

        ``values`` are (points, number, columns), and the result (points, number, terms). What does
        not depend on these columns is evaluated once for each point.
        """
        taken = self._restricted(selection).columns
        columns_taken = slice(None) if taken is None else taken
        results = [
            np.concatenate(parts, axis=1)[:, columns_taken]
            for parts in self._parts_at(points, columns, values, selection)
        ]
        result = np.concatenate(results).astype(np.float64, copy=False)
        result[np.isnan(result)] = -np.inf
        return result.reshape(*values.shape[:2], -1)

    def sum_at(
        self, points: np.ndarray, column: int, values: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return sum_k weights[k] t_k at points with a column set to each of a row of values."""
        selection = np.flatnonzero(weights)
        if not len(selection):
            return np.zeros(values.shape)
        columns, own = self._restricted(selection).columns, _unless_ones(weights[selection])
        parts_at = self._parts_at(points, np.array([column]), values[:, :, None], selection)
        result = np.concatenate([_add(parts, columns, own) for parts in parts_at])
        return result.reshape(values.shape)

    def _parts_at(
        self, points: np.ndarray, columns: np.ndarray, values: np.ndarray, selection: np.ndarray
    ) -> Iterator[list[np.ndarray]]:
        restricted, varied = self._restricted(selection), self._varied(selection, columns)
        groups, members = values.shape[:2]
        # What is evaluated once for a group may be larger than what each of its members needs.
        largest = max(members * max(restricted.width, points.shape[1]), restricted.elements)
        chunk = max(1, CHUNK // (largest if varied is not None else members * restricted.elements))
        for first in range(0, groups, chunk):
            some, new = points[first : first + chunk], values[first : first + chunk]
            if varied is not None:
                yield varied(some, new)
                continue
            spread = np.repeat(some, members, axis=0)
            spread[:, columns] = new.reshape(len(spread), -1)
            yield restricted.function(spread)

    def _varied(self, selection: np.ndarray, columns: np.ndarray) -> GroupedProgram | None:
        """Return what evaluates a selection of terms at values of some columns, if that pays."""
        key = selection.tobytes() + b"|" + columns.tobytes()
        if key not in self._prepared_varied:
            if len(self._prepared_varied) >= PREPARED:
                self._prepared_varied.clear()
            function = self._restricted(selection).function
            self._prepared_varied[key] = partial_evaluation(function, columns, self._reference)
        return self._prepared_varied[key]

    def _restricted(self, selection: np.ndarray | None) -> "_Restricted":
        """Return the function for a selection of terms. A step asks for the same one many times."""
        key = b"all" if selection is None else selection.tobytes()
        ready = self._prepared.get(key)
        if ready is None:
            starts, stops, columns = self._slices(selection)
            function, width = self._slicer(stops)(starts, stops), int(np.sum(stops - starts))
            elements = max(width, self._reference.shape[1], 1)
            if isinstance(function, Program):
                elements = max(elements, function.elements_per_point(self._reference))
            ready = _Restricted(function, width, columns, elements)
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            self._prepared[key] = ready
        return ready

    def _slicer(self, stops: np.ndarray) -> _Slicer:
        """Return what makes the function of slices of the terms.

        Compiled code evaluates all terms, whichever are asked for; priors alone are few.
        """
        data = np.array([b.kind == "data" for b in self.blocks for _ in b.pieces], dtype=bool)
        if self.backend == "numpy" or stops[data].any() or not data.any():
            return self._function
        if self._without_data is None:
            self._without_data = self._compile_without_data(~data) or self._function
        return self._without_data

    def _compile_without_data(self, chosen: np.ndarray) -> _Slicer | None:
        """Return the terms of some pieces on NumPy, if it agrees with the compiled code."""
        x, pieces = self.gradient.graphs
        some = [piece for piece, mine in zip(pieces, chosen, strict=True) if mine]
        none, lengths = np.zeros_like(self._lengths), np.where(chosen, self._lengths, 0)
        try:
            with COMPILING:
                function = _interpret(x, copy_graphs(x, some), must_be_quick=True)
        except Exception as error:  # compilers raise anything: it is noted
            self._note(f"priors are evaluated with the data: {type(error).__name__}: {error}")
            return None
        if function is None:
            return None

        def restrict(first: np.ndarray, last: np.ndarray) -> Any:
            return function(first[chosen], last[chosen])

        own, expected = (
            np.concatenate(slicer(none, lengths)(self._reference), axis=1)
            for slicer in (restrict, self._function)
        )
        same = own.shape == expected.shape and np.allclose(own, expected, equal_nan=True)
        return restrict if same else None

    def _slices(
        self, selection: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the slices that cover a selection, and the columns to pick from them."""
        if selection is None or len(selection) == self.count:
            return np.zeros_like(self._lengths), self._lengths, None
        starts, stops = np.zeros_like(self._lengths), np.zeros_like(self._lengths)
        piece_of = np.searchsorted(self._firsts, selection, side="right") - 1
        columns = np.empty(len(selection), dtype=np.int64)
        width = 0
        for piece in np.unique(piece_of):
            mine = piece_of == piece
            local = selection[mine] - self._firsts[piece]
            starts[piece], stops[piece] = local.min(), local.max() + 1
            columns[mine] = width + local - starts[piece]
            width += int(stops[piece] - starts[piece])
        in_order = width == len(selection) and bool(np.all(np.diff(columns) == 1))
        return starts, stops, None if in_order else columns

    def _compile(
        self,
        x: TensorVariable,
        pieces: Sequence[TensorVariable],
        reference: np.ndarray,
        backend: str | None,
    ) -> tuple[_Slicer, np.ndarray]:
        """Try the best way first; a graph that can't take it falls back, and says so."""
        attempts = [("numpy", True), ("numba", True), ("numba", False), ("c", False)]
        if backend is not None:
            attempts = [attempt for attempt in attempts if attempt[0] == backend]
        failure: Exception | None = None
        disagreement: ModelError | None = None
        lengths = count_terms(x, pieces, reference[0])
        own = Reference(x, pieces, reference)
        if not len(own.points) and len(reference):
            self._note(f"not compared with PyTensor's own function: {own.failure}")
        for name, batched in attempts:
            try:
                if name == "numpy" and backend is None and lengths.sum() > LARGE:
                    continue
                copies = copy_graphs(x, pieces)
                function = (
                    _interpret(x, copies, must_be_quick=backend is None)
                    if name == "numpy"
                    else _compile_joined(x, copies, name, batched)
                )
                if function is None:
                    continue
                parts = function(np.zeros_like(lengths), lengths)(reference[:2])
                if np.concatenate(parts, axis=1).shape != (len(reference[:2]), lengths.sum()):
                    raise ValueError("the graph lost its batch axis")
                self._compare(name, function, lengths, own)
            except Exception as error:  # compilers raise anything: it is noted
                failure = error
                if isinstance(error, ModelError):
                    disagreement = error
                continue
            self.backend = name
            if failure is not None:
                how = "" if batched else ", one particle at a time"
                self._note(f"evaluated with {name}{how}: {type(failure).__name__}: {failure}")
            return function, lengths
        if disagreement is not None:
            raise disagreement
        if failure is None:
            raise ValueError(f"backend={backend!r} can't evaluate this model: leave it out.")
        raise failure

    def _note(self, text: str) -> None:
        self.notes.append(text.splitlines()[0][:200])
        _log.info("pymc_arm: %s", self.notes[-1])

    def _compare(self, name: str, function: _Slicer, lengths: np.ndarray, own: Reference) -> None:
        """Raise a ModelError if terms are not those of PyTensor."""
        every = function(np.zeros_like(lengths), lengths)
        wrong = own.compare(lambda points: np.concatenate(every(points), axis=1))
        if wrong is None:
            return
        owners = np.repeat(np.arange(len(self.blocks)), [len(b.pieces) for b in self.blocks])
        block = int(np.repeat(owners, lengths)[wrong.place])
        raise ModelError(
            f"the log-density of {self.blocks[block].name!r} is {wrong.found:.8g} with {name} at a "
            f"prior draw, and {wrong.expected:.8g} with PyTensor's own function. Try another "
            "backend, and please report this model."
        )


def _unless_ones(weights: np.ndarray) -> np.ndarray | None:
    """Return weights, or None if there is no need of them."""
    return None if np.all(weights == 1.0) else weights


def _add(
    parts: Sequence[np.ndarray], columns: np.ndarray | None, weights: np.ndarray | None
) -> np.ndarray:
    """Return the weighted sum of the terms of each row, -inf where it is not a number."""
    if columns is not None:
        parts = [np.concatenate(parts, axis=1)[:, columns]]
    total, done = np.zeros(len(parts[0])), 0
    with np.errstate(invalid="ignore", over="ignore"):  # +inf and -inf in one row
        for part in parts:
            width = part.shape[1]
            total += part.sum(axis=1) if weights is None else part @ weights[done : done + width]
            done += width
    total[np.isnan(total)] = -np.inf
    return total


def _interpret(
    x: TensorVariable, pieces: Sequence[TensorVariable], must_be_quick: bool
) -> _Slicer | None:
    """Return the function on NumPy, or None if it must be quick and would not be."""
    rows, starts, stops = _inputs(x, len(pieces))
    # What is asked for is chosen among the outputs; see _take for those of a single element.
    sliced = [
        piece if piece.type.shape == (1,) else piece[starts[number] : stops[number]]
        for number, piece in enumerate(pieces)
    ]
    graphs = vectorize_graph(sliced, {x: rows}) if sliced else []
    _forget_traces(graphs)
    program = compile_with_numpy([rows, starts, stops], *graphs)
    if must_be_quick and not program.vectorized:
        return None

    def restrict(first: np.ndarray, last: np.ndarray) -> Callable[[np.ndarray], list[np.ndarray]]:
        wanted = np.flatnonzero(last > first).tolist()
        if not wanted:
            return lambda points: [np.empty((len(points), 0))]
        function = program.bind(first, last, outputs=wanted)
        return function if program.vectorized else serialized(function)

    return restrict


def _compile_joined(
    x: TensorVariable, pieces: Sequence[TensorVariable], backend: str, batched: bool
) -> _Slicer:
    """Return the function that a compiler makes, for all particles or for one at a time."""
    rows, starts, stops = _inputs(x, len(pieces))
    output = pt.concatenate(list(_take(pieces, starts, stops))) if pieces else pt.zeros(0)
    inputs, graph = [x, starts, stops], output
    if batched:
        graph = vectorize_graph(output, {x: rows})
        if graph.type.ndim != 2:  # nothing depends on x
            graph = pt.broadcast_to(graph[None], (rows.shape[0], graph.shape[0]))
        inputs = [rows, starts, stops]
        _forget_traces([graph])
    function = (_compile_with_c if backend == "c" else _compile_with_numba)(inputs, graph)

    def restrict(first: np.ndarray, last: np.ndarray) -> Callable[[np.ndarray], list[np.ndarray]]:
        def one(point: np.ndarray) -> np.ndarray:
            try:
                return function(np.ascontiguousarray(point), first, last)
            except np.linalg.LinAlgError:  # a singular matrix: the density is zero there
                return np.full((*point.shape[:-1], int(np.sum(last - first))), np.nan)

        def call(points: np.ndarray) -> list[np.ndarray]:
            if not batched:
                return [np.stack([one(point) for point in points])]
            try:
                return [function(points, first, last)]
            except np.linalg.LinAlgError:
                return [np.concatenate([one(point[None]) for point in points])]

        return call

    return restrict


def _inputs(x: TensorVariable, pieces: int) -> tuple[TensorVariable, ...]:
    """Return the particles and the bounds of the slices, with shapes as far as they are known.

    That spares half of the rewrites, and computations of shapes in every call.
    """
    rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
    bounds = (pt.tensor(name, dtype="int64", shape=(pieces,)) for name in ("starts", "stops"))
    return rows, *bounds


def _forget_traces(graphs: Sequence[TensorVariable]) -> None:
    """Drop stack traces: rewrites join those of what they merge.

    Those of some small models double until memory is full.
    """
    for variable in ancestors(graphs):
        variable.tag.trace = []


def _compile_with_numba(
    inputs: Sequence[TensorVariable], graph: TensorVariable
) -> Callable[..., np.ndarray]:
    code = compile_with_numba(inputs, [graph])
    return lambda *arguments: code(*arguments)[0]


def _compile_with_c(
    inputs: Sequence[TensorVariable], graph: TensorVariable
) -> Callable[..., np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = pytensor.function(
            inputs, graph, mode=get_mode("CVM"), on_unused_input="ignore", trust_input=True
        )
    # PyTensor keeps its arrays, and state during a call.
    return serialized(lambda *arguments: np.array(compiled(*arguments)))
