"""The steps of a sum over discrete variables, those of the same shape together.

A step takes all tables that depend on its variable, adds them up, and sums the variable out, which
leaves a table over the others. Steps that wait for no other, and whose tables have the same
shapes and come from the same places, are one batch: 500 labels are summed at once.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.models.elimination.graph import Neighbours, connect, find_components, find_order

__all__ = ["Batch", "Factors", "Schedule", "Source", "TooLarge", "make_schedule"]


class TooLarge(Exception):
    """A table would have more cells than allowed."""


@dataclass(frozen=True)
class Factors:
    """Tables of the same shape: the variables of each, in the order of the axes."""

    scopes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Source:
    """Columns of an array of tables, and which axes of a batch of some shape theirs are."""

    array: int
    columns: np.ndarray | slice
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @functools.cached_property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of a table, in the order of its own axes."""
        return tuple(self.shape[axis] for axis in self.axes)

    @functools.cached_property
    def to_batch(self) -> tuple[int, ...]:
        """Its axes in the order of the batch, with the columns and the points last."""
        order = np.argsort(self.axes).tolist()
        return (*order, len(order), len(order) + 1)

    @functools.cached_property
    def from_batch(self) -> tuple[int, ...]:
        """The order of the batch in its own axes, with the columns and the points last."""
        order = np.argsort(np.argsort(self.axes)).tolist()
        return (*order, len(order), len(order) + 1)

    @functools.cached_property
    def wide_shape(self) -> tuple[int, ...]:
        """The shape of a table with axes of length one where it does not depend on a variable."""
        return tuple(n if axis in self.axes else 1 for axis, n in enumerate(self.shape))

    @functools.cached_property
    def missing(self) -> tuple[int, ...]:
        """The axes that it lacks."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.axes)


@dataclass(frozen=True)
class Batch:
    """Variables that are summed at once.

    ``shape`` is that of the joint table of each: its own values first, then those of its
    ``outside`` variables, (variables, outside).
    """

    shape: tuple[int, ...]
    variables: np.ndarray
    outside: np.ndarray
    sources: tuple[Source, ...]

    @property
    def cells(self) -> int:
        """The cells of all joint tables."""
        return math.prod(self.shape) * len(self.variables)


@dataclass(frozen=True)
class Schedule:
    """All batches in order; the table that batch k leaves is array ``inputs + k``.

    ``roots`` are the array and the column in which the sum of each component is found.
    """

    inputs: int
    batches: tuple[Batch, ...]
    components: tuple[tuple[int, ...], ...]
    roots: tuple[tuple[int, int], ...]

    @property
    def largest(self) -> int:
        """The cells of the largest batch."""
        return max((batch.cells for batch in self.batches), default=0)

    @property
    def largest_table(self) -> int:
        """The cells of the largest table of one variable."""
        return max((math.prod(batch.shape) for batch in self.batches), default=0)

    @property
    def cells(self) -> int:
        """The cells of all batches."""
        return sum(batch.cells for batch in self.batches)


@dataclass
class _Table:
    """A factor or a message on its way: its scope, and where it is once it is known."""

    scope: tuple[int, ...]
    level: int
    array: int = -1
    column: int = -1


# A variable, those outside, the tables that are taken, and the one that is left.
_Step = tuple[int, tuple[int, ...], list[_Table], _Table]
# The shape of a joint table, and the array and the axes of each table in it.
_Kind = tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]


def make_schedule(factors: Sequence[Factors], sizes: Mapping[int, int], largest: float) -> Schedule:
    """Return how the variables of all factors are summed.

    Parameters
    ----------
    factors
        The scopes of the columns of each array of tables.
    sizes
        The number of values of each variable.
    largest
        The number of cells of the largest table that is allowed.

    Raises
    ------
    TooLarge
        If no order is found whose tables are all small enough.
    """
    tables = [
        _Table(scope, 0, array, column)
        for array, own in enumerate(factors)
        for column, scope in enumerate(own.scopes)
    ]
    neighbours = connect(table.scope for table in tables)
    components = find_components(neighbours)
    steps: list[_Step] = []
    roots = []
    of_variable: dict[int, list[_Table]] = {variable: [] for variable in neighbours}
    for table in tables:
        for variable in table.scope:
            of_variable[variable].append(table)
    used: set[int] = set()
    for component in components:
        part: Neighbours = {variable: neighbours[variable] for variable in component}
        order = find_order(part, sizes, largest)
        if order is None:
            raise TooLarge
        for variable in order:
            taken = [table for table in of_variable[variable] if id(table) not in used]
            used.update(id(table) for table in taken)
            outside = tuple(sorted({v for table in taken for v in table.scope} - {variable}))
            message = _Table(outside, 1 + max(table.level for table in taken))
            for other in outside:
                of_variable[other].append(message)
            steps.append((variable, outside, taken, message))
        roots.append(message)
    batches = _join(steps, sizes, len(factors))
    ends = tuple((root.array, root.column) for root in roots)
    return Schedule(len(factors), tuple(batches), tuple(map(tuple, components)), ends)


def _join(
    steps: Sequence[_Step],
    sizes: Mapping[int, int],
    inputs: int,
) -> list[Batch]:
    """Join steps of the same level and shape, and note where their tables will be."""
    batches: list[Batch] = []
    levels: dict[int, list[_Step]] = {}
    for step in steps:
        levels.setdefault(step[3].level, []).append(step)
    for level in sorted(levels):
        alike: dict[_Kind, list[_Step]] = {}
        for step in levels[level]:
            variable, outside, taken, _ = step
            axes = {other: place for place, other in enumerate((variable, *outside))}
            taken.sort(key=lambda table: (table.array, [axes[v] for v in table.scope]))
            kind = (
                tuple(sizes[v] for v in axes),
                tuple((t.array, tuple(axes[v] for v in t.scope)) for t in taken),
            )
            alike.setdefault(kind, []).append(step)
        for (shape, places), members in alike.items():
            sources = tuple(
                Source(array, _select([step[2][number].column for step in members]), axes, shape)
                for number, (array, axes) in enumerate(places)
            )
            for column, (*_, message) in enumerate(members):
                message.array, message.column = inputs + len(batches), column
            outsides = np.array([outside for _, outside, _, _ in members], dtype=int)
            variables = np.array([variable for variable, *_ in members])
            batches.append(Batch(shape, variables, outsides.reshape(len(members), -1), sources))
    return batches


def _select(columns: list[int]) -> np.ndarray | slice:
    """Return columns as a slice, which takes no copy, if they are next to each other."""
    first, last = columns[0], columns[-1]
    if columns == list(range(first, last + 1)):
        return slice(first, last + 1)
    return np.array(columns)
