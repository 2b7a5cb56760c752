"""Orders of elimination, colors, and evaluations that cover all cells."""

import itertools

import numpy as np
import pytest

from pymc_arm.models.elimination.cover import cover_cells, cover_colors
from pymc_arm.models.elimination.graph import (
    color_graph,
    connect,
    find_components,
    find_order,
)


def grid(side):
    number = np.arange(side * side).reshape(side, side)
    return [
        *zip(number[:, 1:].ravel().tolist(), number[:, :-1].ravel().tolist(), strict=True),
        *zip(number[1:].ravel().tolist(), number[:-1].ravel().tolist(), strict=True),
    ]


def largest_table(scopes, order, sizes):
    """The cells of the largest table when variables are summed in this order."""
    scopes, largest = [set(scope) for scope in scopes], 0
    for variable in order:
        joint = set().union({variable}, *(scope for scope in scopes if variable in scope))
        largest = max(largest, int(np.prod([sizes[v] for v in joint])))
        scopes = [scope for scope in scopes if variable not in scope] + [joint - {variable}]
    return largest


CHAIN = [(k, k + 1) for k in range(19)]
TREE = [(k, (k - 1) // 2) for k in range(1, 31)]
LOOP = [*CHAIN, (19, 0)]


@pytest.mark.parametrize(
    ("scopes", "width"), [(CHAIN, 2), (TREE, 2), (LOOP, 3), (grid(4), 5), (grid(7), 8)]
)
def test_tables_are_as_small_as_the_graph_allows(scopes, width):
    neighbours = connect(scopes)
    sizes = dict.fromkeys(neighbours, 3)
    order = find_order(neighbours, sizes, 3.0**width)
    assert sorted(order) == sorted(neighbours)
    assert largest_table(scopes, order, sizes) <= 3**width


def test_a_table_that_would_be_too_large_is_refused():
    neighbours = connect([tuple(range(12))])
    sizes = dict.fromkeys(neighbours, 2)
    assert find_order(neighbours, sizes, 2.0**11) is None
    assert find_order(neighbours, sizes, 2.0**12) is not None


def test_long_chains_are_summed_from_all_sides_and_wide_ones_are_not():
    long = connect([(k, k + 1) for k in range(999)])
    order = find_order(long, dict.fromkeys(long, 2), 1e6)
    assert order[:3] == [0, 2, 4]
    assert find_order(long, dict.fromkeys(long, 20), 1e6)[:3] == [0, 1, 2]


def test_components_are_found():
    neighbours = connect([(0, 1), (1, 2), (3,), (5, 4)])
    assert find_components(neighbours) == [[0, 1, 2], [3], [4, 5]]


def test_neighbours_and_kinds_have_different_colors():
    neighbours = connect([*grid(5), (25, 0)])
    colors = color_graph(neighbours, {v: int(v == 25) for v in neighbours})
    assert all(colors[v] != colors[other] for v in neighbours for other in neighbours[v])
    assert len({colors[v] for v in range(25)}) == 2
    assert colors[25] not in {colors[v] for v in range(25)}


def test_rows_of_values_hold_all_combinations_of_each_set():
    sets = list(itertools.combinations(range(6), 3))
    counts = dict.fromkeys(range(6), 2)
    values, colors, rows = cover_colors(sets, counts)
    assert colors == list(range(6))
    assert len(values) < 30  # the best covering array has 12 rows; one for each would take 160
    cells = np.array(list(itertools.product(range(2), repeat=3)))
    for number, chosen in enumerate(sets):
        assert np.array_equal(values[rows[:, number]][:, list(chosen)], cells)


def test_tables_that_repeat_are_told_by_a_few_cells():
    """Each row is in one of three segments between two change points."""
    rows, first, second = np.meshgrid(range(9), range(10), range(10), indexing="ij")
    segment = (rows >= first).astype(int) + (rows >= second)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(9, 3, 2))  # of each row and segment, at two points
    tables = np.stack([means[k, segment[k].ravel()] for k in range(9)], axis=1)
    chosen, where = cover_cells(tables)
    assert len(chosen) == 3
    for k in range(9):
        assert np.array_equal(tables[chosen][where[:, k], k], tables[:, k])
