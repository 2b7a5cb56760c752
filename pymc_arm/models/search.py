"""Where the nodes of a one-dimensional density go, for all particles at once.

A few common nodes, at quantiles of the prior draws, show how the density of each particle runs.
Then nodes are added, a few at a time and only for the particles that need them: around the peak
that the pieces between nodes predict, in the pieces that are most in doubt, where the support ends,
and outward, until the density is far below its peak on both sides or the support ends there.
"""

from collections.abc import Callable

import numpy as np

from pymc_arm.algorithm.path import join, select
from pymc_arm.models.assessment import Line, Pieces, assess
from pymc_arm.models.new_nodes import propose
from pymc_arm.models.pieces import LOG_ZERO

__all__ = ["Conditional", "find_pieces"]

# log g at (rows, values): the values of the new coordinate, and the numbers of the rows.
Conditional = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Rounds for those that need them: a spike 1e-7 times as wide as the pieces around it takes 10.
ROUNDS = 24


def find_pieces(conditional: Conditional, line: Line, start: np.ndarray, size: int) -> Pieces:
    """Return the density of each of ``size`` rows, from common nodes ``start`` on."""
    rows = np.arange(size)
    nodes = np.tile(np.unique(np.clip(start, line.low, line.high)), (size, 1))
    values = _evaluate(conditional, line, nodes, rows)
    finished: list[tuple[np.ndarray, Pieces]] = []
    for number in range(ROUNDS):
        assessed = assess(nodes, values, line)
        more = assessed.unfinished
        if number == ROUNDS - 1 or not more.any():
            finished.append((rows, assessed.pieces))
            break
        if not more.all():
            finished.append((rows[~more], select(assessed.pieces, ~more)))
            rows, assessed = rows[more], select(assessed, more)
        nodes, values = assessed.pieces.nodes, assessed.pieces.values
        for some, places in propose(assessed, line):
            places = np.clip(np.rint(places) if line.whole else places, line.low, line.high)
            found = _evaluate(conditional, line, places, rows[some])
            nodes, values = _insert(nodes, values, some, places, found)
    return _assemble(finished, size)


def _assemble(finished: list[tuple[np.ndarray, Pieces]], size: int) -> Pieces:
    """Return the rows in their order, all of the same length."""
    longest = max(pieces.nodes.shape[1] for _, pieces in finished)
    wide = [pieces.widen(longest - pieces.nodes.shape[1]) for _, pieces in finished]
    if len(wide) == 1:
        return wide[0]
    place = np.empty(size, dtype=int)
    place[np.concatenate([rows for rows, _ in finished])] = np.arange(size)
    return select(join(wide), place)


def _evaluate(
    conditional: Conditional, line: Line, nodes: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    values = conditional(line.center + line.scale * nodes, rows)
    return np.where(np.isfinite(values), values, LOG_ZERO)


def _insert(
    nodes: np.ndarray, values: np.ndarray, rows: np.ndarray, places: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add nodes to some rows, in order; what is there already goes to the end as an empty piece."""
    count = places.shape[1]
    nodes = np.concatenate([nodes, np.repeat(nodes[:, -1:], count, axis=1)], axis=1)
    values = np.concatenate([values, np.repeat(values[:, -1:], count, axis=1)], axis=1)
    nodes[rows, -count:], values[rows, -count:] = places, found
    order = np.argsort(nodes[rows], axis=1, kind="stable")
    own = np.take_along_axis(nodes[rows], order, axis=1)
    # Nodes that rounding can't tell apart would give slopes that are noise.
    double = np.zeros_like(own, dtype=bool)
    double[:, 1:] = np.diff(own, axis=1) <= 1e-12 * np.abs(own[:, 1:])
    order = np.take_along_axis(order, np.argsort(double, axis=1, kind="stable"), axis=1)
    kept = np.minimum(np.arange(own.shape[1]), (~double).sum(axis=1)[:, None] - 1)
    order = np.take_along_axis(order, kept, axis=1)
    nodes[rows] = np.take_along_axis(nodes[rows], order, axis=1)
    values[rows] = np.take_along_axis(values[rows], order, axis=1)
    longest = 2 + int(np.flatnonzero((np.diff(nodes, axis=1) > 0).any(axis=0))[-1])
    return nodes[:, :longest], values[:, :longest]
