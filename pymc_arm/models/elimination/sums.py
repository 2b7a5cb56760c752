"""The sums over the discrete variables of a model, as functions of the variables that are left.

Of the terms that depend on discrete variables, those of priors are summed once alone and once
together with the data: log P(c) and log F(c) of each component. A path from the prior needs both,
since the first is what prior draws of c have, and log F - log P is the likelihood of c.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.schedule import Factors, Schedule, make_schedule
from pymc_arm.models.elimination.sum_product import differentiate, draw, sum_out
from pymc_arm.models.elimination.tables import (
    Group,
    WeightedGradient,
    as_rows,
    evaluate_group,
    make_groups,
    spread,
)
from pymc_arm.models.support import Support

__all__ = ["Sums", "System"]

# Elements of the largest joint table that is held for all points of a chunk: larger ones leave the
# cache (twice as many took 1.3 times as long a point), smaller ones are all overhead.
CHUNK = 131_072
# Elements of all tables that a derivative or a draw keeps: 64 MB.
KEPT = 8_000_000


# What stands for -inf in a product of matrices, where zero times it must be zero.
LOG_ZERO = -1e290


@dataclass(frozen=True)
class _Part:
    """Which terms of a group a system has, and which table of its own each is added to."""

    number: int
    group: Group
    chosen: np.ndarray
    owner: np.ndarray
    count: int

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """Which evaluations add up to each cell, (cells, evaluations x terms)."""
        rows, terms = self.group.rows[:, self.chosen], len(self.chosen)
        matrix = np.zeros((self.group.cells, len(self.group.values), terms))
        matrix[np.arange(self.group.cells)[:, None], rows, np.arange(terms)] = 1.0
        return matrix.reshape(self.group.cells, -1)

    def tables(self, found: np.ndarray) -> np.ndarray:
        """Return tables, (cells, count, points), from evaluations, (evaluations, terms, points)."""
        whole = len(self.chosen) == found.shape[1]
        own = found if whole else found[:, self.chosen]
        if self.group.repeated:
            own = np.maximum(own.reshape(-1, own.shape[2]), LOG_ZERO)
            cells = self.matrix @ own
            cells[cells < 0.5 * LOG_ZERO] = -np.inf
            return cells[:, None]
        if not self.group.in_order:
            own = own[self.group.rows[:, self.chosen], np.arange(len(self.chosen))]
        return _add_up(own, self.owner, self.count)

    def add_derivatives(self, of_tables: np.ndarray, of_evaluations: np.ndarray) -> None:
        """Add derivatives with respect to tables to those with respect to evaluations."""
        if self.group.repeated:
            found = self.matrix.T @ of_tables[:, 0]
            of_evaluations[:, self.chosen] += found.reshape(
                len(self.group.values), len(self.chosen), -1
            )
        elif self.group.in_order:
            of_evaluations[:, self.chosen] += of_tables[:, self.owner]
        else:  # no two cells of a term are the same evaluation
            rows = self.group.rows[:, self.chosen]
            of_evaluations[rows, self.chosen] += of_tables[:, self.owner]


class System:
    """A set of terms, and how their discrete variables are summed.

    Parameters
    ----------
    groups
        Groups of terms.
    chosen
        Which terms of each group belong to the system.
    sizes
        The number of values of each discrete coordinate.
    largest
        The number of cells of the largest table that is allowed.
    """

    def __init__(
        self,
        groups: list[Group],
        chosen: list[np.ndarray],
        sizes: Mapping[int, int],
        largest: float,
    ) -> None:
        parts, factors = [], []
        for number, (group, mine) in enumerate(zip(groups, chosen, strict=True)):
            if not len(mine):
                continue
            columns: dict[tuple[int, ...], int] = {}
            owner = [columns.setdefault(group.scopes[term], len(columns)) for term in mine]
            parts.append(_Part(number, group, mine, np.array(owner), len(columns)))
            factors.append(Factors(tuple(columns)))
        self._parts = parts
        self.schedule: Schedule = make_schedule(factors, sizes, largest)

    def tables(self, of_groups: list[np.ndarray]) -> list[np.ndarray]:
        """Return the tables of the system from the evaluations of all groups."""
        return [part.tables(of_groups[part.number]) for part in self._parts]

    def add_derivatives(self, of_tables: list[np.ndarray], of_groups: list[np.ndarray]) -> None:
        """Add derivatives with respect to the system's tables to those of all groups."""
        for part, own in zip(self._parts, of_tables, strict=True):
            if own.size:
                part.add_derivatives(own, of_groups[part.number])


