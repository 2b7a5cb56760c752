"""Factors of the precision of a field, as vectors of numbers that vary smoothly with parameters.

A field x has a conditional mean m and a precision L L^T, x = m + L^-T u with u standard normal. L
is sparse, with the pattern that elimination in a good order leaves, and its columns are scaled by
the exponentials of a vector, so that any numbers make a factor that can be inverted: they may be
interpolated. A column of a random walk has one element below the diagonal, one of groups with
slopes and common coefficients a few, one of a Gaussian process all of them.
"""

from typing import Any

import numpy as np
import scipy

__all__ = ["SparseFactor", "choose_factor"]

# Elements of a factor, beyond which interpolating them costs more than trajectories do.
LARGEST = 60_000


def choose_factor(pattern: np.ndarray) -> "SparseFactor | None":
    """Return a factor for a pattern of second derivatives, or None if it would be too large."""
    orders = [
        scipy.sparse.csgraph.reverse_cuthill_mckee(
            scipy.sparse.csr_matrix(pattern), symmetric_mode=True
        ),
        _least_neighbours_first(pattern),
    ]
    best = None
    for order in orders:
        columns = _eliminate(pattern, np.asarray(order))
        if columns is not None and (best is None or _count(columns) < _count(best[1])):
            best = np.asarray(order), columns
    return None if best is None else SparseFactor(*best)


def _count(columns: list[np.ndarray]) -> int:
    return sum(len(column) for column in columns)


def _eliminate(pattern: np.ndarray, order: np.ndarray) -> list[np.ndarray] | None:
    """Return the rows below the diagonal of each column of the factor, None if there are too many.

    The pattern of a column is that of the precision, and of those columns whose first row it is.
    """
    place = np.argsort(order)
    children: list[list[set[int]]] = [[] for _ in order]
    columns, total = [], 0
    for number, coordinate in enumerate(order):
        own = {int(p) for p in place[np.flatnonzero(pattern[coordinate])] if p > number}
        for child in children[number]:
            own |= child
        own.discard(number)
        total += len(own)
        if total > LARGEST:
            return None
        columns.append(np.array(sorted(own), dtype=np.int64))
        if own:
            children[min(own)].append(own)
    return columns


def _least_neighbours_first(pattern: np.ndarray) -> np.ndarray:
    """Return the order of coordinates by how many others they depend on: common ones come last."""
    return np.argsort(pattern.sum(axis=1), kind="stable")


class SparseFactor:
    """Turns standard normal numbers into those with a given precision, and back.

    ``numbers`` are (size, count): those of each row. Coordinates are in the order of the field.

    Parameters
    ----------
    order
        The order of the coordinates in which the precision is eliminated.
    columns
        The rows below the diagonal of each column of L, in that order.
    """

    def __init__(self, order: np.ndarray, columns: list[np.ndarray]) -> None:
        self.order, self.size = order, len(order)
        lengths = np.array([len(column) for column in columns], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._rows = np.concatenate([np.zeros(0, dtype=np.int64), *columns])
        self.count = self.size + len(self._rows)
        self._place = np.argsort(order)
        owner = np.repeat(np.arange(self.size), lengths)
        # Where an element (row, column) is among those below the diagonal.
        self._keys = owner * self.size + self._rows

    def factorize(self, precision: Any) -> Any:
        """Return the factorization of a precision from :meth:`matrix`; None if it is not positive.

        SuperLU without a change of order: its lower factor has ones on the diagonal, and the upper
        one is the same scaled.
        """
        try:
            found = scipy.sparse.linalg.splu(
                precision,
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True, "Equil": False},
            )
        except RuntimeError:  # singular
            return None
        straight = np.array_equal(found.perm_r, np.arange(self.size))
        diagonal = found.U.diagonal()
        return found if straight and (diagonal > 0).all() else None

    def matrix(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Any:
        """Return a precision from values at places of the pattern, both triangles, as SciPy's."""
        places = self._place[rows], self._place[columns]
        matrix = scipy.sparse.csc_matrix((values, places), shape=(self.size, self.size))
        return (0.5 * (matrix + matrix.T)).tocsc()

    def solve(self, factorization: Any, right: np.ndarray) -> np.ndarray:
        """Return precision^-1 right, of vectors in the order of the field."""
        return np.asarray(factorization.solve(np.ascontiguousarray(right[self.order])))[self._place]

    def solve_by(self, numbers: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return precision^-1 right of rows, each with numbers of its own."""
        none = np.zeros_like(right)
        return self.spread(numbers, self.pull_back(numbers, none, none, right)[0])

    def pack(self, factorization: Any) -> np.ndarray:
        """Return the numbers of a factorization."""
        numbers = np.zeros(self.count)
        numbers[: self.size] = 0.5 * np.log(factorization.U.diagonal())
        lower = factorization.L.tocoo()
        below = lower.row > lower.col
        keys = lower.col[below].astype(np.int64) * self.size + lower.row[below]
        numbers[self.size + np.searchsorted(self._keys, keys)] = lower.data[below]
        return numbers

    def log_volume(self, numbers: np.ndarray) -> np.ndarray:
        """Return log |dx / du|."""
        return -numbers[:, : self.size].sum(axis=1)

    def spread(self, numbers: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return L^-T u."""
        from pymc_arm.models.fields.kernels import spread

        return spread(self._starts, self._rows, numbers, noise[:, self.order])[:, self._place]

    def gather(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u from L^-T u."""
        from pymc_arm.models.fields.kernels import gather

        return gather(self._starts, self._rows, numbers, offsets[:, self.order])[:, self._place]

    def pull_back(
        self, numbers: np.ndarray, noise: np.ndarray, offsets: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in u and in the numbers, of log f + log |dx / du|.

        ``slopes`` are those in x, and ``offsets`` is L^-T u.
        """
        from pymc_arm.models.fields.kernels import pull_back

        given = (part[:, self.order] for part in (noise, offsets, slopes))
        to_noise, to_numbers = pull_back(self._starts, self._rows, numbers, *given)
        return to_noise[:, self._place], to_numbers
