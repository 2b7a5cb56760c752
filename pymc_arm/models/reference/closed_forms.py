"""Groups whose integrals are known in closed form: conjugate ones, whatever they are called.

Hazards and rates with gamma priors, shares with beta priors, normal effects of normal data: given
the parameters, the density of each belongs to a family of :mod:`conjugate`. That is asked of
values, near zero and again where the posterior is. Three values then take the place of a
quadrature, and vague priors do no harm: the logarithm of a Gamma(0.01, 0.01) variable has a tail
that is 100 wide, and its integral is a gamma function like any other.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.conjugate import FAMILIES, Solution, solve
from pymc_arm.models.reference.groups import CHECKED, FEWEST, GroupTarget, find_independent
from pymc_arm.models.reference.twins import GroupTerms, are_twins

__all__ = ["ConjugateTarget", "find_conjugate", "is_close"]

# Points near zero at which the families are looked for, and how far these are from it; places of
# the groups that are tried there, besides those that tell the coefficients.
POINTS, NEAR = 4, 1.0
TRIED = np.array([-3.1, -0.7, 0.8, 2.3])
# How far values may be from those of a family, relative to the largest: of sums in another order.
ROUNDING = 1e-9
# Places around draws, in the units of a family, where the form is asked again, and far from it. A
# value this far below the largest does not matter.
AROUND = np.array([-30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 2.0, 3.0, 10.0])
EVERYWHERE = np.concatenate([-np.logspace(2, -1, 7), np.logspace(-1, 2, 7)])
NEGLIGIBLE = 40.0


@dataclass(frozen=True)
class _ClosedForms:
    """The integral over all groups, of each row, and the groups of each family with theirs."""

    log_mass: np.ndarray
    solutions: list[tuple[np.ndarray, Solution]]

    def shares(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the three places of each group, and the derivatives by the values there."""
        shape = len(rows), 3, sum(len(members) for members, _ in self.solutions)
        places, weights = np.empty(shape), np.empty(shape)
        for members, solution in self.solutions:
            places[:, :, members] = solution.places[rows]
            weights[:, :, members] = solution.weights[rows]
        return places, weights


