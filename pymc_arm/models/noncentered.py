"""Normal variables whose mean or scale are unknown, seen by their innovations.

Group effects, increments and the like are normal given others: x = m(h) + s(h) z. A cloud that is a
funnel in (h, x), because x can't be far from m where s is small, may be round in (h, z); where the
data say more about x than h does, it is the other way round. Kernels that move both views in turn
need not know which it is (Yu and Meng, 2011).

Which variables these are is found by trying, as scopes are: the log-density of a normal is a
parabola, and three of its points tell m and s. Any functions m and s of the other coordinates would
leave what they are used for exact, so that what is missed costs efficiency and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.density import Density
from pymc_arm.models.terms import Layout

__all__ = ["Level", "NonCentered", "find_noncentered"]

# Where a parabola is measured, and where it is checked.
NODES, CHECK = (-1.0, 0.0, 1.0), 2.5
TOLERANCE = 1e-6
# Prior draws at which it is checked.
POINTS = 20


@dataclass(frozen=True)
class Level:
    """Normal coordinates whose parents are of earlier levels, or of none.

    Those of the same mean and scale share a representative, whose prior terms are ``terms``;
    ``owner`` is the place of the representative that each term belongs to, and ``place`` that of
    each coordinate.
    """

    coordinates: np.ndarray
    representatives: np.ndarray
    terms: np.ndarray
    owner: np.ndarray
    place: np.ndarray

    def select(self, chosen: np.ndarray) -> "Level":
        """Return the level of some of its coordinates."""
        kept = np.isin(self.coordinates, chosen)
        needed, place = np.unique(self.place[kept], return_inverse=True)
        of_needed = np.isin(self.owner, needed)
        owner = np.searchsorted(needed, self.owner[of_needed])
        coordinates, representatives = self.coordinates[kept], self.representatives[needed]
        return Level(coordinates, representatives, self.terms[of_needed], owner, place)


class NonCentered:
    """Points with some coordinates replaced by z = (x - m) / s, and back."""

    def __init__(self, density: Density, levels: list[Level]) -> None:
        self._density, self._levels = density, levels
        self.coordinates = np.concatenate([np.zeros(0, int), *(v.coordinates for v in levels)])

    def select(self, chosen: np.ndarray) -> "NonCentered":
        """Return those of some coordinates only."""
        levels = [level.select(chosen) for level in self._levels]
        return NonCentered(self._density, [level for level in levels if len(level.coordinates)])

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points with z in place of x, and log |dx / dz|."""
        return self._transform(points, inverse=False)

    def inverse(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points with x in place of z, and log |dx / dz|."""
        return self._transform(points, inverse=True)

    def _transform(self, points: np.ndarray, *, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
        result, log_scale = points.copy(), np.zeros(len(points))
        # With x in place level by level, so that m and s are the same functions in both directions.
        known = points.copy()
        known[:, self.coordinates] = 0.0
        with np.errstate(all="ignore"):  # where there is no m and s, points are not numbers
            for level in self._levels:
                mean, scale = self.normal(level, known)
                given = points[:, level.coordinates]
                found = mean + scale * given if inverse else (given - mean) / scale
                result[:, level.coordinates] = found
                known[:, level.coordinates] = found if inverse else given
                log_scale += np.log(scale).sum(axis=1)
        return result, log_scale

    def normal(self, level: Level, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return m and s of the coordinates of a level, from three points of their parabolas."""
        low, middle, high = _prior(self._density, level, points, NODES)
        precision = 2 * middle - low - high
        mean, scale = 0.5 * (high - low) / precision, precision**-0.5
        return mean[:, level.place], scale[:, level.place]


def find_noncentered(
    density: Density, layout: Layout, scopes: np.ndarray, draws: np.ndarray
) -> NonCentered:
    """Return the coordinates that are normal given continuous ones.

    Parameters
    ----------
    density
        The compiled terms; the first blocks are the priors of the variables of the layout.
    layout
        The coordinates.
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    draws
        Prior draws, (size, dimension).
    """
    draws = draws[np.isfinite(draws).all(axis=1)][:POINTS]
    depth = np.zeros(layout.dimension, dtype=int)
    levels: dict[int, list[Level]] = {}
    for number, slot in enumerate(layout.slots):
        rows = np.arange(density.offsets[number], density.offsets[number + 1])
        coordinates = np.arange(slot.start, slot.start + slot.size)
        scope = scopes[density.offsets[number] : density.offsets[number + 1]]
        own = scope[:, slot.start : slot.start + slot.size]
        parents = np.flatnonzero(scope.any(axis=0))
        parents = parents[~np.isin(parents, coordinates)]
        if slot.discrete or not len(draws) or not (own.sum(axis=1) == 1).all():
            continue
        if layout.discrete[parents].all() or not own.any(axis=0).all():
            continue
        each = np.arange(slot.size)
        level = Level(coordinates, coordinates, rows, own.argmax(axis=1), each)
        values = _prior(density, level, draws, (*NODES, CHECK))
        if not _are_parabolas(values):
            continue
        # The same mean and scale at all draws: one of them will do for all.
        _, first, place = np.unique(
            np.concatenate(values), axis=1, return_index=True, return_inverse=True
        )
        needed = np.isin(level.owner, first)
        order = np.argsort(first)
        owner = order[np.searchsorted(first[order], level.owner[needed])]
        depth[coordinates] = 1 + depth[parents].max()
        found = Level(coordinates, coordinates[first], rows[needed], owner, place.ravel())
        levels.setdefault(int(depth[slot.start]), []).append(found)
    return NonCentered(density, [level for depth in sorted(levels) for level in levels[depth]])


def _prior(
    density: Density, level: Level, points: np.ndarray, nodes: Sequence[float]
) -> list[np.ndarray]:
    """Return the log-priors of the representatives of a level, with these at each node."""
    places = np.tile(points, (len(nodes), 1))
    places[:, level.representatives] = np.repeat(nodes, len(points))[:, None]
    found = density.terms(places, level.terms)
    added = add_by_owner(found, level.owner, len(level.representatives))
    return np.split(added, len(nodes))


def _are_parabolas(values: list[np.ndarray]) -> bool:
    """Whether the log-density is one at all points where it is finite."""
    finite = np.isfinite(values).all(axis=0)
    if not finite.any(axis=0).all():
        return False
    low, middle, high, check = (np.where(finite, value, 0.0) for value in values)
    curvature, slope = 0.5 * (low + high) - middle, 0.5 * (high - low)
    expected = middle + CHECK * slope + CHECK**2 * curvature
    size = np.abs([low, middle, high, check]).max(axis=0)
    return bool(
        (np.abs(expected - check) <= TOLERANCE * size).all() and (curvature[finite] < 0).all()
    )
