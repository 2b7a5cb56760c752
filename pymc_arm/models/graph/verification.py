"""Whether the evaluation of a graph agrees with PyTensor's own, asked when a model is compiled.

What runs in the sampler went through rewrites, a batch axis, and NumPy's or a compiler's idea of
each operation. The reference is the graph as PyMC wrote it, for one point, by the ``perform`` of
each operation. It needs no compilation. Without rewrites it is exact where nothing overflows or
cancels; where the two differ, the rewritten graphs have the last word, by ``perform`` again.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.batching import copy_graphs
from pymc_arm.models.graph.interpret import compile_with_numpy, read_graph

__all__ = ["Disagreement", "Reference", "agrees_with_differences"]

# Points that are compared: a wrong operation shows at the first, a rare branch may need another.
# The cost grows in proportion.
COMPARED = 3
# Points that are tried for those: PyTensor's own functions raise where ours say "not possible".
TRIED = 12
# Differences count from here, relative to the value or to 1. Half precision differs by 5e-4,
# another meaning by more; a covariance with a condition of 1e10 could lose as many digits as 1e-6;
# reciprocals of integers, which PyTensor 3 has in single precision, by 6e-8.
TOLERANCE = 1e-5
# The same, relative to the largest value at a point: sums of gradients cancel.
TOLERANCE_OF_LARGEST = 1e-8


# The step of differences that a gradient is compared with, relative to the size of a coordinate or
# to 1, and how far both may be apart: the error of a difference is that of values over the step.
STEP, DIFFERENT, ROUNDING = 1e-5, 1e-4, 1e-12


class Disagreement(NamedTuple):
    """Where values differ from the reference first."""

    place: int
    found: float
    expected: float


class Reference:
    """PyTensor's own values of some graphs, joined to one vector, at a few points.

    Parameters
    ----------
    x
        The vector of coordinates.
    graphs
        Vectors over x.
    points
        Those to choose from, (size, dimension).
    finite
        Whether to compare only where the reference is finite: a gradient has no meaning elsewhere.
    tolerance
        From which relative difference on values disagree.
    """

    def __init__(
        self,
        x: TensorVariable,
        graphs: Sequence[TensorVariable],
        points: np.ndarray,
        finite: bool = False,
        tolerance: float = TOLERANCE,
    ) -> None:
        self._x, self._graphs = x, copy_graphs(x, graphs)
        self._finite, self._tolerance = finite, tolerance
        #: Why some points have no value.
        self.failure: str | None = None
        fgraph = FunctionGraph([x], copy_graphs(x, graphs), clone=False)
        values, kept = [], []
        with COMPILING, pytensor.config.change_flags(mode="FAST_COMPILE"):
            program = read_graph(fgraph, by_perform=True)
            for point in points[:TRIED]:
                try:
                    values.append(_join(program(point)))
                except Exception as error:  # any operation may raise anything: it is noted
                    self.failure = f"{type(error).__name__}: {error}".splitlines()[0]
                    continue
                kept.append(point)
                if len(kept) == COMPARED:
                    break
        #: The points that have a value, and those values, one row a point.
        self.points = np.array(kept).reshape(len(kept), points.shape[1])
        self.values = np.array(values)

    def compare(self, evaluate: Callable[[np.ndarray], np.ndarray]) -> Disagreement | None:
        """Return where the rows that a function gives for the points differ from the values."""
        if not len(self.points):
            return None
        found = evaluate(self.points)
        expected, wrong = self.values, self._differ(found, self.values)
        if wrong.any():
            expected = np.where(wrong, self._rewritten, expected)
            wrong &= self._differ(found, expected)
        if wrong.any():
            # The rewrites of a batch are stabler. They decide where the others have no value, and
            # where others lose digits, which they don't do at every point.
            known = np.isfinite(expected)
            elsewhere = (known & ~wrong).any(axis=0)
            wrong &= self._differ(found, self._batched) | (known & ~elsewhere)
        if not wrong.any():
            return None
        row, place = np.argwhere(wrong)[0].tolist()
        return Disagreement(place, float(found[row, place]), float(expected[row, place]))

    @functools.cached_property
    def _rewritten(self) -> np.ndarray:
        """The values with PyTensor's rewrites."""
        with COMPILING, pytensor.config.change_flags(mode="FAST_COMPILE"):
            program = compile_with_numpy([self._x], *self._graphs, by_perform=True)
            return np.array([_join(program(point)) for point in self.points])

    @functools.cached_property
    def _batched(self) -> np.ndarray:
        """The values with PyTensor's rewrites of the graph of all points at once."""
        rows = pt.tensor("X", dtype="float64", shape=(None, *self._x.type.shape))
        with COMPILING, pytensor.config.change_flags(mode="FAST_COMPILE"):
            graphs = vectorize_graph(copy_graphs(self._x, self._graphs), {self._x: rows})
            values = compile_with_numpy([rows], *graphs, by_perform=True)(self.points)
        return np.concatenate([value.reshape(len(self.points), -1) for value in values], axis=1)

    def _differ(self, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Return which values differ. Both NaN and -inf mean "not possible"."""
        finite = np.isfinite(expected)
        found = np.where(np.isnan(found), -np.inf, found)
        sizes = np.where(finite, np.abs(expected), 0.0)
        largest = sizes.max(axis=1, initial=0.0, keepdims=True)
        limit = self._tolerance * (1 + sizes) + TOLERANCE_OF_LARGEST * largest
        expected = np.where(np.isnan(expected), -np.inf, expected)
        with np.errstate(invalid="ignore"):
            wrong = (found != expected) & ~(np.abs(found - expected) <= limit)
        return wrong & finite if self._finite else wrong


def _join(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(np.ravel(value) for value in values)])


def agrees_with_differences(
    evaluate: Callable[[np.ndarray], np.ndarray], points: np.ndarray
) -> bool:
    """Whether gradients agree with differences of the values that come with them.

    Parameters
    ----------
    evaluate
        From points to rows of a value and its gradient.
    points
        Those to choose from, (size, dimension). At least one must have finite values around it.
    """
    points = points[:TRIED]
    count = points.shape[1]
    steps = STEP * np.maximum(1.0, np.abs(points))
    shifts = steps[:, None, :] * np.eye(count)
    around = np.concatenate([points[:, None] + shifts, points[:, None] - shifts], axis=1)
    with np.errstate(all="ignore"):
        found = evaluate(points)
        values = evaluate(around.reshape(-1, count))[:, 0].reshape(len(points), 2, count)
        expected = (values[:, 0] - values[:, 1]) / (2 * steps)
        rounding = ROUNDING * np.abs(found[:, :1]) / steps
        known = np.isfinite(expected).all(axis=1) & np.isfinite(found).all(axis=1)
        largest = np.abs(expected).max(axis=1, keepdims=True)
        limit = DIFFERENT * (1 + np.abs(expected) + 0.01 * largest) + rounding
        wrong = np.abs(found[:, 1:] - expected) > limit
    usable = np.flatnonzero(known)[:COMPARED]
    return len(usable) > 0 and not bool(wrong[usable].any())
