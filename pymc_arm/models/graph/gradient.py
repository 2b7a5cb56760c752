"""The gradient of a model's log-density, batched over particles, for moves and for fits.

It is built when it is first asked for. It runs on NumPy (:mod:`pymc_arm.models.graph.interpret`),
so it costs no compilation; what can't be batched into array operations is compiled with numba for
one point, and called for one after another. Whichever it is was compared with PyTensor's own
gradient. A model whose gradient PyTensor can't derive is moved without one, and a note says so.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.deadline import check_deadline
from pymc_arm.models.graph.batching import copy_graphs, open_graph
from pymc_arm.models.graph.first_axes import index_first_axes
from pymc_arm.models.graph.numba_functions import compile_with_numba
from pymc_arm.models.graph.program import Program
from pymc_arm.models.graph.reuse import compile_batched, compile_gradient
from pymc_arm.models.graph.verification import Reference, agrees_with_differences

__all__ = ["Gradient", "differentiate"]

# Elements evaluated at once; see CHUNK in density.py. A gradient holds several such arrays.
CHUNK = 65_536
# Graphs of terms with more nodes than this are batched before they are differentiated: the gradient
# of as many has more than 2000 nodes, which are merged and made stable only in either order
# (``MANY_NODES`` of interpret.py).
LARGE = 600
# From which relative difference a gradient is wrong: an error costs moves, not correctness.
TOLERANCE = 1e-4


def differentiate(total: TensorVariable, x: TensorVariable) -> TensorVariable:
    """Return the gradient of a graph; whole numbers on the way to it have no slope.

    PyTensor would go on behind them, to slopes of zero through operations that batch badly.
    """
    whole = [v for v in ancestors([total]) if v.owner is not None and _is_whole(v)]
    return pytensor.grad(total, x, consider_constant=whole, disconnected_inputs="ignore")


def _is_whole(variable: Variable) -> bool:
    """Whether a variable has whole numbers or truth values."""
    return getattr(variable.type, "dtype", "").startswith(("int", "uint", "bool"))


class Looped:
    """A function of one point, for many: what can't be batched.

    Parameters
    ----------
    function
        From a point and the weights to the value and the gradient there.
    """

    def __init__(self, function: Callable[..., Sequence[np.ndarray]]) -> None:
        self._function = function

    def bind(self, weights: np.ndarray) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
        """Return the function for some weights."""

        def at(point: np.ndarray) -> Sequence[np.ndarray]:
            check_deadline()
            try:
                return self._function(np.ascontiguousarray(point), weights)
            except np.linalg.LinAlgError:  # a singular matrix: the density is zero there
                return np.array(np.nan), np.zeros_like(point)

        def call(points: np.ndarray) -> Sequence[np.ndarray]:
            pairs = [at(point) for point in points]
            return [
                np.array(column).reshape(len(points), *np.shape(column[0]))
                for column in zip(*pairs, strict=True)
            ]

        return call


GradientFunction = Program | Looped


class Gradient:
    """Value and gradient of sum_k w_k t_k(x), compiled at the first call of :meth:`available`.

    Parameters
    ----------
    x
        The vector of coordinates.
    pieces
        The terms, as graphs over x.
    lengths
        The number of terms of each piece.
    reference
        Points, some of which the function is tried at, (size, dimension).
    notes
        Where to say why there is no gradient, or a slow one.
    by_row
        Whether each point has weights of its own.
    """

    def __init__(
        self,
        x: TensorVariable,
        pieces: Sequence[TensorVariable],
        lengths: np.ndarray,
        reference: np.ndarray,
        notes: list[str],
        by_row: bool = False,
    ) -> None:
        #: The vector of coordinates, and the terms as graphs over it.
        self.graphs = x, pieces
        self._lengths, self._by_row = lengths, by_row
        self._ends = np.cumsum(lengths)
        self._count = int(lengths.sum())
        self._points = reference
        self._notes = notes
        #: What evaluates it, once it was compiled: "numpy", or "numba" for one point at a time.
        self.backend: str | None = None
        self._function: GradientFunction | None = None
        self._elements = 1  # the size of the largest array on the way, for each point
        self._bound: tuple[bytes, Callable[..., Sequence[np.ndarray]]] | None = None
        self._tried = False

    def by_row(self) -> "Gradient":
        """Return the same with weights of its own for each point."""
        return Gradient(*self.graphs, self._lengths, self._points, self._notes, by_row=True)

    def available(self) -> bool:
        """Whether the model has a gradient that can be evaluated in batches."""
        if not self._tried:
            with COMPILING:
                if not self._tried:
                    self._function = self._compile()
                    self._tried = True
        return self._function is not None

    def __call__(self, points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values, (size,), and the gradients, (size, dimension).

        Where the density is zero, so is the gradient. ``weights`` are those of the terms, or, with
        ``by_row``, those of the terms for each point.
        """
        values, gradients = np.empty(len(points)), np.empty_like(points)
        chunk = max(1, CHUNK // max(self._count, points.shape[1], self._elements, 1))
        function = self._function if self._by_row else self._for_weights(weights)
        assert callable(function)
        for first in range(0, len(points), chunk):
            part = slice(first, first + chunk)
            own = (weights[part],) if self._by_row else ()
            values[part], gradients[part] = function(points[part], *own)
        values[np.isnan(values)] = -np.inf
        gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
        return values, gradients

    def _for_weights(self, weights: np.ndarray) -> Callable[..., Sequence[np.ndarray]]:
        """Return the function for some weights; the ones used last are at hand."""
        assert self._function is not None
        key = weights.tobytes()
        bound = self._bound
        if bound is None or bound[0] != key:
            self._bound = bound = key, self._function.bind(weights)
        return bound[1]

    def _compile(self) -> GradientFunction | None:
        """Return the quickest function that agrees with PyTensor's own gradient."""
        x, pieces = self.graphs
        nodes = len({v.owner for v in ancestors(pieces) if v.owner is not None})
        if nodes > LARGE:
            large = self._compile_large()
            if large is not None:
                return large
        weights = pt.tensor("weights", dtype="float64", shape=(self._count,))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                total = self._weighted_sum(pieces, weights)
                gradient = differentiate(total, x)
            except (NotImplementedError, TypeError, ValueError, NullTypeGradError) as error:
                # The kinds that PyTensor raises for an operation without a derivative.
                self._note("no gradient", error)
                return None
            trial = np.random.default_rng(0).uniform(0.5, 1.5, self._count)
            at_trial = graph_replace(
                [pt.atleast_1d(total), gradient], {weights: pt.constant(trial)}, strict=False
            )
            own = Reference(x, at_trial, self._points, finite=True, tolerance=TOLERANCE)
            if not len(own.points):
                self._note("no gradient", own.failure or "none at any prior draw")
                return None
            backends = [("numpy", self._interpret), ("numba", self._loop)]
            for backend, compile_one in backends[:1] if self._by_row else backends:
                try:
                    function = compile_one(x, weights, total, gradient)
                    if function is None:
                        continue
                    at_once = _at_trial(function, trial) if self._by_row else function.bind(trial)
                    wrong = own.compare(_joined(at_once))
                except Exception as error:  # compilers raise anything: it is noted
                    self._note(f"no gradient with {backend}", error)
                    continue
                if wrong is None:
                    self.backend = backend
                    if isinstance(function, Program):
                        self._set_elements(function, trial)
                    return function
                what = f"coordinate {wrong.place - 1}" if wrong.place else "the value"
                values = f"{wrong.found:.6g}, and {wrong.expected:.6g} in PyTensor's own"
                self._note(f"no gradient with {backend}", f"{what} is {values}")
        return None

    def _compile_large(self) -> Program | None:
        """Return the function of a large graph, if it agrees with differences of its values.

        PyTensor's own gradient of it would take as long to derive as this one.
        """
        x, pieces = self.graphs
        weights = pt.tensor("weights", dtype="float64", shape=(self._count,))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                total = self._weighted_sum(pieces, weights)
                copies = self._opened(x, weights, [total])
                function = compile_gradient(
                    [x, weights], self._batched(x, weights), copies[0], differentiate
                )
                if not function.vectorized:
                    return None
                trial = np.random.default_rng(0).uniform(0.5, 1.5, self._count)
                at_once = _at_trial(function, trial) if self._by_row else function.bind(trial)
                if not agrees_with_differences(_joined(at_once), self._points):
                    return None
                self._set_elements(function, trial)
            except Exception as error:  # compilers raise anything: it is noted
                self._note("a large graph is not batched before it is differentiated", error)
                return None
        self.backend = "numpy"
        return function

    def _set_elements(self, function: Program, trial: np.ndarray) -> None:
        if self._by_row:
            rows = np.broadcast_to(trial, (len(self._points), len(trial)))
            self._elements = function.elements_per_point(self._points, rows)
        else:
            self._elements = function.bind(trial).elements_per_point(self._points)

    def _weighted_sum(
        self, pieces: Sequence[TensorVariable], weights: TensorVariable
    ) -> TensorVariable:
        # Piece by piece: PyTensor 3.3 loses count when it batches the gradient of a join.
        total = pt.zeros(())
        for piece, first, last in zip(pieces, [0, *self._ends[:-1]], self._ends, strict=True):
            own = weights[int(first) : int(last)]
            # An inactive term may be -inf, which zero times would make a NaN.
            total += pt.sum(pt.switch(pt.neq(own, 0), own * piece, 0.0))
        return total

    def _interpret(
        self, x: TensorVariable, weights: TensorVariable, *graphs: TensorVariable
    ) -> Program | None:
        """Return the batched function on NumPy, or None if it would be a loop."""
        opened = self._opened(x, weights, graphs)
        batched = self._batched(x, weights)
        function = compile_batched([x, weights], batched, opened, trusted=True)
        return function if function.vectorized else None

    def _opened(
        self, x: TensorVariable, weights: TensorVariable, graphs: Sequence[TensorVariable]
    ) -> list[TensorVariable]:
        """Return copies of graphs in a form that can be batched."""
        fgraph = FunctionGraph([x, weights], copy_graphs(x, graphs), clone=False)
        in2out(open_graph).rewrite(fgraph)  # derivatives may be closed again
        index_first_axes(fgraph)
        return list(fgraph.outputs)

    def _batched(self, x: TensorVariable, weights: TensorVariable) -> dict[Variable, Variable]:
        """Return the inputs with a first axis for points."""
        given = [x, weights] if self._by_row else [x]
        return {v: pt.tensor(dtype="float64", shape=(None, *v.type.shape)) for v in given}

    def _loop(self, x: TensorVariable, weights: TensorVariable, *graphs: TensorVariable) -> Looped:
        """Return what numba makes of the gradient at one point, called for one after another."""
        compiled = compile_with_numba([x, weights], copy_graphs(x, graphs))
        return Looped(compiled)

    def _note(self, what: str, why: Exception | str) -> None:
        text = f"{type(why).__name__}: {why}" if isinstance(why, Exception) else why
        self._notes.append(f"{what}: {text}".splitlines()[0][:200])


def _at_trial(
    function: GradientFunction, trial: np.ndarray
) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
    """Return a function of weights by row with the same ones for all."""
    assert isinstance(function, Program)
    return lambda points: function(points, np.tile(trial, (len(points), 1)))


def _joined(
    function: Callable[[np.ndarray], Sequence[np.ndarray]],
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function to one row a point, the value first."""

    def call(points: np.ndarray) -> np.ndarray:
        value, gradient = function(points)
        if value.shape != (len(points),) or gradient.shape != points.shape:
            raise ValueError("the graph lost its batch axis")
        return np.concatenate([value[:, None], gradient], axis=1)

    return call
