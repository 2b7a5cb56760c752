"""Coordinates that share no term can be drawn given all others, each from a grid of its own.

Group effects, labels, missing values and the like are simple given what they depend on, however
curved or multimodal their joint posterior is. Then q of :mod:`pymc_arm.estimation.refine` does not
have them as coordinates.
"""

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from pymc_arm.models.coloring import add_by_owner, color_coordinates
from pymc_arm.models.density import Density
from pymc_arm.models.integrate import (
    Conditional,
    Grid,
    PriorRange,
    continuous_log_density,
    discrete_log_probability,
    draw_continuous,
    draw_discrete,
    enumerate_values,
    quadrature,
)
from pymc_arm.models.plan import Plan
from pymc_arm.models.support import Support, inside_only

__all__ = ["MarginalSpace", "independent_sets"]

# Elements of a table of terms that are held at once, and the nodes of a grid.
LARGEST_TABLE = 8_000_000
MOST_NODES = 50
# Values of a discrete coordinate that its search takes, at most.
MOST_VALUES = 100
# The evaluations that draws are worth a particle, about those of exploring, and how many draws.
EVALUATIONS = 1000
PROPOSALS = 2, 20
# A set that is a smaller share of all coordinates leaves q as much to do as before.
SMALLEST_SHARE = 0.3


def independent_sets(scopes: np.ndarray, discrete: np.ndarray) -> list[np.ndarray]:
    """Return sets of coordinates that share no term, to be tried in this order.

    Parameters
    ----------
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    discrete
        Which coordinates are discrete. All of them are in each set; if two of them share a term,
        there is no set.
    """
    terms = scopes.astype(np.float32)
    neighbours = (terms.T @ terms) > 0
    np.fill_diagonal(neighbours, False)
    if neighbours[np.ix_(discrete, discrete)].any():
        return []
    count, degrees = len(discrete), neighbours.sum(axis=1)
    sets = [discrete]
    # Those with the fewest neighbours first; among equals the later ones, or the earlier ones.
    for direction in (-1, 1):
        chosen = discrete.copy()
        for coordinate in np.lexsort((direction * np.arange(count), degrees)):
            chosen[coordinate] |= not (neighbours[coordinate] & chosen).any()
        if chosen.sum() >= SMALLEST_SHARE * count:
            sets.append(chosen)
    unique = {chosen.tobytes(): np.flatnonzero(chosen) for chosen in sets}
    return [chosen for chosen in unique.values() if 0 < len(chosen) < count]


