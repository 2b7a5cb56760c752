"""One function for all terms of a model, batched over particles.

PyTensor builds ``terms(X, starts, stops)``: for a batch of particles, the terms
``starts[k]:stops[k]`` of each block. The slices are arguments, and PyTensor's rewrites push them
down into the graph, so that one function serves every step and a step pays for what it needs.

A small model whose batched graph is all array operations runs on NumPy at once; any other is
compiled with numba; what numba can't compile falls back on C.
"""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.link.numba.linker import NumbaLinker
from pytensor.tensor.variable import TensorVariable

from pymc_arm.generic.gradient import Gradient
from pymc_arm.generic.interpret import Program, compile_with_numpy
from pymc_arm.generic.terms import TermBlock

__all__ = ["LogDensity"]

_log = logging.getLogger("pymc")

# Elements evaluated at once: small enough that the arrays of one operation stay in the cache, large
# enough that a call's own cost of some hundred microseconds does not show.
CHUNK = 131_072
# With more terms than this, compiled code gains more in a run than it costs.
LARGE = 2000
# How many selections of terms are kept ready for use.
PREPARED = 512


class _FreeNumbaLinker(NumbaLinker):
    """Numba code that gives up the interpreter lock, so that chains can run on threads."""

    def jit_compile(self, fn_and_cache: Any) -> Any:
        """Compile with ``nogil``."""
        from pytensor.link.numba.dispatch.basic import numba_njit

        function, cache_key = fn_and_cache
        return numba_njit(
            function.py_func, final_function=True, cache=cache_key is not None, nogil=True
        )


