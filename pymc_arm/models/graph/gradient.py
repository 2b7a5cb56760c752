"""The gradient of a model's log-density, batched over particles, for moves and for fits.

It is built when it is first asked for: only models of some dimension gain from it. It runs on
NumPy (:mod:`pymc_arm.models.graph.interpret`), so it costs no compilation. A model whose gradient
PyTensor can't derive, or not batch into array operations, is moved without one.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.graph.program import Program

__all__ = ["Gradient"]

# Elements evaluated at once; see CHUNK in density.py. A gradient holds several such arrays.
CHUNK = 65_536


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
        A few points at which the function is tried, (size, dimension).
    """

    def __init__(
        self,
        x: TensorVariable,
        pieces: Sequence[TensorVariable],
        lengths: np.ndarray,
        reference: np.ndarray,
    ) -> None:
        self._graphs = x, pieces
        self._ends = np.cumsum(lengths)
        self._count = int(lengths.sum())
        self._reference = reference[:8]
        self._function: Program | None = None
        self._bound: tuple[bytes, Program] | None = None
        self._tried = False

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

        Where the density is zero, so is the gradient.
        """
        function = self._for_weights(weights)
        values, gradients = np.empty(len(points)), np.empty_like(points)
        chunk = max(1, CHUNK // max(len(weights), points.shape[1], 1))
        for first in range(0, len(points), chunk):
            part = slice(first, first + chunk)
            values[part], gradients[part] = function(points[part])
        values[np.isnan(values)] = -np.inf
        gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
        return values, gradients

    def _for_weights(self, weights: np.ndarray) -> Program:
        """Return the function for some weights; the ones used last are at hand."""
        assert self._function is not None
        key = weights.tobytes()
        bound = self._bound
        if bound is None or bound[0] != key:
            self._bound = bound = key, self._function.bind(weights)
        return bound[1]

    def _compile(self) -> Program | None:
        x, pieces = self._graphs
        rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
        weights = pt.tensor("weights", dtype="float64", shape=(self._count,))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Piece by piece: PyTensor 3.3 loses count when it batches the gradient of a join.
                ends = self._ends
                total = pt.zeros(())
                for piece, first, last in zip(pieces, [0, *ends[:-1]], ends, strict=True):
                    own = weights[int(first) : int(last)]
                    # An inactive term may be -inf, which zero times would make a NaN.
                    total += pt.sum(pt.switch(pt.gt(own, 0), own * piece, 0.0))
                gradient = pytensor.grad(total, x)
                graphs = vectorize_graph([total, gradient], {x: rows})
                function = compile_with_numpy([rows, weights], *graphs, trusted=True)
            if not self._is_right(function):
                return None
        except Exception:
            return None
        return function

    def _is_right(self, function: Program) -> bool:
        """Whether the gradient is quick, and agrees with differences in a random direction."""
        if not function.vectorized:
            return False
        points = self._reference
        weights = np.ones(self._count)
        value, gradient = function(points, weights)
        if value.shape != (len(points),) or gradient.shape != points.shape:
            return False
        direction = np.random.default_rng(0).normal(size=points.shape)
        step = 1e-5
        after, _ = function(points + step * direction, weights)
        before, _ = function(points - step * direction, weights)
        with np.errstate(all="ignore"):
            difference = (after - before) / (2 * step)
            slope = (gradient * direction).sum(axis=1)
            good = np.isfinite(difference) & np.isfinite(slope)
            error = np.abs(difference - slope) / (1e-3 + np.abs(slope) + 1e-6 * np.abs(value))
        # A kink may lie between the two points of a few differences.
        return bool(good.any() and np.median(error[good]) < 1e-2)
