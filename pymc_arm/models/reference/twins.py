"""Groups with the same data have the same integrals, which are made once for all of them.

Animals that were never seen, of which capture-recapture models add a hundred, persons with the same
answers, sites without a find: given the parameters, their conditionals are the same function. Which
groups are equal is asked of values, at prior draws and near zero, and asked again where the
posterior is.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.density import Density, LogDensity
from pymc_arm.models.graph.elements import pick_elements
from pymc_arm.models.terms import TermBlock

__all__ = ["GroupTerms", "are_twins", "find_twins", "merge_twins"]

# Points at which groups are compared, half of them prior draws and half near zero: at draws of
# vague priors, what differs may be rounding beside what is common. Places of the group at each.
POINTS, NEAR = 12, 2.0
PLACES = np.array([-1.7, -0.3, 0.4, 2.1])
# Of sums in another order.
ROUNDING = 1e-12
# Groups are compared only where all have values at so many of the points.
FEWEST_USABLE = 4
# A function of the terms that are left takes a second to compile, and pays where so many terms
# become this share of them. A run takes some 50,000 integrals of 40 nodes each.
FEWEST_TERMS, LARGEST_SHARE = 100, 0.5


@dataclass(frozen=True)
class GroupTerms:
    """The terms of some groups, and which of all groups each of these stands for.

    ``terms`` are those of ``density``, ``owner`` says to which of the groups each belongs;
    ``first`` are the places of these groups among all, ``twin`` is the place of the one that stands
    for each of all groups, and ``times`` how many it stands for.
    """

    density: Density
    terms: np.ndarray
    owner: np.ndarray
    first: np.ndarray
    twin: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, density: Density, scopes: np.ndarray) -> "GroupTerms":
        """Return all groups, each for itself; ``scopes`` are (terms, groups)."""
        terms, groups = np.flatnonzero(scopes.any(axis=1)), np.arange(scopes.shape[1])
        owner = scopes[terms].argmax(axis=1)
        return cls(density, terms, owner, groups, groups, np.ones(len(groups)))

    def table(self, points: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the log-density of each group at its values, (size, nodes, groups).

        Parameters
        ----------
        points
            With all coordinates of the model.
        columns
            Those of these groups.
        values
            Of these, (size, nodes, groups).
        """
        found = self.density.terms_at(points, columns, values, self.terms)
        flat = found.reshape(-1, found.shape[2])
        return add_by_owner(flat, self.owner, len(self.first)).reshape(*values.shape[:2], -1)


def find_twins(groups: GroupTerms, collapsed: np.ndarray) -> np.ndarray:
    """Return for each group the first one that is the same function, or itself.

    Parameters
    ----------
    groups
        All of them.
    collapsed
        Their coordinates.
    """
    reference = groups.density.reference
    draws = reference[np.isfinite(reference).all(axis=1)][: POINTS // 2]
    near = np.random.default_rng(0).uniform(-NEAR, NEAR, (POINTS // 2, reference.shape[1]))
    points = np.concatenate([draws, near])
    values = np.broadcast_to(PLACES[:, None], (len(points), len(PLACES), len(collapsed)))
    with np.errstate(all="ignore"):
        table = groups.table(points, collapsed, values)
    number = np.arange(len(collapsed))
    if np.isfinite(table).all(axis=(1, 2)).sum() < FEWEST_USABLE:
        return number
    flat = table.reshape(-1, len(number))
    kept: list[int] = []
    result = number.copy()
    for each in number:
        if kept:
            same = _same(flat[:, kept], flat[:, each : each + 1]).all(axis=0)
            if same.any():
                result[each] = kept[int(np.argmax(same))]
                continue
        kept.append(int(each))
    return result


def are_twins(
    groups: GroupTerms, collapsed: np.ndarray, first: np.ndarray, points: np.ndarray
) -> bool:
    """Whether groups equal those that stand for them at some points, and at their values there."""
    values = points[:, None, collapsed[first]]
    with np.errstate(all="ignore"):
        table = groups.table(points, collapsed, values)
    return bool(_same(table, table[:, :, first]).all())


def merge_twins(groups: GroupTerms, first: np.ndarray) -> GroupTerms:
    """Return the groups that stand for others, with a function of their terms alone.

    Parameters
    ----------
    groups
        All of them.
    first
        From :func:`find_twins`.
    """
    kept, twin = np.unique(first, return_inverse=True)
    mine = np.flatnonzero(np.isin(groups.owner, kept))
    enough = len(groups.terms) >= FEWEST_TERMS
    if not enough or len(mine) > LARGEST_SHARE * len(groups.terms):
        return groups
    terms, owner = groups.terms[mine], np.searchsorted(kept, groups.owner[mine])
    density = groups.density
    assert isinstance(density, LogDensity)
    x, pieces = density.gradient.graphs
    firsts = np.cumsum([0, *(n for block in density.piece_sizes for n in block)])
    piece_of = np.searchsorted(firsts, terms, side="right") - 1
    picked = tuple(
        pick_elements(pieces[number], terms[piece_of == number] - firsts[number])
        for number in np.unique(piece_of)
    )
    block = TermBlock("groups", "data", picked, (True,) * len(picked))
    reduced = LogDensity(x, [block], density.reference)
    density.notes.extend(reduced.notes)
    return GroupTerms(
        reduced, np.arange(len(terms)), owner, kept, twin, np.bincount(twin).astype(float)
    )


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether values are equal up to rounding; infinite ones are if they are the same."""
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= ROUNDING * (1 + np.abs(other))
    return np.asarray(near | (one == other))
