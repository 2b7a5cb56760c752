"""Sets of coordinates that share no term, and the terms of each."""

import numpy as np

__all__ = ["add_by_owner", "color_coordinates"]


def color_coordinates(
    coordinates: np.ndarray, scopes: np.ndarray, group: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Divide coordinates into sets that share no term.

    Returns for each set the coordinates, the terms that depend on them, and for each term the
    place of its coordinate in the set. Only coordinates of the same ``group`` go together.
    """
    sets: list[tuple[list[int], np.ndarray, int]] = []
    for coordinate in coordinates:
        mine = scopes[:, coordinate]
        for members, taken, kind in sets:
            if kind == group[coordinate] and not (taken & mine).any():
                members.append(int(coordinate))
                taken |= mine
                break
        else:
            sets.append(([int(coordinate)], mine.copy(), int(group[coordinate])))
    result = []
    for members, taken, _ in sets:
        terms = np.flatnonzero(taken)
        owner = scopes[np.ix_(terms, np.array(members))].argmax(axis=1)
        result.append((np.array(members), terms, owner))
    return result


def add_by_owner(terms: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """Add up the terms of each coordinate."""
    if len(owner) == count and np.array_equal(owner, np.arange(count)):
        return terms
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count))
    return np.add.reduceat(terms[:, order], starts, axis=1)
