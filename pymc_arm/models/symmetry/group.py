"""Permutations of blocks of coordinates, and changes of their signs.

A mixture does not change when its components change places, a factor model when a factor and its
loadings change their sign, a layer of neurons when two of them are exchanged with all that goes in
and out. Each of these acts linearly on unbounded coordinates and keeps volumes, so that the
integral of the density over an image of a set is that over the set.

The logarithms of the k parts of a simplex are given by k - 1 coordinates, whose sum is minus the
last: with that one added (:class:`Extension`) permutations of parts are permutations of
coordinates.
"""

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Extension", "Symmetry"]


@dataclass(frozen=True)
class Extension:
    """Points with more coordinates, each minus the sum of some others.

    Parameters
    ----------
    dimension
        How many coordinates there are without them.
    closures
        The coordinates that each of the others closes to zero.
    """

    dimension: int
    closures: tuple[np.ndarray, ...] = ()

    def extend(self, points: np.ndarray) -> np.ndarray:
        """Return points with all coordinates."""
        if not self.closures:
            return points
        more = [-points[:, each].sum(axis=1) for each in self.closures]
        return np.concatenate([points, np.stack(more, axis=1)], axis=1)

    def closed_by(self, coordinates: np.ndarray) -> np.ndarray:
        """Return some coordinates, and those that are sums of these alone."""
        whole = [np.isin(each, coordinates).all() for each in self.closures]
        return np.concatenate([coordinates, self.dimension + np.flatnonzero(whole)])

    def restrict(self, extended: np.ndarray) -> np.ndarray:
        """Return points without those that were added."""
        return extended[:, : self.dimension]


@dataclass(frozen=True)
class Symmetry:
    """Blocks of coordinates that may change places, or signs, or both.

    Parameters
    ----------
    name
        Whose blocks they are, for the plan.
    blocks
        The coordinates of each, (blocks, columns), among extended ones.
    signs
        By what a change of sign multiplies each column, 1 or -1, (columns,).
    permuted
        Whether blocks may change places.
    """

    name: str
    blocks: np.ndarray
    signs: np.ndarray
    permuted: bool

    @property
    def flipped(self) -> bool:
        """Whether blocks may change their signs, each by itself."""
        return bool((self.signs < 0).any())

    @property
    def order(self) -> int:
        """The number of its elements."""
        count = len(self.blocks)
        return (math.factorial(count) if self.permuted else 1) * (2**count if self.flipped else 1)

    @property
    def moved(self) -> np.ndarray:
        """The coordinates that some element changes."""
        return (self.blocks if self.permuted else self.blocks[:, self.signs < 0]).ravel()

    def apply(self, extended: np.ndarray, places: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Return images of points.

        Parameters
        ----------
        extended
            (size, coordinates)
        places
            Which block comes to the place of each, (size, blocks) or (blocks,).
        signs
            The sign that it gets, 1 or -1, likewise.
        """
        size = len(extended)
        places = np.broadcast_to(places, (size, len(self.blocks)))
        signs = np.broadcast_to(signs, places.shape)
        content = extended[:, self.blocks]
        chosen = content[np.arange(size)[:, None], places]
        factor = np.where(signs[:, :, None] < 0, self.signs, 1.0)
        result = extended.copy()
        result[:, self.blocks] = chosen * factor
        return result

    def generators(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return places and signs of elements that all others are products of."""
        count = len(self.blocks)
        found = []
        for first in range(count - 1 if self.permuted else 0):
            places = np.arange(count)
            places[[first, first + 1]] = first + 1, first
            found.append((places, np.ones(count)))
        for number in range(count if self.flipped else 0):
            signs = np.ones(count)
            signs[number] = -1.0
            found.append((np.arange(count), signs))
        return found

    def draw(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places and signs of random elements, (size, blocks)."""
        count = len(self.blocks)
        places = np.broadcast_to(np.arange(count), (size, count))
        if self.permuted:
            places = np.argsort(rng.random((size, count)), axis=1)
        signs = np.ones((size, count))
        if self.flipped:
            signs = np.where(rng.random((size, count)) < 0.5, -1.0, 1.0)
        return places, signs
