"""Which back end evaluates the terms of a model, and the function that each makes.

PyTensor builds ``terms(X, starts, stops)``: for a batch of particles, the terms
``starts[k]:stops[k]`` of each piece. The slices are arguments, and PyTensor's rewrites push them
down into the graph, so that one function serves every step and a step pays for what it needs.

A small model whose batched graph is all array operations runs on NumPy at once; any other is
compiled with numba; what numba can't compile falls back on C.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.deadline import check_deadline
from pymc_arm.errors import ModelError
from pymc_arm.models.graph.batching import copy_graphs
from pymc_arm.models.graph.numba_functions import compile_with_numba
from pymc_arm.models.graph.program import Rewrites, serialized
from pymc_arm.models.graph.reuse import compile_batched
from pymc_arm.models.graph.vectorizing import vectorize
from pymc_arm.models.graph.verification import Reference
from pymc_arm.models.terms import TermBlock, count_terms

__all__ = ["CompiledTerms", "Slicer", "compile_priors", "compile_terms"]

_log = logging.getLogger("pymc")

# With more terms than this models are compiled. Milliseconds a value on NumPy and compiled, of a
# logistic regression with 100,000 and 300,000 rows: 1.9 and 4.3, 5.9 and 12.3; of Poisson counts
# in groups with 100,000: 0.7 and 2.5; of a linear regression with 100,000 and a million: 0.5 and
# 0.4, 9.5 and 7.5; of item responses with 46,861: 1.7 and 1.8. Compiling takes 3 to 18 CPU seconds
# longer. Nothing larger was measured.
LARGE = 1_000_000
# Points at which priors on NumPy are compared with compiled code, which evaluates all data with
# them: 2000 points of 20,000 rows took 4 CPU seconds.
COMPARED = 50

# From starts and stops to the function of the terms between them: a list of (size, width) arrays.
Slicer = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], list[np.ndarray]]]


class CompiledTerms(NamedTuple):
    """The back end that was chosen, its function, and the number of terms of each piece."""

    backend: str
    function: Slicer
    lengths: np.ndarray


def compile_terms(
    x: TensorVariable,
    blocks: Sequence[TermBlock],
    reference: np.ndarray,
    backend: str | None,
    notes: list[str],
    rewrites: Rewrites = "all",
) -> CompiledTerms:
    """Try the best back end first; a graph that can't take it falls back, and a note says so.

    Parameters
    ----------
    x
        The vector of coordinates.
    blocks
        The terms, as graphs over x.
    reference
        A few points at which functions are compared with PyTensor's own, (size, dimension).
    backend
        ``"numpy"``, ``"numba"`` or ``"c"``, or None to choose.
    notes
        Notes are appended here.
    rewrites
        Of the graph that NumPy evaluates; with fewer than all no other back end is tried.

    Raises
    ------
    ModelError
        If every back end disagrees with PyTensor's own function, or none can evaluate the terms.
    """
    pieces = [piece for block in blocks for piece in block.pieces]
    attempts = [("numpy", True), ("numba", True), ("numba", False), ("c", False)]
    if backend is not None:
        attempts = [attempt for attempt in attempts if attempt[0] == backend]
    few = rewrites != "all"
    attempts = attempts[:1] if few else attempts
    failure: Exception | None = None
    disagreement: ModelError | None = None
    lengths = count_terms(x, pieces, reference[0])
    own = Reference(x, pieces, reference)
    if not len(own.points) and len(reference):
        _note(notes, f"not compared with PyTensor's own function: {own.failure}")
    for name, batched in attempts:
        try:
            if name == "numpy" and backend is None and not few and lengths.sum() > LARGE:
                continue
            copies = copy_graphs(x, pieces)
            function = (
                _interpret(x, copies, must_be_quick=backend is None, rewrites=rewrites)
                if name == "numpy"
                else _compile_joined(x, copies, name, batched)
            )
            if function is None:
                continue
            parts = function(np.zeros_like(lengths), lengths)(reference[:2])
            if np.concatenate(parts, axis=1).shape != (len(reference[:2]), lengths.sum()):
                raise ValueError("the graph lost its batch axis")
            _compare(name, function, lengths, own, blocks)
        except Exception as error:  # compilers raise anything: it is noted
            failure = error
            if isinstance(error, ModelError):
                disagreement = error
            continue
        if failure is not None:
            how = "" if batched else ", one particle at a time"
            _note(notes, f"evaluated with {name}{how}: {type(failure).__name__}: {failure}")
        return CompiledTerms(name, function, lengths)
    if disagreement is not None:
        raise disagreement
    if failure is None:
        raise ValueError(f"backend={backend!r} can't evaluate this model: leave it out.")
    raise _cannot_be_evaluated(x, blocks, reference, failure) from failure


def _cannot_be_evaluated(
    x: TensorVariable, blocks: Sequence[TermBlock], reference: np.ndarray, failure: Exception
) -> ModelError:
    """Return what to say of terms that no compiler can evaluate, with the one that is to blame."""
    blamed, why = "", failure
    for block in blocks:
        try:
            pieces = list(block.pieces)
            options = {"mode": "FAST_COMPILE", "on_unused_input": "ignore"}
            values = pytensor.function([x], pieces, **options)(reference[0])
            for value, piece in zip(values, pieces, strict=True):
                found = np.asarray(value).dtype
                if found != piece.dtype:
                    raise TypeError(f"it returned {found}, and declares {piece.dtype}")
        except Exception as error:  # it is part of the message
            blamed, why = f" of {block.name!r}", error
            break
    reason = str(why).strip().splitlines() or [""]
    return ModelError(
        f"The log-density{blamed} can't be evaluated at a draw from the prior: "
        f"{type(why).__name__}: {reason[0]}. If it is of your own, check that it takes any value "
        "of the prior, and returns numbers of the type that it declares."
    )


def compile_priors(
    x: TensorVariable,
    pieces: Sequence[TensorVariable],
    chosen: np.ndarray,
    compiled: CompiledTerms,
    reference: np.ndarray,
    notes: list[str],
) -> Slicer | None:
    """Return the terms of the chosen pieces on NumPy, if it agrees with the compiled code."""
    some = [piece for piece, mine in zip(pieces, chosen, strict=True) if mine]
    none, lengths = np.zeros_like(compiled.lengths), np.where(chosen, compiled.lengths, 0)
    try:
        with COMPILING:
            function = _interpret(x, copy_graphs(x, some), must_be_quick=True)
    except Exception as error:  # compilers raise anything: it is noted
        _note(notes, f"priors are evaluated with the data: {type(error).__name__}: {error}")
        return None
    if function is None:
        return None

    def restrict(first: np.ndarray, last: np.ndarray) -> Any:
        return function(first[chosen], last[chosen])

    own, expected = (
        np.concatenate(slicer(none, lengths)(reference[:COMPARED]), axis=1)
        for slicer in (restrict, compiled.function)
    )
    same = own.shape == expected.shape and np.allclose(own, expected, equal_nan=True)
    return restrict if same else None


def _note(notes: list[str], text: str) -> None:
    notes.append(text.splitlines()[0][:200])
    _log.info("pymc_arm: %s", notes[-1])


def _compare(
    name: str,
    function: Slicer,
    lengths: np.ndarray,
    own: Reference,
    blocks: Sequence[TermBlock],
) -> None:
    """Raise a ModelError if terms are not those of PyTensor."""
    every = function(np.zeros_like(lengths), lengths)
    wrong = own.compare(lambda points: np.concatenate(every(points), axis=1))
    if wrong is None:
        return
    owners = np.repeat(np.arange(len(blocks)), [len(b.pieces) for b in blocks])
    block = int(np.repeat(owners, lengths)[wrong.place])
    raise ModelError(
        f"the log-density of {blocks[block].name!r} is {wrong.found:.8g} with {name} at a "
        f"prior draw, and {wrong.expected:.8g} with PyTensor's own function. Try another "
        "backend, and please report this model."
    )


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


def _interpret(
    x: TensorVariable,
    pieces: Sequence[TensorVariable],
    must_be_quick: bool,
    rewrites: Rewrites = "all",
) -> Slicer | None:
    """Return the function on NumPy, or None if it must be quick and would not be."""
    rows, starts, stops = _inputs(x, len(pieces))
    # What is asked for is chosen among the outputs; see _take for those of a single element.
    sliced = [
        piece if piece.type.shape == (1,) else piece[starts[number] : stops[number]]
        for number, piece in enumerate(pieces)
    ]
    program = compile_batched([x, starts, stops], {x: rows}, sliced, rewrites=rewrites)
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
) -> Slicer:
    """Return the function that a compiler makes, for all particles or for one at a time."""
    rows, starts, stops = _inputs(x, len(pieces))
    output = pt.concatenate(list(_take(pieces, starts, stops))) if pieces else pt.zeros(0)
    inputs, graph = [x, starts, stops], output
    if batched:
        (graph,) = vectorize([output], {x: rows})
        if graph.type.ndim != 2:  # nothing depends on x
            graph = pt.broadcast_to(graph[None], (rows.shape[0], graph.shape[0]))
        inputs = [rows, starts, stops]
        _forget_traces([graph])
    function = (_compile_with_c if backend == "c" else _compile_with_numba)(inputs, graph)

    def restrict(first: np.ndarray, last: np.ndarray) -> Callable[[np.ndarray], list[np.ndarray]]:
        def one(point: np.ndarray) -> np.ndarray:
            check_deadline()
            try:
                return function(np.ascontiguousarray(point), first, last)
            except np.linalg.LinAlgError:  # a singular matrix: the density is zero there
                return np.full((*point.shape[:-1], int(np.sum(last - first))), np.nan)

        def call(points: np.ndarray) -> list[np.ndarray]:
            if not batched:
                return [np.stack([one(point) for point in points])]
            check_deadline()
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
