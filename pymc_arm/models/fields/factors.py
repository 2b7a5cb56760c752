"""Factors of the precision of a field, as vectors of numbers that vary smoothly with parameters.

A field x has the conditional mean m and a factor F of its covariance, x = m + F u with u standard
normal. F is a triangular matrix whose columns are scaled by the exponential of a vector, so that any
numbers make one that can be inverted: they may be interpolated. Where the precision is a narrow band
(random walks, autoregressions), it is the factor of the precision, and F its inverse transpose.
"""

from typing import Protocol

import numpy as np
import scipy

__all__ = ["BandFactor", "Factor", "MatrixFactor", "choose_factor"]

# A band is used if it has at most this share of the columns, or is as narrow as this.
LARGEST_SHARE, NARROW = 0.15, 8
# Larger matrices take more time than trajectories do.
LARGEST_MATRIX = 150


class Factor(Protocol):
    """Turns standard normal numbers into those with a given precision, and back.

    ``numbers`` are (size, count): those of each row. Coordinates are in the order of the field.
    """

    count: int

    def solve(self, precisions: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return precision^-1 right, of each row, and which precisions are positive definite."""

    def pack(self, precisions: np.ndarray) -> np.ndarray:
        """Return the numbers of positive definite precisions."""

    def log_volume(self, numbers: np.ndarray) -> np.ndarray:
        """Return log |dx / du|."""

    def spread(self, numbers: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return F u."""

    def gather(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u from F u."""

    def pull_back(
        self, numbers: np.ndarray, noise: np.ndarray, offsets: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in u and in the numbers, of log f + log |dx / du|.

        ``slopes`` are those in x, and ``offsets`` is F u.
        """


def choose_factor(pattern: np.ndarray) -> "Factor | None":
    """Return the cheapest factor for a pattern of second derivatives, None if all are too large."""
    size = len(pattern)
    graph = scipy.sparse.csr_matrix(pattern)
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True)
    rows, columns = np.nonzero(pattern[np.ix_(order, order)])
    width = int(np.abs(rows - columns).max())
    if width <= max(LARGEST_SHARE * size, NARROW):
        return BandFactor(np.asarray(order), width)
    return MatrixFactor(size) if size <= LARGEST_MATRIX else None


class MatrixFactor:
    """A lower triangular factor of the covariance: any pattern, few coordinates."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, size * size
        self._diagonal = np.arange(size) * (size + 1)
        self._lower = np.tri(size, k=-1)

    def solve(self, precisions: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return precision^-1 right, of each row, and which precisions are positive definite."""
        found, good = np.zeros_like(right), np.ones(len(right), dtype=bool)
        for row, (precision, own) in enumerate(zip(precisions, right, strict=True)):
            try:
                factor = scipy.linalg.cho_factor(precision, lower=True, check_finite=True)
                found[row] = scipy.linalg.cho_solve(factor, own)
            except (np.linalg.LinAlgError, ValueError):
                good[row] = False
        return found, good

    def pack(self, precisions: np.ndarray) -> np.ndarray:
        """Return the numbers of positive definite precisions."""
        factor = np.linalg.cholesky(np.linalg.inv(precisions))
        scale = np.diagonal(factor, axis1=1, axis2=2)
        numbers = (factor / scale[:, None, :]).reshape(len(precisions), -1)
        numbers[:, self._diagonal] = np.log(scale)
        return numbers

    def log_volume(self, numbers: np.ndarray) -> np.ndarray:
        """Return log |dx / du|."""
        return numbers[:, self._diagonal].sum(axis=1)

    def spread(self, numbers: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return F u."""
        scaled = noise * np.exp(numbers[:, self._diagonal])
        return scaled + np.einsum("pij,pj->pi", self._strict(numbers), scaled)

    def gather(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u from F u."""
        unit = self._strict(numbers) + np.eye(self.size)
        scaled = np.linalg.solve(unit, offsets[:, :, None])[:, :, 0]
        return scaled * np.exp(-numbers[:, self._diagonal])

    def pull_back(
        self, numbers: np.ndarray, noise: np.ndarray, offsets: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in u and in the numbers, of log f + log |dx / du|."""
        scale = np.exp(numbers[:, self._diagonal])
        scaled = noise * scale
        back = slopes + np.einsum("pij,pi->pj", self._strict(numbers), slopes)
        to_numbers = (slopes[:, :, None] * (scaled[:, None, :])) * self._lower
        to_numbers = to_numbers.reshape(len(numbers), -1)
        to_numbers[:, self._diagonal] = back * scaled + 1.0
        return back * scale, to_numbers

    def _strict(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(-1, self.size, self.size) * self._lower

    def fill(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return precisions from values at places of the pattern, both triangles, (size, places)."""
        result = np.zeros((len(values), self.size, self.size))
        result[:, rows, columns] = values
        return 0.5 * (result + result.transpose(0, 2, 1))

    def diagonal_of(self, precisions: np.ndarray) -> np.ndarray:
        """Return a view of the diagonals, (size, coordinates)."""
        return np.einsum("pii->pi", precisions)


class BandFactor:
    """The factor of a banded precision: unit triangular, with scaled columns.

    Parameters
    ----------
    order
        The order of the coordinates in which the precision is a band.
    width
        How many diagonals there are below the main one.
    """

    def __init__(self, order: np.ndarray, width: int) -> None:
        self.order, self.width, self.size = order, width, len(order)
        self.count = self.size * (width + 1)
        self._place = np.argsort(order)

    def solve(self, precisions: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return precision^-1 right, of each row, and which precisions are positive definite."""
        found, good = np.zeros_like(right), np.ones(len(right), dtype=bool)
        for row, (band, own) in enumerate(zip(precisions, right, strict=True)):
            try:
                solved = scipy.linalg.solveh_banded(band, own[self.order], lower=True)
                found[row, self.order] = solved
            except (np.linalg.LinAlgError, ValueError):
                good[row] = False
        return found, good

    def pack(self, precisions: np.ndarray) -> np.ndarray:
        """Return the numbers of positive definite precisions: of each diagonal, the first first."""
        bands = np.array([scipy.linalg.cholesky_banded(band, lower=True) for band in precisions])
        scale = bands[:, :1]
        numbers = bands / scale
        numbers[:, 0] = np.log(scale[:, 0])
        return numbers.reshape(len(precisions), -1)

    def log_volume(self, numbers: np.ndarray) -> np.ndarray:
        """Return log |dx / du|."""
        return -numbers[:, : self.size].sum(axis=1)

    def spread(self, numbers: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return F u: the transpose of the factor of the precision is solved for."""
        bands = self._bands(numbers)
        found = np.ascontiguousarray((noise[:, self.order] * np.exp(-numbers[:, : self.size])).T)
        for place in range(self.size - 2, -1, -1):
            for k in range(1, min(self.width, self.size - 1 - place) + 1):
                found[place] -= bands[k, place] * found[place + k]
        return found.T[:, self._place]

    def gather(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u from F u."""
        bands, given = self._bands(numbers), offsets[:, self.order].T
        found = given.copy()
        for k in range(1, self.width + 1):
            found[:-k] += bands[k, :-k] * given[k:]
        return (found.T * np.exp(numbers[:, : self.size]))[:, self._place]

    def pull_back(
        self, numbers: np.ndarray, noise: np.ndarray, offsets: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in u and in the numbers, of log f + log |dx / du|."""
        bands, width, size = self._bands(numbers), self.width, self.size
        solved = np.ascontiguousarray(slopes[:, self.order].T)
        for place in range(1, size):
            for k in range(1, min(width, place) + 1):
                solved[place] -= bands[k, place - k] * solved[place - k]
        to_noise = solved.T * np.exp(-numbers[:, :size])
        to_numbers = np.zeros((len(numbers), width + 1, size))
        to_numbers[:, 0] = -to_noise * noise[:, self.order] - 1.0
        given = offsets[:, self.order].T
        for k in range(1, width + 1):
            to_numbers[:, k, :-k] = -(given[k:] * solved[:-k]).T
        return to_noise[:, self._place], to_numbers.reshape(len(numbers), -1)

    def _bands(self, numbers: np.ndarray) -> np.ndarray:
        """Return the diagonals below the main one, (width + 1, coordinates, size)."""
        rows = numbers.reshape(-1, self.width + 1, self.size)
        return np.ascontiguousarray(rows.transpose(1, 2, 0))

    def fill(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return precisions from values at places of the pattern, both triangles, (size, places)."""
        first, second = self._place[rows], self._place[columns]
        result = np.zeros((len(values), self.width + 1, self.size))
        for sign in (1, -1):
            lower = sign * (first - second) >= (0 if sign == 1 else 1)
            distance = np.abs(first - second)[lower]
            start = np.minimum(first, second)[lower]
            share = np.where(distance == 0, 1.0, 0.5)
            np.add.at(result, (slice(None), distance, start), share * values[:, lower])
        return result

    def diagonal_of(self, precisions: np.ndarray) -> np.ndarray:
        """Return a view of the diagonals, (size, coordinates)."""
        return precisions[:, 0]
