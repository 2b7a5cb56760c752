"""The log-density of a model as terms: any of them, or weighted sums, at a batch of points.

:mod:`pymc_arm.models.backend` makes the function that evaluates them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.backend import Slicer, compile_priors, compile_terms
from pymc_arm.models.graph.gradient import Gradient
from pymc_arm.models.graph.partial_evaluation import GroupedProgram, partial_evaluation
from pymc_arm.models.graph.program import Program, Rewrites
from pymc_arm.models.terms import TermBlock

__all__ = ["Density", "GradientOfTerms", "LogDensity", "likelihood_powers", "name_term"]

# Elements of the largest array evaluated at once: small enough that the arrays of one operation
# stay in the cache, large enough that the cost of a call, some hundred microseconds, does not show.
CHUNK = 131_072
# Points in one call of a compiled function, between which a time limit is looked at: an operation
# of the user's may take a millisecond for each of them.
COMPILED_POINTS = 1000
# How many selections of terms are kept ready for use.
PREPARED = 512


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
    rewrites
        Of the graph that NumPy evaluates; fewer for a few evaluations.
    """

    def __init__(
        self,
        x: TensorVariable,
        blocks: Sequence[TermBlock],
        reference: np.ndarray,
        backend: str | None = None,
        rewrites: Rewrites = "all",
    ) -> None:
        if backend not in (None, "numpy", "numba", "c"):
            raise ValueError(f"backend={backend!r} is not one of 'numpy', 'numba' and 'c'.")
        self.blocks = tuple(blocks)
        pieces = [piece for block in blocks for piece in block.pieces]
        self.notes: list[str] = []
        self._compiled = compile_terms(x, blocks, reference, backend, self.notes, rewrites)
        self.backend, self._function, self._lengths = self._compiled
        #: The number of terms of each block, and where they begin.
        owners = np.repeat(np.arange(len(blocks)), [len(block.pieces) for block in blocks])
        self.sizes = np.bincount(owners, self._lengths, len(blocks)).astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self._firsts = np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64)
        self._reference = reference
        self._prepared: dict[bytes, _Restricted] = {}
        self._without_data: Slicer | None = None
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
            else:
                elements = max(elements, CHUNK // COMPILED_POINTS)
            ready = _Restricted(function, width, columns, elements)
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            self._prepared[key] = ready
        return ready

    def _slicer(self, stops: np.ndarray) -> Slicer:
        """Return what makes the function of slices of the terms.

        Compiled code evaluates all terms, whichever are asked for; priors alone are few.
        """
        data = np.array([b.kind == "data" for b in self.blocks for _ in b.pieces], dtype=bool)
        if self.backend == "numpy" or stops[data].any() or not data.any():
            return self._function
        if self._without_data is None:
            x, pieces = self.gradient.graphs
            priors = compile_priors(x, pieces, ~data, self._compiled, self._reference, self.notes)
            self._without_data = priors or self._function
        return self._without_data

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


def likelihood_powers(density: Density) -> np.ndarray:
    """Return one for each term of data and potentials, and zero for those of priors."""
    own = [float(block.kind != "prior") for block in density.blocks]
    return np.repeat(own, density.sizes)


def name_term(density: Density, row: int) -> str:
    """Return the name of one term: that of its variable, with its place if there are several."""
    block = int(np.searchsorted(density.offsets, row, side="right")) - 1
    name = density.blocks[block].name
    if density.sizes[block] == 1:
        return name
    return f"{name}[{row - int(density.offsets[block])}]"