class ConjugateTarget(GroupTarget):
    """The density of the parameters, with conjugate groups integrated out.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    collapsed
        The coordinates that are integrated, from :func:`find_conjugate`.

    Raises
    ------
    PathError
        If one of them belongs to none of the families.
    """

    conjugate = True

    def __init__(self, path: GenericPath, collapsed: np.ndarray) -> None:
        super().__init__(path, collapsed)
        self._nodes = np.zeros(3)
        family = _find_families(self._groups, self._columns)
        if (family < 0).any():
            raise PathError("The integrals of some groups are not known in closed form.")
        numbers = np.unique(family)
        self._members = [(int(k), np.flatnonzero(family == k)) for k in numbers]

    def complete(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Draw the groups given the parameters."""
        points, twin = points.copy(), self._groups.twin
        for part in self._parts(points):
            for members, solution in self._solve(points[part]).solutions:
                mine = np.flatnonzero(np.isin(twin, members))
                place = np.searchsorted(members, twin[mine])
                points[part, self.collapsed[mine]] = solution.draw(rng, place)
        return points

    def look_around(self, points: np.ndarray) -> None:
        """Do nothing: three values tell where a group is."""

    def check(self, points: np.ndarray) -> None:
        """Ask again whether the groups are of their families, where the posterior is.

        Raises
        ------
        PathError
            If one is not.
        """
        points = points[:CHECKED]
        drawn = self.complete(np.random.default_rng(0), points)
        merged = self._groups is not self._everyone
        if merged and not are_twins(self._everyone, self.collapsed, self._twins, drawn):
            raise PathError("Groups that seemed to have the same data differ.")
        for members, solution in self._solve(points).solutions:
            columns = self._columns[members]
            places = drawn[:, None, columns] + AROUND[:, None] * solution.width[:, None]
            fixed = np.broadcast_to(
                EVERYWHERE[:, None], (len(points), len(EVERYWHERE), len(members))
            )
            places = np.concatenate([places, fixed], axis=1)
            values = self._values(points, members, places)
            with np.errstate(all="ignore"):
                expected = solution(places)
            if not is_close(values, expected).all():
                names = {self.path.plan.layout.slot_of(int(c)).name for c in columns}
                raise PathError(f"{', '.join(sorted(names))} are not conjugate everywhere.")

    def _integrals(self, points: np.ndarray) -> _ClosedForms:
        return self._solve(points)

    def _solve(self, points: np.ndarray) -> _ClosedForms:
        log_mass, solutions = np.zeros(len(points)), []
        for family, members in self._members:

            def values(
                rows: np.ndarray, places: np.ndarray, members: np.ndarray = members
            ) -> np.ndarray:
                return self._values(points[rows], members, places)

            solution = solve(FAMILIES[family], values, len(points), len(members))
            log_mass += (self._groups.times[members] * solution.log_mass).sum(axis=1)
            solutions.append((members, solution))
        return _ClosedForms(log_mass, solutions)

    def _values(self, points: np.ndarray, members: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the log-densities of some groups at places, (size, nodes, members)."""
        full = np.zeros((*places.shape[:2], len(self._columns)))
        full[:, :, members] = places
        return self._groups.table(points, self._columns, full)[:, :, members]


def find_conjugate(path: GenericPath, groups: np.ndarray) -> np.ndarray:
    """Return coordinates that are independent given the others and conjugate; none if few are.

    Parameters
    ----------
    path
        The path of a model.
    groups
        What leaves few parameters, from :func:`pymc_arm.models.reference.groups.find_groups`. If
        not all of them are conjugate, others are looked for that leave more parameters; of these,
        fields and partly non-centred views take the normal ones.
    """
    nothing = np.zeros(0, dtype=int)
    if len(groups) and (_families_of(path, groups) >= 0).all():
        return groups
    chosen = find_independent(path)
    if len(chosen) < FEWEST:
        return nothing
    chosen = chosen[_families_of(path, chosen) > 0]
    left = path.plan.layout.dimension - len(chosen)
    return chosen if len(chosen) >= max(FEWEST, left) and left else nothing


def _families_of(path: GenericPath, coordinates: np.ndarray) -> np.ndarray:
    groups = GroupTerms.of(path.density, path.plan.scopes[:, coordinates])
    return _find_families(groups, coordinates)


def _find_families(groups: GroupTerms, columns: np.ndarray) -> np.ndarray:
    """Return the number of the family of each group among :data:`FAMILIES`, or -1."""
    rng, dimension = np.random.default_rng(0), groups.density.reference.shape[1]
    points = rng.uniform(-NEAR, NEAR, (POINTS, dimension))
    tried = np.broadcast_to(TRIED[:, None], (POINTS, len(TRIED), len(columns)))
    with np.errstate(all="ignore"):
        values = groups.table(points, columns, tried)
        result = np.full(len(columns), -1)
        for number, family in reversed(list(enumerate(FAMILIES))):

            def log_density(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
                return groups.table(points[rows], columns, places)

            solution = solve(family, log_density, POINTS, len(columns))
            good = is_close(values, solution(tried)) & np.isfinite(values)
            good &= np.isfinite(solution.log_mass)[:, None]
            result[good.all(axis=(0, 1))] = number
    return result


def is_close(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Whether values, (size, nodes, groups), are as expected, or of no weight in both."""
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(expected), expected, -np.inf)
        top = finite.max(axis=1, keepdims=True)
        near = np.abs(values - expected) <= ROUNDING * (1 + np.abs(expected) + np.abs(top))
        low = top - NEGLIGIBLE
        return np.asarray(near | ((values < low) & (expected < low)))
