"""The factor graph of discrete variables, and the order in which they are summed.

Variables are neighbours if a term depends on both. Summing one of them joins all its neighbours in
one table, so the order decides how large tables get. The best order is hard to find; min-fill
(always the variable whose neighbours lack the fewest edges) is exact on trees and chains and close
to the best elsewhere. The order in which variables were declared is as good on grids, so both are
tried. A long chain can be summed from all sides at once: tables are larger, but there are fewer
steps, each of many variables.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Neighbours", "color_graph", "connect", "find_components", "find_order"]

#: The neighbours of each variable.
Neighbours = dict[int, set[int]]

# What a step costs besides its cells, counted in cells: about 60 microseconds of NumPy calls, at 10
# nanoseconds a cell for 200 points. It decides how far chains are summed from all sides.
STEP_COST = 30


def connect(scopes: Iterable[Sequence[int]]) -> Neighbours:
    """Return the graph in which variables of the same scope are neighbours."""
    neighbours: Neighbours = {}
    for scope in scopes:
        for variable in scope:
            neighbours.setdefault(variable, set()).update(scope)
    for variable, others in neighbours.items():
        others.discard(variable)
    return neighbours


def find_components(neighbours: Neighbours) -> list[list[int]]:
    """Return the variables of each connected part of a graph, in order."""
    components, seen = [], set()
    for first in sorted(neighbours):
        if first in seen:
            continue
        seen.add(first)
        found, waiting = [first], [first]
        while waiting:
            for other in neighbours[waiting.pop()] - seen:
                seen.add(other)
                found.append(other)
                waiting.append(other)
        components.append(sorted(found))
    return components


def color_graph(neighbours: Neighbours, kinds: Mapping[int, int]) -> dict[int, int]:
    """Return a color for each variable: neighbours differ, and so do variables of two kinds.

    Greedy, in order: two colors of a kind for a chain or a grid.
    """
    colors: dict[int, int] = {}
    known: dict[tuple[int, int], int] = {}
    for variable in sorted(neighbours):
        taken = {colors[other] for other in neighbours[variable] if other in colors}
        number = 0
        while known.setdefault((kinds[variable], number), len(known)) in taken:
            number += 1
        colors[variable] = known[kinds[variable], number]
    return colors


def find_order(
    neighbours: Neighbours, sizes: Mapping[int, int], largest: float
) -> list[int] | None:
    """Return the order in which variables are summed, or None if a table would be too large.

    Parameters
    ----------
    neighbours
        The graph.
    sizes
        The number of values of each variable.
    largest
        The number of cells of the largest table that is allowed.
    """
    orders = [
        _min_fill(neighbours, sizes, largest),
        _as_given(neighbours, sizes, largest),
        _from_all_sides(neighbours, sizes, largest),
    ]
    possible = [found for found in orders if found is not None]
    return min(possible, key=lambda found: found[1])[0] if possible else None


_Found = tuple[list[int], float]


def _table_size(neighbours: Neighbours, sizes: Mapping[int, int], variable: int) -> float:
    return math.prod(sizes[other] for other in neighbours[variable]) * float(sizes[variable])


def _remove(neighbours: Neighbours, variable: int) -> set[int]:
    """Sum a variable: its neighbours become neighbours of each other."""
    others = neighbours.pop(variable)
    for other in others:
        neighbours[other] |= others
        neighbours[other] -= {other, variable}
    return others


def _copy(neighbours: Neighbours) -> Neighbours:
    return {variable: set(others) for variable, others in neighbours.items()}


def _as_given(neighbours: Neighbours, sizes: Mapping[int, int], largest: float) -> _Found | None:
    """Sum variables in the order in which they were declared."""
    left, cost = _copy(neighbours), 0.0
    order = sorted(left)
    for variable in order:
        size = _table_size(left, sizes, variable)
        if size > largest:
            return None
        cost += size + STEP_COST
        _remove(left, variable)
    return order, cost


def _min_fill(neighbours: Neighbours, sizes: Mapping[int, int], largest: float) -> _Found | None:
    """Sum the variable whose neighbours lack the fewest edges; the smallest table among equals."""
    left, cost = _copy(neighbours), 0.0
    order: list[int] = []

    def rate(variable: int) -> tuple[int, float, int]:
        others = left[variable]
        lacking = sum(len(others - left[other]) - 1 for other in others)
        return lacking, _table_size(left, sizes, variable), variable

    rates = {variable: rate(variable) for variable in left}
    waiting = list(rates.values())
    heapq.heapify(waiting)
    while left:
        best = heapq.heappop(waiting)
        _, size, variable = best
        if variable not in left or rates[variable] != best:  # it has changed since
            continue
        if size > largest:
            return None
        cost += size + STEP_COST
        order.append(variable)
        others = _remove(left, variable)
        for other in others.union(*(left[other] for other in others)):
            rates[other] = rate(other)
            heapq.heappush(waiting, rates[other])
    return order, cost


def _from_all_sides(
    neighbours: Neighbours, sizes: Mapping[int, int], largest: float
) -> _Found | None:
    """Sum as many variables at once as are not neighbours, those of small tables only.

    Variables of the same step share its cost.
    """
    left, cost = _copy(neighbours), 0.0
    order: list[int] = []
    while left:
        rates = {variable: _table_size(left, sizes, variable) for variable in left}
        limit = min(rates.values()) * max(sizes[variable] for variable in left)
        blocked: set[int] = set()
        chosen = []
        for variable in sorted(left):
            if rates[variable] <= limit and variable not in blocked:
                chosen.append(variable)
                blocked |= left[variable]
        for variable in chosen:
            size = _table_size(left, sizes, variable)
            if size > largest:
                return None
            cost += size
            _remove(left, variable)
        cost += STEP_COST
        order += chosen
    return order, cost
