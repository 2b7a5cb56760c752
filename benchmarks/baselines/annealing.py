r"""Annealing: a base whose Z is known, a target whose Z is not, and a path between them.

A distribution on the path has an inverse temperature beta, 0 at the base and 1 at the target;
on a geometric path log f_beta = (1 - beta) log f_0 + beta log f_1. Given a grid of betas this is a
path like any other, on a space that does not grow: smoothing is reweighting by
f_{beta'} / f_beta, and nothing is left to augment. So annealed importance sampling (Neal, 2001) is
Resample-Move that never resamples, and ARM can travel on the same path.

References
----------
Neal (2001), Annealed importance sampling.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved, Particles, Path, Proposal, Smoothed

__all__ = ["Annealing", "GeometricAnnealing"]


class Annealing(Path):
    """The distributions p_beta between a base and a target, on a grid of betas.

    Subclasses say how to draw from the base, how to move at any beta, and what log f_beta is, as a
    ratio. Positions are the places on the grid, from 1.
    """

    #: The grid, increasing from 0 to 1, or decreasing from 1 to 0 for a reversed run.
    betas: np.ndarray = np.array([0.0, 1.0])

    @abstractmethod
    def draw_base(self, rng: np.random.Generator, size: int) -> tuple[Particles, float]:
        """Draw from p_0 exactly, and return the draws with log Z_0."""

    @abstractmethod
    def transition(self, rng: np.random.Generator, beta: float, particles: Particles) -> Moved:
        """Apply any kernel that leaves p_beta invariant."""

    @abstractmethod
    def energy(self, particles: Particles, beta: float) -> np.ndarray:
        """Return d log f_beta / d beta, whose variance sets the schedule (appendix B)."""

    def log_ratio(
        self, particles: Particles, old: float, new: float
    ) -> tuple[np.ndarray, Particles]:
        """Return log f_new - log f_old, and the particles as the kernel at ``new`` wants them.

        On a geometric path it is the difference of betas times the energy.
        """
        return (new - old) * self.energy(particles, old), particles

    def draw_target(self, rng: np.random.Generator, size: int) -> Particles:
        """Draw from p_1, for a run in reverse; exact draws make it a bound."""
        raise ValueError(
            f"{type(self).__name__} cannot draw from its target, where a run in reverse starts: "
            'choose direction="forward".'
        )

    def on_grid(self, betas: np.ndarray) -> "Annealing":
        """Return the same path with another grid."""
        path = copy.copy(self)
        path.betas = np.asarray(betas, dtype=float)
        path.length = len(path.betas)
        return path

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Particles, float]:
        """Draw from the end of the path at which the grid begins.

        A reversed run estimates Z_0 / Z_1, so that its own log Z starts at zero.
        """
        if self.betas[0] == 0:
            return self.draw_base(rng, size)
        return self.draw_target(rng, size), 0.0

    def move(self, rng: np.random.Generator, n: int, particles: Particles) -> Moved:
        """Apply the kernel; draws from the start are exact and stay as they are."""
        if n == self.start:
            return Moved(particles, np.nan)
        return self.transition(rng, float(self.betas[n - 1]), particles)

    def smooth(self, rng: np.random.Generator, n: int, particles: Particles) -> Smoothed:
        """Return the log ratio of two neighbours on the grid."""
        return Smoothed(
            *self.log_ratio(particles, float(self.betas[n - 2]), float(self.betas[n - 1]))
        )

    def augment(
        self, rng: np.random.Generator, n: int, particles: Particles, proposal: Proposal
    ) -> tuple[Particles, float]:
        """Return the particles, to which nothing is added."""
        return proposal, 0.0

    def describe(self, n: int) -> str:
        """Return the inverse temperature."""
        return f"beta = {self.betas[n - 1]:.4g}"


class GeometricAnnealing(Annealing):
    """The geometric path between two densities that are given as functions.

    Parameters
    ----------
    draw_base
        ``draw_base(rng, size)`` returns draws from p_0, (size, dimension).
    log_base, log_target
        Unnormalised log-densities of points (size, dimension).
    kernel
        ``kernel(rng, log_density, points)`` returns points, and maybe an acceptance rate, after
        steps that leave ``log_density`` invariant.
    log_base_evidence
        log Z_0; zero if ``log_base`` is normalised.
    draw_target
        ``draw_target(rng, size)``, for a run in reverse.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.baselines import GeometricAnnealing, ais
    >>> def metropolis(rng, log_density, points):
    ...     proposal = points + rng.normal(size=points.shape)
    ...     accepted = np.log(rng.random(len(points))) < log_density(proposal) - log_density(points)
    ...     return np.where(accepted[:, None], proposal, points)
    >>> path = GeometricAnnealing(
    ...     draw_base=lambda rng, size: rng.normal(size=(size, 1)),
    ...     log_base=lambda x: -0.5 * x[:, 0] ** 2 - 0.5 * np.log(2 * np.pi),
    ...     log_target=lambda x: -2 * (x[:, 0] - 1) ** 2,
    ...     kernel=metropolis,
    ... )
    >>> result = ais(path, 500, temperatures=20, schedule="linear", random_seed=1,
    ...              progressbar=False)
    >>> exact = 0.5 * np.log(np.pi / 2)
    >>> bool(abs(result.attrs["log_marginal_likelihood"] - exact) < 0.1)
    True
    """

    def __init__(
        self,
        draw_base: Callable[[np.random.Generator, int], np.ndarray],
        log_base: Callable[[np.ndarray], np.ndarray],
        log_target: Callable[[np.ndarray], np.ndarray],
        kernel: Callable[..., Any],
        *,
        log_base_evidence: float = 0.0,
        draw_target: Callable[[np.random.Generator, int], np.ndarray] | None = None,
    ) -> None:
        self._draw_base, self._log_base, self._log_target = draw_base, log_base, log_target
        self._kernel, self._draw_target = kernel, draw_target
        self.log_base_evidence = log_base_evidence
        self.length = len(self.betas)

    def draw_base(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from the base."""
        return self._draw_base(rng, size), self.log_base_evidence

    def draw_target(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw from the target, if that was given."""
        if self._draw_target is None:
            return super().draw_target(rng, size)
        return self._draw_target(rng, size)

    def transition(self, rng: np.random.Generator, beta: float, particles: np.ndarray) -> Moved:
        """Apply the kernel."""

        def log_density(points: np.ndarray) -> np.ndarray:
            return (1 - beta) * self._log_base(points) + beta * self._log_target(points)

        moved = self._kernel(rng, log_density, particles)
        return Moved(*moved) if isinstance(moved, tuple) else Moved(moved, np.nan)

    def energy(self, particles: np.ndarray, beta: float) -> np.ndarray:
        """Return log f_1 - log f_0."""
        return self._log_target(particles) - self._log_base(particles)
