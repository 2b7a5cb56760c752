"""Where log Z is refined: in the space of all coordinates, or of some, with the others drawn.

A density q near the posterior may be hard to find in the space of all coordinates, or, where some
are discrete, not exist. If those, x, are simple given the ones that are left, g, then q(g) h(x | g)
will do, with h as near to the conditional of the posterior as a grid can be.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pymc_arm.estimation.approximation import Approximation
from pymc_arm.estimation.estimate import Evidence

__all__ = [
    "Everywhere",
    "FullSpace",
    "HasDensity",
    "Hinted",
    "Refinable",
    "RefinementSpace",
    "Searchable",
    "StartedElsewhere",
    "Symmetric",
]


class RefinementSpace(Protocol):
    """Coordinates g of particles at p_N, and a density h(x | g) for the others."""

    @property
    def proposals(self) -> int:
        """How many draws of g for each particle cost less than exploring did."""

    @property
    def work(self) -> int | None:
        """How many elements an evaluation computes, where that is known."""

    def fit_to(self, particles: Any) -> "RefinementSpace":
        """Return the same space, with h made for where these particles are."""

    def points(self, particles: Any) -> np.ndarray:
        """Return g, (size, dimension), in an unbounded space."""

    def log_ratio(self, particles: Any) -> np.ndarray:
        """Return log f(g, x) - log h(x | g) at particles."""

    def draw_log_ratio(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return log f(g, x) - log h(x | g) with x drawn from h: of mean f(g)."""

    def draw_particles(
        self, rng: np.random.Generator, points: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Return whole particles (g, x) too, with x drawn from h, or None if they can't be made."""

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of log f(g), where it helps a fit, or None."""


@runtime_checkable
class Refinable(Protocol):
    """A path whose last density can be evaluated, so that log Z can be refined."""

    def spaces(self, particles: Any) -> Sequence[RefinementSpace]:
        """Return where log Z can be refined, the simplest space first; none if nowhere."""

    def continuous(self, particles: Any) -> np.ndarray | None:
        """Return particles at p_N as points (size, dimension) of an unbounded space.

        None where there is no such space (discrete variables).
        """

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f_N at points of that space."""

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of :meth:`log_density` where it helps a fit, or None."""


@runtime_checkable
class StartedElsewhere(Protocol):
    """A path whose first distribution is not the prior, and which has prior draws all the same."""

    def prior_particles(self, rng: np.random.Generator, size: int) -> Any:
        """Return prior draws as particles at p_N: where a search for modes starts."""


class Everywhere(NamedTuple):
    """A symmetric density outside of the cell that particles are in too.

    ``fold`` takes points to their images in the cell.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    fold: Callable[[np.ndarray], np.ndarray]


@runtime_checkable
class Symmetric(Protocol):
    """A path whose density may be symmetric: its particles are in one cell then."""

    @property
    def everywhere(self) -> Everywhere | None:
        """The density in all cells, or None where there is only one."""

    def representatives(self, rng: np.random.Generator, particles: Any) -> Any:
        """Return draws of particles that are in the cell, by variable."""


@runtime_checkable
class Hinted(Protocol):
    """A path that knows of places where modes may be."""

    @property
    def likely_particles(self) -> Any:
        """Particles at p_N from which a search for modes starts too; there may be none."""


@runtime_checkable
class Searchable(Protocol):
    """A path without a continuous space that has a search for modes of its own."""

    def search(
        self, particles: Sequence[Any], positions: Sequence[Any], evidence: Evidence
    ) -> dict[str, Any]:
        """Return what a search for modes says of the particles of all chains and of their log Z.

        That is fields of :class:`pymc_arm.running.summary.RunSummary`: ``modes_found``, and, if
        particles have missed some, ``missed_log_mass`` and the shares, or ``unseen_share``.
        ``positions`` are those that the first chain has passed.
        """


@runtime_checkable
class HasDensity(Protocol):
    """A space with a density q that was made without the particles, so that none is fitted."""

    @property
    def known_density(self) -> Approximation:
        """The density, over the points of the space."""


class FullSpace:
    """All coordinates: there is nothing to draw.

    Parameters
    ----------
    path
        Whose last density is refined.
    """

    proposals = 20

    def __init__(self, path: Refinable, points_are_particles: bool = False) -> None:
        self._path = path
        self._points_are_particles = points_are_particles

    @property
    def work(self) -> int | None:
        """How many elements an evaluation of the path's last density computes, if it says so."""
        return getattr(self._path, "work", None)

    def fit_to(self, particles: Any) -> "FullSpace":
        """Return the same space, which knows whether points are particles themselves."""
        same = isinstance(particles, np.ndarray) and np.array_equal(
            self.points(particles), particles
        )
        return FullSpace(self._path, same)

    def points(self, particles: Any) -> np.ndarray:
        """Return all coordinates."""
        points = self._path.continuous(particles)
        assert points is not None
        return points

    def log_ratio(self, particles: Any) -> np.ndarray:
        """Return log f at particles."""
        return self._path.log_density(self.points(particles))

    def draw_log_ratio(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return log f at points."""
        return self._path.log_density(points)

    def draw_particles(
        self, rng: np.random.Generator, points: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the points themselves, where a path stores its particles as points."""
        particles = points if self._points_are_particles else None
        return particles, self.draw_log_ratio(rng, points)

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of log f."""
        return self._path.score(points)