@dataclass(frozen=True)
class MarginalSpace:
    """The coordinates that are left when those of an independent set are drawn given them.

    ``supports`` are those of the discrete coordinates; ``prior_ranges`` say where grids begin, for
    each set of coordinates that come from one variable.
    """

    plan: Plan
    density: Density
    supports: dict[int, Support] = field(repr=False)
    log_normalizer: float
    collapsed: np.ndarray
    prior_ranges: tuple[PriorRange, ...] = ()

    @property
    def proposals(self) -> int:
        """How many draws for each particle cost less than exploring did."""
        return int(np.clip(EVALUATIONS // self._nodes, *PROPOSALS))

    @property
    def work(self) -> int:
        """How many elements an evaluation computes: all terms at each node of a grid."""
        return self._nodes * self.density.work

    @property
    def _nodes(self) -> int:
        """How many nodes the grids of all drawn coordinates have."""
        discrete = [self.supports.get(int(coordinate)) for coordinate in self.collapsed]
        return sum(MOST_NODES if s is None else min(s.count, MOST_VALUES) for s in discrete)

    @functools.cached_property
    def _sets(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        slots = self.plan.layout.slots
        group = np.repeat(np.arange(len(slots)), [slot.size for slot in slots])
        return color_coordinates(self.collapsed, self.plan.scopes, group)

    @property
    def _kept(self) -> np.ndarray:
        return np.delete(np.arange(self.plan.layout.dimension), self.collapsed)

    def fit_to(self, particles: np.ndarray) -> "MarginalSpace":
        """Return the same space, with grids that begin where these particles are."""
        layout = self.plan.layout
        prior_ranges = [
            PriorRange.of(particles[:, own].ravel(), layout.slot_of(int(own[0])).bound)
            for own, _, _ in self._sets
        ]
        return replace(self, prior_ranges=tuple(prior_ranges))

    def points(self, particles: np.ndarray) -> np.ndarray:
        """Return the coordinates that are left."""
        return particles[:, self._kept]

    def log_ratio(self, particles: np.ndarray) -> np.ndarray:
        """Return log f(g, x) - log h(x | g) at particles."""
        return self._over_chunks(particles, None)[1]

    def draw_log_ratio(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return log f(g, x) - log h(x | g) with x drawn from h."""
        return self.draw_particles(rng, points)[1]

    def draw_particles(
        self, rng: np.random.Generator, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return particles (g, x) with x drawn from h, and log f(g, x) - log h(x | g)."""
        particles = np.zeros((len(points), self.plan.layout.dimension))
        particles[:, self._kept] = points
        return self._over_chunks(particles, rng)

    def score(self, points: np.ndarray) -> None:
        """Return None: there is no gradient of f(g)."""

    def _over_chunks(
        self, particles: np.ndarray, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        widest = max(max(len(terms), len(own)) for own, terms, _ in self._sets)
        chunk = max(1, LARGEST_TABLE // (MOST_NODES * widest))
        parts = [
            self._chunk(particles[first : first + chunk], rng)
            for first in range(0, len(particles), chunk)
        ]
        filled, log_ratios = zip(*parts, strict=True)
        return np.concatenate(filled), np.concatenate(log_ratios)

    def _chunk(
        self, particles: np.ndarray, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return particles, or with coordinates drawn anew, and log f - log h there."""
        particles = particles.copy()
        log_h = np.zeros(len(particles))
        for number, (coordinates, _, _) in enumerate(self._sets):
            support = self.supports.get(int(coordinates[0]))
            reference = self.prior_ranges[number]
            grid = self._grid(particles, number)
            if rng is None:
                values = particles[:, coordinates].ravel()
                if support is None:
                    logs = continuous_log_density(grid, reference, values)
                else:
                    logs = discrete_log_probability(grid, support, values)
            else:
                if support is None:
                    values, logs = draw_continuous(rng, grid, reference)
                else:
                    values, logs = draw_discrete(rng, grid, support)
                particles[:, coordinates] = values.reshape(len(particles), -1)
            log_h += logs.reshape(len(particles), -1).sum(axis=1)
        everything = np.ones(self.density.count)
        return particles, self.log_normalizer + self.density.sum(particles, everything) - log_h

    def _grid(self, particles: np.ndarray, number: int) -> Grid:
        """Return the grid of each particle and coordinate of a set, all of a particle in a row."""
        coordinates, terms, owner = self._sets[number]
        size = len(particles) * len(coordinates)
        conditional = self._conditional(particles, coordinates, terms, owner)
        support = self.supports.get(int(coordinates[0]))
        if support is None:
            return quadrature(conditional, self.prior_ranges[number], size)
        if support.varies:
            slots = self.plan.layout.slots
            block = next(k for k, slot in enumerate(slots) if coordinates[0] in slot.coordinates)
            first, last = self.density.offsets[block : block + 2]
            own = (terms >= first) & (terms < last)
            prior = self._conditional(particles, coordinates, terms[own], owner[own])
            conditional = inside_only(conditional, prior)
        return enumerate_values(conditional, support, size)

    def _conditional(
        self,
        particles: np.ndarray,
        coordinates: np.ndarray,
        terms: np.ndarray,
        owner: np.ndarray,
    ) -> Conditional:
        """Return the function from values of coordinates to the terms of each, added up."""
        count = len(coordinates)

        def conditional(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            # All coordinates of a particle are evaluated at once, also those that need no more.
            chosen, place = np.unique(rows // count, return_inverse=True)
            nodes = values.shape[1]
            some = np.broadcast_to(values[0], (len(chosen), count, nodes)).copy()
            some[place, rows % count] = values
            found = self.density.terms_at(
                particles[chosen], coordinates, some.swapaxes(1, 2), terms
            )
            added = add_by_owner(found.reshape(len(chosen) * nodes, -1), owner, count)
            table = added.reshape(len(chosen), nodes, count)
            return table[place, :, rows % count]

        return conditional
