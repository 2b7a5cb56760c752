"""Which values of the discrete variables are evaluated, so that every cell of every table is known.

Two things spare evaluations. Terms that depend on different variables can share them: eight rows of
values may hold all combinations of any three out of many binary variables (a covering array). And
a table may repeat itself: a count depends on two change points only by the segment that it is
in, so that three evaluations tell all cells of all counts.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["cover_cells", "cover_colors"]


def cover_colors(
    sets: Sequence[tuple[int, ...]], counts: Mapping[int, int]
) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Return rows of values of all colors in which each set of colors has all its combinations.

    Greedy: a row starts with a combination that is lacking, and each further color takes the value
    with which most sets get another one that is.

    Parameters
    ----------
    sets
        The colors that the tables of some terms depend on, in the order of their axes.
    counts
        The number of values of each color.

    Returns
    -------
    values
        The place of the value of each color in each row, (rows, colors).
    colors
        The color of each column.
    rows
        In which row each cell of each set is found first, (cells, sets).
    """
    colors = sorted({color for chosen in sets for color in chosen})
    column = {color: place for place, color in enumerate(colors)}
    lacking = {
        number: set(itertools.product(*(range(counts[color]) for color in chosen)))
        for number, chosen in enumerate(sets)
    }
    places = [[column[color] for color in chosen] for chosen in sets]
    shape = tuple(counts[color] for color in sets[0])
    rows = np.zeros((int(np.prod(shape)), len(sets)), dtype=int)
    values: list[np.ndarray] = []

    def gained(row: np.ndarray, place: int) -> int:
        return sum(
            tuple(row[places[number]]) in left
            for number, left in lacking.items()
            if place in places[number] and (row[places[number]] >= 0).all()
        )

    while lacking:
        first = max(lacking, key=lambda number: len(lacking[number]))
        row = np.full(len(colors), -1)
        row[places[first]] = min(lacking[first])
        for place in range(len(colors)):
            if row[place] >= 0:
                continue
            gains = []
            for value in range(counts[colors[place]]):
                row[place] = value
                gains.append(gained(row, place))
            # Among equals another one each time, so that what is not decided yet varies.
            start = len(values) % len(gains)
            row[place] = (int(np.argmax(gains[start:] + gains[:start])) + start) % len(gains)
        for number in list(lacking):
            cell = tuple(row[places[number]].tolist())
            if cell in lacking[number]:
                lacking[number].remove(cell)
                rows[int(np.ravel_multi_index(cell, shape)), number] = len(values)
                if not lacking[number]:
                    del lacking[number]
        values.append(row)
    return np.array(values), colors, rows


def cover_cells(tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return cells that tell all cells of tables which repeat themselves.

    Parameters
    ----------
    tables
        The tables of some terms at a few points, (cells, terms, points).

    Returns
    -------
    chosen
        Cells in which each term has all values that it has anywhere.
    rows
        Which of them each cell of each term is equal to, (cells, terms).
    """
    cells, terms = tables.shape[:2]
    kinds = np.empty((cells, terms), dtype=int)
    for term in range(terms):
        found = np.unique(tables[:, term], axis=0, return_inverse=True)[1]
        kinds[:, term] = found.ravel()
    numbers = kinds + np.concatenate([[0], np.cumsum(kinds.max(axis=0) + 1)[:-1]])
    lacking = np.ones(int(numbers.max()) + 1, dtype=bool)
    where = np.zeros(len(lacking), dtype=int)
    chosen: list[int] = []
    while lacking.any():
        gains = lacking[numbers].sum(axis=1)
        best = int(gains.argmax())
        new = numbers[best][lacking[numbers[best]]]
        where[new], lacking[new] = len(chosen), False
        chosen.append(best)
    return np.array(chosen), where[numbers]
