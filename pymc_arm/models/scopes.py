"""Which coordinates each term depends on, found by trying.

One coordinate at a time is replaced by its value in another prior draw (an epsilon would not show
discrete or piecewise terms), and the terms that change depend on it. A discrete coordinate that is
the same in all prior draws, as the state of an animal when it is marked, is given values of the
other elements of its variable: sums go over these too. A dependence that is missed
costs efficiency and nothing else: :class:`pymc_arm.models.path.GenericPath` corrects every new
value with all active terms, and :mod:`pymc_arm.models.moves` takes a move back if the density
changed by more than the terms in scope say.
"""

import numpy as np

from pymc_arm.models.density import LogDensity
from pymc_arm.models.terms import Layout

__all__ = ["find_scopes"]

# Trials a coordinate: one could hide behind a flat piece, a term that is -inf, or a switch that
# is rarely on. Small models can afford many.
FEWEST_TRIALS, MOST_TRIALS = 3, 100
POINTS = 5_000
# Terms that are evaluated altogether, so that many rows have fewer trials: 100 of a regression with
# 100,000 rows and 21 coefficients took 12 CPU seconds, the 22 that are left take 3.
EVALUATIONS = 50_000_000
# Products of matrices round differently in batches of different sizes: with != every row of
# dot(x, b) + a[group] seemed to depend on every group. Twice or half as much changes nothing.
ROUNDING = 1e-10
# Elements of the table of trials held at once.
LARGEST_TABLE = 4_000_000


def find_scopes(density: LogDensity, layout: Layout, draws: np.ndarray) -> np.ndarray:
    """Return a boolean table (terms, coordinates) of which depends on which.

    Parameters
    ----------
    density
        The compiled terms.
    layout
        The coordinates.
    draws
        Prior draws, (size, dimension), at least two.
    """
    dimension = draws.shape[1]
    changed = np.zeros((dimension, density.count), dtype=bool)
    chunk = max(1, LARGEST_TABLE // max(density.count, dimension, 1))
    # Draws at which the density is zero say little, so the others are tried first, as far as it
    # does not take long to tell them apart.
    known = draws[: max(chunk, MOST_TRIALS)]
    finite = np.isfinite(density.sum(known, np.ones(density.count)))
    order = np.argsort(~finite, kind="stable")
    each = (1 + dimension) * max(density.count, 1)
    afforded = min(POINTS // max(dimension, 1), EVALUATIONS // each)
    trials = int(np.clip(afforded, FEWEST_TRIALS, MOST_TRIALS))
    values = _values_to_try(density, layout, draws)
    # A call may cost the same for one point as for a thousand: that of a loop over steps does.
    together = max(1, chunk // (1 + dimension))
    for begin in range(0, trials, together):
        some = np.arange(begin, min(begin + together, trials))
        bases = draws[order[some % len(order)]]
        for first in range(0, dimension, chunk):
            coordinates = np.arange(first, min(first + chunk, dimension))
            points = np.repeat(bases[:, None], 1 + len(coordinates), axis=1)
            for row, coordinate in enumerate(coordinates, start=1):
                column = values.get(int(coordinate), draws[:, coordinate])
                points[:, row, coordinate] = _others(column, bases, coordinate, some)
            terms = density.terms(points.reshape(-1, dimension))
            terms = terms.reshape(len(some), 1 + len(coordinates), density.count)
            before, after = terms[:, :1], terms[:, 1:]
            with np.errstate(invalid="ignore"):
                same = np.abs(after - before) <= ROUNDING * (1 + np.abs(before))
            changed[coordinates] |= ~(same | (after == before)).all(axis=0)
    scopes = np.ascontiguousarray(changed.T)
    for number, slot in enumerate(layout.slots):
        # A flat prior does not change, but it is the prior of its own element all the same.
        own = np.arange(density.sizes[number])
        if slot.elementwise and slot.size and density.sizes[number] % slot.size == 0:
            scopes[density.offsets[number] + own, slot.start + own % slot.size] = True
        elif slot.discrete and slot.size:
            # So is what all states of a chain have in common: the sum over them has it once.
            rows = slice(density.offsets[number], density.offsets[number + 1])
            bare = ~scopes[rows, slot.start : slot.start + slot.size].any(axis=1)
            scopes[rows, slot.start] |= bare
        if slot.size == 1:
            # A scalar that half of a block depends on is in all of it, behind a switch or not.
            for block in range(len(density.blocks)):
                rows = slice(density.offsets[block], density.offsets[block + 1])
                found = scopes[rows, slot.start].sum()
                if found and 2 * found >= density.sizes[block]:
                    scopes[rows, slot.start] = True
    return scopes


def _values_to_try(density: LogDensity, layout: Layout, draws: np.ndarray) -> dict[int, np.ndarray]:
    """Return values of discrete coordinates that are the same in all draws, by coordinate."""
    found: dict[int, np.ndarray] = {}
    if density.backend != "numpy":
        # Impossible values may be indices elsewhere, which compiled code does not check.
        return found
    for slot in layout.slots:
        own = draws[:, slot.start : slot.start + slot.size]
        values = np.unique(own) if slot.discrete and slot.size else own
        same = slot.start + np.flatnonzero((own == own[:1]).all(axis=0))
        if not slot.discrete or len(values) < 2 or not len(same):
            continue
        points = np.repeat(draws[:1], len(values), axis=0)
        points[:, same] = values[:, None]
        try:
            density.terms(points)
        except Exception:  # whatever evaluating a term at an impossible value raises
            continue
        found.update(dict.fromkeys(same.tolist(), values))
    return found


def _others(
    column: np.ndarray, bases: np.ndarray, coordinate: int, trials: np.ndarray
) -> np.ndarray:
    """Return another value of a coordinate for each trial, where there is one."""
    values = bases[:, coordinate].copy()
    finite = np.isfinite(column)
    for row, trial in enumerate(trials):
        different = column[finite & (column != values[row])]
        if len(different):
            values[row] = different[(trial * 7) % len(different)]
    return values
