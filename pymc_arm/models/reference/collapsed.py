"""The density of the coordinates that are left where others are integrated out.

What is integrated are groups: single coordinates (:mod:`groups`, :mod:`closed_forms`) or vectors
(:mod:`simplexes`) that are independent given the rest. Subclasses know their integrals, and the
derivatives of these by the log-density at a few values of each group. The gradient in the rest then
is the sum of the gradients at these values, with the derivatives as weights.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.density import LogDensity
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.models.reference.twins import GroupTerms

__all__ = ["CollapsedTarget", "Focus", "Integrals"]

# Elements of a table that are held at once.
LARGEST_TABLE = 2_000_000


@dataclass(frozen=True)
class Focus:
    """Where conditionals are, and log of how wide, about: linear functions of the parameters."""

    center: np.ndarray
    means: np.ndarray
    log_widths: np.ndarray
    spacing: float

    def __call__(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return places and widths, (size, groups)."""
        design = np.column_stack([np.ones(len(parameters)), parameters - self.center])
        return design @ self.means, np.exp(np.clip(design @ self.log_widths, -600, 600))


class Integrals(Protocol):
    """Of each row: the log of the integral over all groups, and what its gradient takes."""

    @property
    def log_mass(self) -> np.ndarray:
        """The log of the integral, (size,)."""

    def shares(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values of the groups in some rows, and their weights, (rows, nodes, groups).

        The gradient is the sum of those of the terms at the values, with these weights.
        """


class CollapsedTarget(SharedTarget):
    """The density of the parameters, with groups integrated out.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    collapsed
        The coordinates that are integrated.
    groups
        The terms of the groups that they belong to.
    columns
        The coordinates of these groups.
    """

    #: Where the groups are, if that is known.
    focus: Focus | None = None
    #: Whether their integrals are known in closed form.
    conjugate = False

    def __init__(
        self, path: GenericPath, collapsed: np.ndarray, groups: GroupTerms, columns: np.ndarray
    ) -> None:
        super().__init__(path, np.setdiff1d(np.arange(path.plan.layout.dimension), collapsed))
        self.collapsed, self._groups, self._columns = collapsed, groups, columns
        everyone = path.plan.scopes[:, collapsed].any(axis=1)
        self._others = np.where(everyone, 0.0, 1.0)
        if not isinstance(groups.density, LogDensity):
            raise PathError("Groups of a density with sums are not integrated.")
        self._gradient = groups.density.gradient.by_row()
        both = groups.density is path.density or path.density.gradient.available()
        if not both or not self._gradient.available():
            raise PathError("The model has no gradient with weights for each point.")

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f of the parameters, and its gradient; points have all coordinates."""
        values, gradients = np.full(len(points), -np.inf), np.zeros_like(points)
        for part in self._parts(points):
            found = self._integrals(points[part])
            values[part] = self._total(points[part], found)
            usable = np.flatnonzero(np.isfinite(values[part]))
            if len(usable):
                gradients[part][usable] = self._slope(points[part][usable], found, usable)
        gradients[:, self.collapsed] = 0.0
        wrong = ~gradients.any(axis=1) | ~np.isfinite(gradients).all(axis=1) | ~(values < np.inf)
        values[wrong], gradients[wrong] = -np.inf, 0.0
        return values, gradients

    def _slope(self, points: np.ndarray, found: Integrals, rows: np.ndarray) -> np.ndarray:
        """Return the gradient: that of the joint density at nodes, each with its share."""
        values, shares = found.shares(rows)
        groups, nodes = self._groups, points.copy()
        others, middle = self._others, values.shape[1] // 2
        total = np.zeros_like(points)
        if groups.density is not self.path.density:
            total = self.path.density.gradient(points, others)[1]
            others = np.zeros(groups.density.count)
        for number in range(values.shape[1]):
            # Terms without a group count once.
            weights = np.tile(others * (number == middle), (len(points), 1))
            weights[:, groups.terms] = (shares[:, number] * groups.times)[:, groups.owner]
            nodes[:, self._columns] = values[:, number]
            total += self._gradient(nodes, weights)[1]
        return total

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f of the parameters."""
        parts = self._parts(points)
        return np.concatenate([self._total(points[p], self._integrals(points[p])) for p in parts])

    def _integrals(self, points: np.ndarray) -> Integrals:
        """Return the integrals over the groups given each point."""
        raise NotImplementedError

    @property
    def _node_count(self) -> int:
        """How many values of each group are looked at together."""
        raise NotImplementedError

    def _total(self, points: np.ndarray, found: Integrals) -> np.ndarray:
        """Return log f: the integrals, and the terms that have none."""
        values = self.path.density.sum(points, self._others) + found.log_mass
        values[np.isnan(values)] = -np.inf
        return values + self.path.log_normalizer

    def _parts(self, points: np.ndarray, times: int = 1) -> list[slice]:
        size = self._node_count * max(len(self._groups.terms), times * len(self.collapsed))
        step = max(1, LARGEST_TABLE // size)
        return [slice(first, first + step) for first in range(0, len(points), step)]