def _take(
    block: TermBlock, start: TensorVariable, stop: TensorVariable
) -> Iterator[TensorVariable]:
    """Return the terms start:stop of a block.

    PyTensor takes a slice of a single element for that element, even if the slice is empty.
    """
    offset: TensorVariable | int = 0
    for piece in block.pieces:
        length = piece.shape[0]
        first = pt.clip(start - offset, 0, length)
        last = pt.clip(stop - offset, 0, length)
        if piece.type.shape == (1,):
            yield pt.alloc(piece[0], pt.maximum(last - first, 0))
        else:
            yield piece[first:last]
        offset = offset + length


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
        starts, stops = pt.lvector("starts"), pt.lvector("stops")
        pieces = [
            piece
            for number, block in enumerate(blocks)
            for piece in _take(block, starts[number], stops[number])
        ]
        output = pt.concatenate(pieces) if pieces else pt.zeros(0)
        self.notes: list[str] = []
        self._function, self.sizes = self._compile(x, starts, stops, output, reference, backend)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self._prepared: dict[bytes, Any] = {}
        #: Value and gradient of weighted sums of the terms, where the model has one.
        self.gradient = Gradient(x, blocks, self.count, reference)

    @property
    def count(self) -> int:
        """The number of terms."""
        return int(self.offsets[-1])

    def terms(self, points: np.ndarray, selection: np.ndarray | None = None) -> np.ndarray:
        """Return terms at points, (size, len(selection)); all of them without a selection.

        A term that is not a number counts as -inf: there the density is zero.
        """
        function, width, columns = self._restricted(selection)
        size = len(points)
        result = np.empty((size, width if columns is None else len(columns)))
        chunk = max(1, CHUNK // max(width, points.shape[1], 1))
        for first in range(0, size, chunk):
            part = function(points[first : first + chunk])
            result[first : first + chunk] = part if columns is None else part[:, columns]
        result[np.isnan(result)] = -np.inf
        return result

    def sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_k weights[k] t_k at each point, over the terms of positive weight."""
        selection = np.flatnonzero(weights)
        if not len(selection):
            return np.zeros(len(points))
        function, width, columns = self._restricted(selection)
        result = np.empty(len(points))
        chunk = max(1, CHUNK // max(width, points.shape[1], 1))
        own = weights[selection]
        plain = bool(np.all(own == 1.0))
        for first in range(0, len(points), chunk):
            part = function(points[first : first + chunk])
            part = part if columns is None else part[:, columns]
            with np.errstate(invalid="ignore"):  # +inf and -inf in one row
                result[first : first + chunk] = part.sum(axis=1) if plain else part @ own
        result[np.isnan(result)] = -np.inf
        return result

    def _restricted(
        self, selection: np.ndarray | None
    ) -> tuple[Callable[[np.ndarray], np.ndarray], int, np.ndarray | None]:
        """Return the function of the slices that cover a selection, their width and the columns.

        A step asks for the same selection many times.
        """
        key = b"all" if selection is None else selection.tobytes()
        ready = self._prepared.get(key)
        if ready is None:
            starts, stops, columns = self._slices(selection)
            function = (
                self._function.bind(starts, stops)
                if isinstance(self._function, Program)
                else lambda points: self._function(points, starts, stops)
            )
            ready = function, int(np.sum(stops - starts)), columns
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            self._prepared[key] = ready
        return ready

    def _slices(
        self, selection: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the slices that cover a selection, and the columns to pick from them."""
        if selection is None or len(selection) == self.count:
            return np.zeros_like(self.sizes), self.sizes, None
        starts, stops = np.zeros_like(self.sizes), np.zeros_like(self.sizes)
        block_of = np.searchsorted(self.offsets, selection, side="right") - 1
        columns = np.empty(len(selection), dtype=np.int64)
        width = 0
        for block in np.unique(block_of):
            mine = block_of == block
            local = selection[mine] - self.offsets[block]
            starts[block], stops[block] = local.min(), local.max() + 1
            columns[mine] = width + local - starts[block]
            width += int(stops[block] - starts[block])
        in_order = width == len(selection) and bool(np.all(np.diff(columns) == 1))
        return starts, stops, None if in_order else columns

    def _compile(
        self,
        x: TensorVariable,
        starts: TensorVariable,
        stops: TensorVariable,
        output: TensorVariable,
        reference: np.ndarray,
        backend: str | None,
    ) -> tuple[Callable[..., np.ndarray], np.ndarray]:
        """Try the best way first; a graph that can't take it falls back, and says so."""
        attempts = [("numpy", True), ("numba", True), ("numba", False), ("c", False)]
        if backend is not None:
            attempts = [attempt for attempt in attempts if attempt[0] == backend]
        zeros = np.zeros(len(self.blocks), dtype=np.int64)
        everything = np.full(len(self.blocks), np.iinfo(np.int64).max // 4)
        failure: Exception | None = None
        for name, batched in attempts:
            try:
                function = _compile_one(x, starts, stops, output, name, batched)
                if backend is None and isinstance(function, Program) and not function.vectorized:
                    continue
                sizes = np.zeros(len(self.blocks), dtype=np.int64)
                for k in range(len(self.blocks)):
                    only = zeros.copy()
                    only[k] = everything[k]
                    part = function(reference[:2], zeros, only)
                    if part.shape[0] != len(reference[:2]):
                        raise ValueError("the graph lost its batch axis")
                    sizes[k] = part.shape[1]
                if name == "numpy" and backend is None and sizes.sum() > LARGE:
                    continue
            except Exception as error:
                failure = error
                continue
            self.backend = name
            if failure is not None:
                how = "" if batched else ", one particle at a time"
                note = f"evaluated with {name}{how}: {type(failure).__name__}: {failure}"
                self.notes.append(note.splitlines()[0][:200])
                _log.info("pymc_arm: %s", self.notes[-1])
            return function, sizes
        if failure is None:
            raise ValueError(f"backend={backend!r} can't evaluate this model: leave it out.")
        raise failure


def _compile_one(
    x: TensorVariable,
    starts: TensorVariable,
    stops: TensorVariable,
    output: TensorVariable,
    backend: str,
    batched: bool,
) -> Callable[..., np.ndarray]:
    rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
    if batched:
        graph = vectorize_graph(output, {x: rows})
        if graph.type.ndim != 2:  # nothing depends on x
            graph = pt.broadcast_to(graph[None], (rows.shape[0], graph.shape[0]))
        # Rewrites of PyTensor join the stack traces of what they merge, and those of some small
        # models double until memory is full.
        for variable in ancestors([graph]):
            variable.tag.trace = []
        inputs = [rows, starts, stops]
        if backend == "numpy":
            return compile_with_numpy(inputs, graph)
    mode = get_mode("NUMBA" if backend == "numba" else "CVM")
    if backend == "numba":
        mode = Mode(linker=_FreeNumbaLinker(), optimizer=mode.provided_optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not batched:
            inputs, graph = [x, starts, stops], output
        compiled = pytensor.function(
            inputs, graph, mode=mode, on_unused_input="ignore", trust_input=True
        )
    function = _reentrant(compiled) if backend == "numba" else _locked(compiled)
    if batched:
        return function

    def loop(points: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.stack([function(np.ascontiguousarray(point), first, last) for point in points])

    return loop


def _reentrant(compiled: Any) -> Callable[..., np.ndarray]:
    """Call numba's code itself: PyTensor's function around it keeps state during a call."""
    code = compiled.vm.jit_fn
    return lambda *arguments: code(*arguments)[0]


def _locked(compiled: Any) -> Callable[..., np.ndarray]:
    """Let one thread in at a time, and give it arrays of its own."""
    lock = threading.Lock()

    def call(*arguments: np.ndarray) -> np.ndarray:
        with lock:
            return np.array(compiled(*arguments))

    return call
