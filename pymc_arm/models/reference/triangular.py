"""Covariance factors seen by standard deviations and partial correlations.

The Cholesky factor of an unknown covariance matrix comes as its rows, each with the logarithm of
its diagonal element. The length of a row is a standard deviation, and its direction tells the
correlations with earlier variables. Where a standard deviation may be near zero, all elements of
the row are, so that the posterior of the elements is a funnel: with five exponential standard
deviations the last row has a density like 1 / s^4 near zero. In the logarithm of the length, and
the inverse hyperbolic tangents of partial correlations (Lewandowski, Kurowicka and Joe, 2009), an
LKJ prior is a product of smooth densities of one variable each.

Whether lengths and directions are independent is asked of the log-prior's values. The map is exact
whatever they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pymc_arm.models.path import GenericPath

__all__ = ["TriangularRows", "find_triangular_rows"]

# Prior draws that are compared in pairs, and the largest difference, in nats relative to the size
# of the values, that is rounding.
PRIOR_DRAWS, PAIRS, TOLERANCE = 40, 8, 1e-6


@dataclass(frozen=True)
class TriangularRows:
    """The rows of some packed triangular matrices, from the second one on.

    Each row holds the coordinates of its elements; the last one is the logarithm of the diagonal
    element, and of the row's length in the view. ``first`` are the coordinates of the first rows,
    which are the same in both.
    """

    rows: tuple[np.ndarray, ...]

    @property
    def coordinates(self) -> np.ndarray:
        """All coordinates that are changed."""
        return np.concatenate([np.zeros(0, dtype=int), *self.rows])

    def to_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points with the elements in place, and the log of the Jacobian."""
        result, log_volume = points.copy(), np.zeros(len(points))
        for row in self.rows:
            log_rest = points[:, row[-1]]
            for element in row[:-1]:
                log_volume += log_rest
                angle = points[:, element]
                log_rest = log_rest - _log_cosh(angle)
                result[:, element] = np.exp(log_rest) * np.sinh(angle)
            result[:, row[-1]] = log_rest
        return result, log_volume

    def from_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points of the view, and the same log of the Jacobian."""
        result, log_volume = points.copy(), np.zeros(len(points))
        for row in self.rows:
            log_rest = points[:, row[-1]]
            for element in row[-2::-1]:
                angle = np.arcsinh(points[:, element] * np.exp(-log_rest))
                result[:, element] = angle
                log_rest = log_rest + _log_cosh(angle)
                log_volume += log_rest
            result[:, row[-1]] = log_rest
        return result, log_volume

    def pull_back(self, points: np.ndarray, inside: np.ndarray, adjoint: np.ndarray) -> None:
        """Turn the gradient in elements into that in the view, with the Jacobian's, in place."""
        for row in self.rows:
            to_rest, log_rest = adjoint[:, row[-1]], inside[:, row[-1]]
            for element in row[-2::-1]:
                angle, slope = points[:, element], adjoint[:, element]
                to_rest = to_rest + slope * inside[:, element]
                own = slope * np.exp(log_rest) * np.cosh(angle) - to_rest * np.tanh(angle)
                log_rest = log_rest + _log_cosh(angle)
                adjoint[:, element] = own
                to_rest = to_rest + 1
            adjoint[:, row[-1]] = to_rest


def _log_cosh(angle: np.ndarray) -> np.ndarray:
    return np.asarray(np.logaddexp(angle, -angle) - np.log(2.0))


def find_triangular_rows(path: GenericPath, kept: np.ndarray) -> TriangularRows | None:
    """Return the rows of packed factors whose lengths and directions are independent; or None.

    Parameters
    ----------
    path
        The path of the model.
    kept
        The coordinates that are looked at.
    """
    layout, density = path.plan.layout, path.density
    candidates = [
        (number, slot)
        for number, slot in enumerate(layout.slots)
        if not slot.discrete and len(slot.shape) == 1 and np.isin(slot.coordinates, kept).all()
    ]
    candidates = [each for each in candidates if _order(each[1].size) > 1]
    if not candidates:
        return None
    rng = np.random.default_rng(0)
    prior = layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
    prior = prior[np.isfinite(prior).all(axis=1)]
    found: list[np.ndarray] = []
    for number, slot in candidates:
        terms = np.arange(density.offsets[number], density.offsets[number + 1])
        rows = tuple(_packed_rows(slot.start, _order(slot.size)))
        if all(_is_product(path, prior, row, terms) for row in rows):
            found.extend(rows)
    return TriangularRows(tuple(found)) if found else None


def _order(size: int) -> int:
    """Return the order of the triangular matrix with so many elements; zero if there is none."""
    order = int((np.sqrt(8 * size + 1) - 1) / 2)
    return order if order * (order + 1) // 2 == size else 0


def _packed_rows(start: int, order: int) -> Iterator[np.ndarray]:
    for number in range(1, order):
        yield start + number * (number + 1) // 2 + np.arange(number + 1)


def _is_product(path: GenericPath, prior: np.ndarray, row: np.ndarray, terms: np.ndarray) -> bool:
    """Whether the log-prior is a function of the row's length plus one of its direction.

    Lengths and directions of different draws are put together: mixed differences vanish.
    """
    pairs = min(PAIRS, len(prior) // 2)
    if not pairs or not len(terms):
        return False
    seen = TriangularRows((row,))
    values = []
    with np.errstate(all="ignore"):
        one = seen.from_model(prior[:pairs])[0]
        other = one.copy()
        other[:, row] = seen.from_model(prior[pairs : 2 * pairs])[0][:, row]
        mixed = [one.copy(), other.copy()]
        mixed[0][:, row[-1]], mixed[1][:, row[-1]] = other[:, row[-1]], one[:, row[-1]]
        for each in (one, other, *mixed):
            points, log_volume = seen.to_model(each)
            values.append(path.density.terms(points, terms).sum(axis=1) + log_volume)
        difference = np.abs(values[0] + values[1] - values[2] - values[3])
        varied = np.abs(values[0] - values[1])
    usable = np.isfinite(difference)
    size = np.abs(values).max(axis=0)
    small = difference <= TOLERANCE * np.maximum(size, 1.0)
    return bool(usable.any() and small[usable].all() and (varied[usable] > 0).any())
