"""The terms of two models over the same coordinates, as one list of terms.

Powers of the terms then say which of the two is meant, or how much of each: p_beta ~ f_old^(1 -
beta) f_new^beta has beta for those of the first and 1 - beta for those of the second.
"""

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import PathError
from pymc_arm.models.density import Density

__all__ = ["JoinedDensity"]


class _JoinedGradient:
    """The gradient of a weighted sum of the terms of both."""

    def __init__(self, first: Density, second: Density) -> None:
        self._parts, self._count = (first, second), first.count

    def available(self) -> bool:
        """Whether both models have one."""
        return all(part.gradient.available() for part in self._parts)

    def __call__(self, points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values, (size,), and the gradients, (size, dimension)."""
        values, gradients = np.zeros(len(points)), np.zeros_like(points)
        for part, own in zip(self._parts, np.split(weights, [self._count]), strict=True):
            if own.any():
                value, gradient = part.gradient(points, own)
                values, gradients = values + value, gradients + gradient
        return values, gradients


class JoinedDensity:
    """The terms of one model, and then those of another; see :class:`Density`.

    Parameters
    ----------
    first, second
        Over the same coordinates.
    """

    def __init__(self, first: Density, second: Density) -> None:
        self._parts = first, second
        self.blocks = (*first.blocks, *second.blocks)
        self.sizes = np.concatenate([first.sizes, second.sizes])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.notes, self.backend = [*first.notes, *second.notes], first.backend
        self.gradient = _JoinedGradient(first, second)

    @property
    def count(self) -> int:
        """The number of terms."""
        return sum(part.count for part in self._parts)

    @property
    def work(self) -> int:
        """How many single terms an evaluation at one point takes."""
        return sum(part.work for part in self._parts)

    @property
    def held(self) -> int:
        """The elements of the largest array that an evaluation holds."""
        return max(part.held for part in self._parts)

    @property
    def reference(self) -> np.ndarray:
        """The points at which functions are tried, (size, dimension)."""
        return self._parts[0].reference

    @property
    def observations(self) -> np.ndarray:
        """How many observations are in each term."""
        return np.concatenate([part.observations for part in self._parts])

    def terms(self, points: np.ndarray, selection: np.ndarray | None = None) -> np.ndarray:
        """Return terms at points, (size, len(selection)); all of them without a selection."""
        selection = np.arange(self.count) if selection is None else selection
        result = np.empty((len(points), len(selection)))
        for part, mine, own in self._split(selection):
            result[:, mine] = part.terms(points, own)
        return result

    def sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_k weights[k] t_k at each point."""
        halves = np.split(weights, [self._parts[0].count])
        first, second = (p.sum(points, own) for p, own in zip(self._parts, halves, strict=True))
        return _add(first, second)

    def terms_at(
        self, points: np.ndarray, columns: np.ndarray, values: np.ndarray, selection: np.ndarray
    ) -> np.ndarray:
        """Return terms at points whose ``columns`` have each of some values."""
        result = np.empty((*values.shape[:2], len(selection)))
        for part, mine, own in self._split(selection):
            result[:, :, mine] = part.terms_at(points, columns, values, own)
        return result

    def sum_at(
        self, points: np.ndarray, column: int, values: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return sum_k weights[k] t_k at points with a column set to each of a row of values."""
        halves = np.split(weights, [self._parts[0].count])
        first, second = (
            part.sum_at(points, column, values, own)
            for part, own in zip(self._parts, halves, strict=True)
        )
        return _add(first, second)

    def graphs_of(
        self, terms: np.ndarray
    ) -> tuple[TensorVariable, list[TensorVariable], list[int]]:
        """Raise: each of the two models has coordinates of its own in its graphs."""
        raise PathError("Terms of two models have no common graph.")

    def _split(self, selection: np.ndarray) -> list[tuple[Density, np.ndarray, np.ndarray]]:
        """Return each model, where its terms are in a selection, and which of its own they are."""
        second = selection >= self._parts[0].count
        found = []
        for part, mine, first in zip(
            self._parts, (~second, second), (0, self._parts[0].count), strict=True
        ):
            if mine.any():
                found.append((part, mine, selection[mine] - first))
        return found


def _add(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a sum, -inf where it is not a number."""
    with np.errstate(invalid="ignore"):
        total = first + second
    return np.where(np.isnan(total), -np.inf, total)