class Sums:
    """Log F and log P of each component of discrete variables, with gradients and draws.

    Parameters
    ----------
    density
        All terms of the model.
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    terms
        The terms that depend on coordinates that are summed.
    is_prior
        Which of all terms are of priors.
    supports
        Those of the coordinates that are summed.
    with_prior
        Whether log P is asked for.
    largest
        The number of cells of the largest table that is allowed.
    """

    def __init__(
        self,
        density: LogDensity,
        scopes: np.ndarray,
        terms: np.ndarray,
        is_prior: np.ndarray,
        supports: Mapping[int, Support],
        with_prior: bool,
        largest: float,
    ) -> None:
        self.density, self.supports = density, supports
        self.sizes = {coordinate: support.count for coordinate, support in supports.items()}
        self.groups = make_groups(density, scopes, terms, supports)
        everything = [np.arange(len(group.terms)) for group in self.groups]
        self.full = System(self.groups, everything, self.sizes, largest)
        self.prior: System | None = None
        if with_prior:
            of_priors = [np.flatnonzero(is_prior[group.terms]) for group in self.groups]
            self.prior = System(self.groups, of_priors, self.sizes, largest)
        self._gradients: list[WeightedGradient | None] | None = None
        self._constant: dict[int, np.ndarray] = {}

    @property
    def work(self) -> int:
        """How many cells are evaluated or summed for a point."""
        evaluated = sum(group.work for group in self.groups)
        systems = [self.full, *([] if self.prior is None else [self.prior])]
        return evaluated + sum(system.schedule.cells for system in systems)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log F, (points, components), and log P, (points, components of the prior)."""
        parts = []
        for chunk in self._chunks(points, keep=False):
            tables = self._tables(chunk)
            logs = [np.zeros((0, len(chunk)))] * 2
            for number, system in enumerate((self.full, self.prior)):
                if system is not None:
                    found, _ = sum_out(system.schedule, system.tables(tables))
                    logs[number] = np.broadcast_to(found, (len(found), len(chunk)))
            parts.append((logs[0].T, logs[1].T))
        full, priors = zip(*parts, strict=True)
        return np.concatenate(full), np.concatenate(priors)

    def differentiate(
        self, points: np.ndarray, full: np.ndarray, prior: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log F, log P, and the gradient of their weighted sum, (points, dimension).

        Parameters
        ----------
        points
            (points, dimension)
        full, prior
            The weight of each component.
        """
        functions, parts = self._functions(), []
        for chunk in self._chunks(points, keep=True):
            tables = self._tables(chunk)
            weights = [np.zeros(table.shape) for table in tables]
            logs = [np.zeros((0, len(chunk)))] * 2
            for number, (system, own) in enumerate(((self.full, full), (self.prior, prior))):
                if system is None:
                    continue
                mine = system.tables(tables)
                found, shares = sum_out(system.schedule, mine, keep=True)
                logs[number] = np.broadcast_to(found, (len(found), len(chunk)))
                if own.any():
                    wide = np.broadcast_to(own[:, None], logs[number].shape)
                    adjoints = differentiate(system.schedule, mine, shares, wide)
                    system.add_derivatives(adjoints, weights)
            gradient = np.zeros(chunk.shape)
            for group, own, function in zip(self.groups, weights, functions, strict=True):
                if function is None:
                    continue
                found = function(spread(chunk, group), as_rows(own))
                gradient += found.reshape(len(chunk), len(group.values), -1).sum(axis=1)
            parts.append((logs[0].T, logs[1].T, gradient))
        first, second, third = zip(*parts, strict=True)
        return np.concatenate(first), np.concatenate(second), np.concatenate(third)

    def gradient_is_quick(self) -> bool:
        """Whether gradients are array operations only."""
        return all(function is None or function.vectorized for function in self._functions())

    def _functions(self) -> list[WeightedGradient | None]:
        if self._gradients is None:
            self._gradients = [
                None if group.constant else WeightedGradient(self.density, group.terms)
                for group in self.groups
            ]
        return self._gradients

    def draw(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return points with discrete coordinates drawn given the others."""
        parts = []
        # Tables that are the same for all points are added up once, however many these are.
        alike = all(group.constant for group in self.groups)
        for chunk in [points] if alike else self._chunks(points, keep=True):
            tables = self.full.tables(self._tables(chunk))
            _, shares = sum_out(self.full.schedule, tables, keep=True)
            places = draw(rng, self.full.schedule, shares, self.sizes, len(chunk))
            new = chunk.copy()
            for coordinate, place in places.items():
                new[:, coordinate] = self.supports[coordinate].low + place
            parts.append(new)
        return np.concatenate(parts)

    def at_values(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the sum of the cells of all tables at points that belong to other values.

        Parameters
        ----------
        points
            Where the tables are evaluated, (points, dimension).
        values
            The same points with other values of the discrete coordinates.
        """
        total, every = np.zeros(len(points)), np.arange(len(points))
        for group in self.groups:
            table = evaluate_group(self.density, group, points)
            for column, scope in enumerate(group.scopes):
                cell = np.zeros(len(points), dtype=int)
                for coordinate, size in zip(scope, group.shape, strict=True):
                    place = values[:, coordinate].astype(int) - self.supports[coordinate].low
                    cell = cell * size + place
                row = group.rows[cell, column]
                total += table[row, column, 0 if group.constant else every]
        return total

    def _tables(self, points: np.ndarray) -> list[np.ndarray]:
        found = []
        for number, group in enumerate(self.groups):
            table = self._constant.get(number)
            if table is None:
                table = evaluate_group(self.density, group, points)
                if group.constant:
                    self._constant[number] = table
            found.append(table)
        return found

    def _chunks(self, points: np.ndarray, *, keep: bool) -> list[np.ndarray]:
        systems = [self.full, *([] if self.prior is None else [self.prior])]
        largest = max(system.schedule.largest for system in systems)
        largest = max(largest, *(len(group.values) * len(group.terms) for group in self.groups))
        size = max(1, CHUNK // largest)
        if keep:
            size = max(1, min(size, KEPT // self.work))
        return [points[first : first + size] for first in range(0, max(len(points), 1), size)]


def _add_up(table: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """Return tables (cells, count, points) from those of terms, (cells, terms, points)."""
    if len(owner) == count:  # in the order in which they came first: nothing to add
        return table
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count))
    return np.add.reduceat(table[:, order], starts, axis=1)
