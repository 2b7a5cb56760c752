"""One cell that stands for the whole space: its images under a group cover all of it.

Around a mode, the cell holds the points that are nearer to the mode than any of their images are.
The integral over all space is that over the cell, times the number of images, so that one mode is
all that has to be found, fitted and weighed; a random element of the group takes a draw in the cell
to a draw of the posterior. For permutations of blocks x_i and a mode c the nearest image has the
largest sum of x_i W c_i, which is an assignment problem; W is one matrix for all blocks.

Blocks that are as good as equal at the mode (two components of a mixture that nothing tells apart)
share one c_i. Then the cell holds all their orders, the modes of which are one, and there are fewer
images. Where several symmetries act, each is decided by coordinates that no other one moves, so
that exactly one combination of their elements takes a point to the cell.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pymc_arm.models.symmetry.group import Extension, Symmetry

__all__ = ["Anchor", "Cell"]

# Relative to the largest of the sums that are compared: ties are ties up to rounding. What lies
# this near to a wall counts twice.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Anchor:
    """A symmetry, and the centre that tells which image of a point is in the cell.

    ``columns`` are those of the blocks that decide, ``center`` are the values of blocks there times
    the matrix W, (blocks, columns), and ``images`` is the number of images of the cell.
    """

    symmetry: Symmetry
    columns: np.ndarray
    center: np.ndarray
    images: int

    def scores(self, extended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x_i W c_j for all i and j, (size, blocks, blocks): parts that keep signs or not.

        The second is zero where signs do not change.
        """
        values = extended[:, self.symmetry.blocks[:, self.columns]]
        signed = self.symmetry.signs[self.columns] < 0
        parts = [values[:, :, own] @ self.center[:, own].T for own in (~signed, signed)]
        return parts[0], parts[1]

    def contains(self, extended: np.ndarray) -> np.ndarray:
        """Whether each point is in the cell."""
        kept, signed = self.scores(extended)
        size, count = kept.shape[:2]
        inside = np.ones(size, dtype=bool)
        own = np.arange(count)
        if self.symmetry.flipped:
            inside &= (signed[:, own, own] >= 0).all(axis=1)
        if self.symmetry.permuted:
            total = kept + np.abs(signed)
            # A better assignment is a cycle of negative length (Floyd and Warshall).
            length = total[:, own, own][:, :, None] - total
            margin = ROUNDING * np.abs(total).max(axis=(1, 2))
            for via in range(count):
                np.minimum(length, length[:, :, via, None] + length[:, via, None, :], out=length)
            inside &= (length[:, own, own] >= -margin[:, None]).all(axis=1)
        return inside

    def elements(self, extended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return places and signs of the elements that take points to the cell."""
        kept, signed = self.scores(extended)
        size, count = kept.shape[:2]
        places = np.tile(np.arange(count), (size, 1))
        if self.symmetry.permuted:
            for row, table in enumerate(kept + np.abs(signed)):
                block, place = scipy.optimize.linear_sum_assignment(table, maximize=True)
                places[row, place] = block
        chosen = np.take_along_axis(signed, places[:, None], axis=1)[:, 0]
        return places, np.where(chosen < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Cell:
    """The part of the space that stands for all of it.

    Parameters
    ----------
    extension
        What coordinates the symmetries act on.
    anchors
        One for each symmetry.
    """

    extension: Extension
    anchors: tuple[Anchor, ...]

    @property
    def images(self) -> int:
        """How many images of the cell cover the space."""
        return math.prod(anchor.images for anchor in self.anchors)

    @property
    def log_images(self) -> float:
        """The logarithm of that."""
        return math.log(self.images)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Whether each point is in the cell."""
        extended = self.extension.extend(points)
        inside = np.ones(len(points), dtype=bool)
        for anchor in self.anchors:
            inside &= anchor.contains(extended)
        return inside

    def fold(self, points: np.ndarray) -> np.ndarray:
        """Return the images of points that are in the cell."""
        result = points.copy()
        outside = np.isfinite(points).all(axis=1)
        outside[outside] = ~self.contains(points[outside])
        extended = self.extension.extend(points[outside])
        for anchor in self.anchors:
            extended = self._apply(anchor, extended, *anchor.elements(extended))
        result[outside] = self.extension.restrict(extended)
        return result

    def scatter(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return a random image of each point: draws in the cell become draws of all space."""
        extended = self.extension.extend(points)
        for anchor in self.anchors:
            drawn = anchor.symmetry.draw(rng, len(points))
            extended = self._apply(anchor, extended, *drawn)
        return self.extension.restrict(extended)

    def images_reached(self, points: np.ndarray, smallest: float) -> list[tuple[np.ndarray, float]]:
        """Return the elements that take points outside to the cell, and the share of points.

        Elements are matrices, which act on columns; the most frequent come first, and those of a
        smaller share than ``smallest`` are left out.
        """
        points = points[np.isfinite(points).all(axis=1)]
        extended = self.extension.extend(points[~self.contains(points)])
        every = [anchor.elements(extended) for anchor in self.anchors]
        keys = np.concatenate([part for pair in every for part in pair], axis=1)
        _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
        found = []
        for number in np.argsort(-counts, kind="stable"):
            share = counts[number] / len(points)
            if share < smallest:
                break
            image = self.extension.extend(np.eye(self.extension.dimension))
            for anchor, (places, signs) in zip(self.anchors, every, strict=True):
                image = self._apply(anchor, image, places[first[number]], signs[first[number]])
            found.append((self.extension.restrict(image).T, float(share)))
        return found

    def _apply(
        self, anchor: Anchor, extended: np.ndarray, places: np.ndarray, signs: np.ndarray
    ) -> np.ndarray:
        """Return images of points; what other coordinates close is computed anew."""
        image = anchor.symmetry.apply(extended, places, signs)
        return self.extension.extend(self.extension.restrict(image))

    def describe(self) -> str:
        """Return the symmetries, for the plan."""
        parts = []
        for anchor in self.anchors:
            symmetry = anchor.symmetry
            kind = "labels" if symmetry.permuted else "signs"
            if symmetry.permuted and symmetry.flipped:
                kind = "labels and signs"
            count = f"{len(symmetry.blocks)} blocks" if len(symmetry.blocks) > 1 else "a block"
            parts.append(f"{kind} of {count} of {symmetry.name}: {anchor.images} images")
        return "; ".join(parts)
