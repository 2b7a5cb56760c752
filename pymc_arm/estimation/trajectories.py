"""Short Hamiltonian trajectories that find what optimisations do not.

A wide part of the posterior around or beside a narrow mode has no maximum of its own, and particles
that start at a fitted density may never meet it. A Markov chain that starts far away does: where
the wide part is, it stays. So a few short Hamiltonian chains start from prior draws, and where they
settle away from all particles, their points make a component of q, which draws of q then weigh.
"""

from collections.abc import Callable

import numpy as np

from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.approximation.covariance import covariance_of, shrink
from pymc_arm.estimation.starts import LogDensity

__all__ = ["distance_from_particles", "find_settled"]

CHAINS = 32
# Trajectories of a chain, of so many steps; the last quarter of the trajectories is kept.
TRAJECTORIES = 40
STEPS = 8
# What all trajectories evaluate; where that takes more elements than this, there are none.
LARGEST_WORK = 10_000_000
EVALUATIONS = CHAINS * TRAJECTORIES * STEPS
# A chain is away from the particles if its squared distances from their mean, in their own
# covariance, are so many times as large as nearly all of theirs.
FAR = 3.0
NEARLY_ALL = 0.999
FEWEST_AWAY = 2
# It has settled if its log-density does not rise by more than this share of its own spread.
LARGEST_RISE = 1.0


def find_settled(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    points: np.ndarray,
    work: int | None,
    rng: np.random.Generator,
    fold: Callable[[np.ndarray], np.ndarray] | None = None,
) -> SinhArcsinhStudent | None:
    """Return a density where trajectories settle away from the particles, or None.

    Parameters
    ----------
    log_density, gradient
        At points (size, dimension).
    starts
        Prior draws, of which the first of positive density are used.
    points
        The particles of all chains.
    work
        How many elements an evaluation computes; where that is unknown or large, there are none.
    rng
        For the trajectories.
    fold
        Takes points to their images in the cell of a symmetric posterior that the particles are in.
    """
    if work is None or work * EVALUATIONS > LARGEST_WORK or len(points) <= points.shape[1]:
        return None
    starts = starts[np.isfinite(starts).all(axis=1)][: 4 * CHAINS]
    starts = starts[np.isfinite(log_density(starts))][:CHAINS]
    if len(starts) < FEWEST_AWAY:
        return None
    # Widths of the prior and of the particles may differ by orders of magnitude: a chain finds its
    # own step, and coordinates have the widths between chains.
    scale = np.maximum(np.std(starts, axis=0), 1e-12)
    path, heights = _follow(log_density, gradient, starts, scale, rng)
    if fold is not None:
        path = fold(path.reshape(-1, path.shape[-1])).reshape(path.shape)
    away = _is_away(path, points) & _has_settled(heights)
    if np.sum(away) < FEWEST_AWAY:
        return None
    late = path[-TRAJECTORIES // 4 :, away].reshape(-1, path.shape[-1])
    return SinhArcsinhStudent.fit(late, gradient(late), bend=False)


def _follow(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    scale: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points (trajectories, chains, dimension) and heights of Hamiltonian chains.

    Each finds its step size in the first half; steps vary by a fifth.
    """
    heights, slopes = log_density(points), gradient(points) * scale
    step = np.full(len(points), 0.1 * points.shape[1] ** -0.25)
    path, levels = [], []
    for number in range(TRAJECTORIES):
        momenta = rng.standard_normal(points.shape)
        sizes = (step * rng.uniform(0.8, 1.2, len(points)))[:, None]
        new, forces = points, slopes
        energy = heights - 0.5 * np.square(momenta).sum(axis=1)
        for _ in range(STEPS):
            momenta = momenta + 0.5 * sizes * forces
            new = new + sizes * scale * momenta
            forces = np.nan_to_num(gradient(new) * scale)
            momenta = momenta + 0.5 * sizes * forces
        new_heights = log_density(new)
        change = new_heights - 0.5 * np.square(momenta).sum(axis=1) - energy
        accepted = np.log(rng.uniform(size=len(points))) < np.nan_to_num(change, nan=-np.inf)
        points = np.where(accepted[:, None], new, points)
        slopes = np.where(accepted[:, None], forces, slopes)
        heights = np.where(accepted, new_heights, heights)
        if number < TRAJECTORIES // 2:
            step = step * np.where(accepted, 1.15, 0.6)
        path.append(points)
        levels.append(heights)
    return np.stack(path), np.stack(levels)


def _is_away(path: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether the last quarter of each chain is far from all particles."""
    late = path[-TRAJECTORIES // 4 :]
    of_path = distance_from_particles(late.reshape(-1, late.shape[-1]), points)
    away: np.ndarray = np.quantile(of_path.reshape(late.shape[:2]), 0.25, axis=0) > 1
    return away


def distance_from_particles(at: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return how far from the particles points are, above one if that is away from all of them."""
    center = points.mean(axis=0)
    factor = np.linalg.cholesky(shrink(covariance_of(points - center), 1e-6))

    def distances(of: np.ndarray) -> np.ndarray:
        squared: np.ndarray = np.square(np.linalg.solve(factor, (of - center).T)).sum(axis=0)
        return squared

    ratio: np.ndarray = distances(at) / (FAR * np.quantile(distances(points), NEARLY_ALL))
    return ratio


def _has_settled(heights: np.ndarray) -> np.ndarray:
    """Whether the log-density of each chain has ceased to rise: quarters three and four agree."""
    third, last = heights[TRAJECTORIES // 2 : -TRAJECTORIES // 4], heights[-TRAJECTORIES // 4 :]
    spread = np.maximum(last.std(axis=0), 1e-12)
    settled: np.ndarray = last.mean(axis=0) - third.mean(axis=0) < LARGEST_RISE * spread
    return settled
