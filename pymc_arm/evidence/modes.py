"""A search for what the particles may have missed: modes that hold mass but no particles.

Particles that never met a narrow mode can't tell that it is there, and chains then agree on a wrong
number. So after a run the log-density is climbed, from prior draws and from the particles, and the
mass of each summit is estimated by Laplace's method. A summit with a good part of Z and without its
part of the particles is a reason for doubt. So is a likelihood that is the same at every particle.
The search needs no randomness of the run, and costs a few hundred evaluations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaincinv

from pymc_arm.evidence.spaces import Refinable

__all__ = ["Summit", "find_missed"]

ITERATIONS = 120
# A climb ends when none of the points has gained this much over so many steps.
SMALLEST_GAIN = 1e-3
PATIENCE = 10
PRIOR_STARTS = 16
CLOUD_STARTS = 8
WIDER = 3.0
# Larger models are not searched: without gradients, or for the sake of the Hessian.
LARGEST_WITHOUT_GRADIENT = 20
LARGEST_DIMENSION = 60
# A summit matters if Laplace's method gives it this share of Z, and is missed if it holds next to
# none of the particles that it should. On a curved ridge the method is off by a factor of several.
SMALLEST_SHARE = 0.05
MISSED = 0.05

LogDensity = Callable[[np.ndarray], np.ndarray]


class Searchable(Refinable, Protocol):
    """What is searched: a density, and draws from the prior to start from."""

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[Any, float]:
        """Draw particles from p_1."""


@dataclass(frozen=True)
class Summit:
    """A local maximum: the log of its mass, and the shares of Z and of the particles it holds."""

    log_mass: float
    expected_share: float
    found_share: float

    @property
    def missed(self) -> bool:
        """Whether it should hold many more particles than it does."""
        expected = self.expected_share
        return bool(expected > SMALLEST_SHARE and self.found_share < MISSED * expected)


def find_missed(
    path: Searchable, cloud: np.ndarray, log_evidence: float, rng: np.random.Generator
) -> Summit | None:
    """Return the summit that was missed by the most, or None.

    Parameters
    ----------
    path
        Its :meth:`~pymc_arm.Path.log_density` is climbed.
    cloud
        The final particles of all chains, (size, dimension).
    log_evidence
        The estimate of log Z that they gave.
    rng
        For the choice of the starting points.
    """
    dimension = cloud.shape[1]
    has_gradient = path.score(cloud[:2]) is not None
    if dimension > (LARGEST_DIMENSION if has_gradient else LARGEST_WITHOUT_GRADIENT):
        return None
    prior = path.continuous(path.initialize(rng, PRIOR_STARTS)[0])
    # Some start outside of where prior draws lie: a mode in their tails has no particles either.
    outer = (
        [] if prior is None else [prior, WIDER * (prior - prior.mean(axis=0)) + prior.mean(axis=0)]
    )
    chosen = cloud[rng.permutation(len(cloud))[:CLOUD_STARTS]]
    best = cloud[np.argsort(path.log_density(cloud))[-2:]]
    parts = [chosen, best, cloud.mean(axis=0)[None], np.median(cloud, axis=0)[None]]
    starts = np.concatenate([*outer, *parts])
    scale = np.maximum(starts.std(axis=0), 1e-8)

    def gradient(points: np.ndarray) -> np.ndarray:
        scores = path.score(points)
        return _differences(path.log_density, points, 1e-5 * scale) if scores is None else scores

    with np.errstate(all="ignore"):
        points, heights = _climb(path.log_density, gradient, starts, scale)
        summits = []
        for index in _distinct(points, heights, scale):
            found = _measure(path.log_density, gradient, points[index], scale)
            if found is not None:
                summits.append(_weigh(*found, points[index], cloud, log_evidence))
    missed = [summit for summit in summits if summit.missed]
    return max(missed, key=lambda summit: summit.log_mass, default=None)


def _differences(log_density: LogDensity, points: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return central differences, for all points and coordinates in one call."""
    size, dimension = points.shape
    shifts = np.diag(step)
    both = np.concatenate([points[:, None] + shifts, points[:, None] - shifts], axis=1)
    values = log_density(both.reshape(-1, dimension)).reshape(size, 2, dimension)
    return (values[:, 0] - values[:, 1]) / (2 * step)


def _climb(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Climb from all points at once, by the signs of the gradient (Riedmiller's Rprop).

    Signs do not care for the scale of a mode, which may be a thousandth of the prior's.
    """
    points, heights = starts.copy(), log_density(starts)
    step = np.tile(0.1 * scale, (len(starts), 1))
    previous = np.zeros_like(points)
    reached = heights
    for number in range(1, ITERATIONS + 1):
        sign = np.nan_to_num(np.sign(gradient(points)))
        agreement = sign * previous
        step = np.clip(
            step * np.where(agreement > 0, 1.3, np.where(agreement < 0, 0.5, 1.0)), 1e-12, scale
        )
        new = points + step * sign
        new_heights = log_density(new)
        better = new_heights >= heights
        points = np.where(better[:, None], new, points)
        heights = np.where(better, new_heights, heights)
        step = np.where(better[:, None], step, 0.5 * step)
        previous = np.where(better[:, None], sign, 0.0)
        if number % PATIENCE == 0:
            if not np.any(heights - reached > SMALLEST_GAIN):
                break
            reached = heights
    return points, heights


def _distinct(points: np.ndarray, heights: np.ndarray, scale: np.ndarray) -> list[int]:
    """Return the highest few points that are not neighbours."""
    kept: list[int] = []
    for index in np.argsort(heights)[::-1]:
        if not np.isfinite(heights[index]) or len(kept) == 4:
            break
        gaps = [np.max(np.abs(points[index] - points[other]) / scale) for other in kept]
        if not gaps or min(gaps) > 0.05:
            kept.append(int(index))
    return kept


def _measure(
    log_density: LogDensity,
    gradient: Callable[[np.ndarray], np.ndarray],
    summit: np.ndarray,
    scale: np.ndarray,
) -> tuple[float, np.ndarray] | None:
    """Return the log of the mass by Laplace's method, and the precision; None if none is."""
    dimension = len(summit)
    height = log_density(summit[None])[0]
    step = 1e-3 * scale
    for _ in range(40):  # to where the density falls by a few percent
        ends = np.concatenate([summit + np.diag(step), summit - np.diag(step)])
        drop = (height - log_density(ends)).reshape(2, dimension).mean(axis=0)
        step = np.where(drop > 0.1, 0.5 * step, np.where(drop < 0.01, 1.7 * step, step))
        if np.all((drop >= 0.01) & (drop <= 0.1)):
            break
    ends = np.concatenate([summit + np.diag(step), summit - np.diag(step)])
    slopes = gradient(ends).reshape(2, dimension, dimension)
    precision = -(slopes[0] - slopes[1]) / (2 * step[:, None])
    precision = 0.5 * (precision + precision.T)
    if not np.isfinite(precision).all():
        return None
    values = np.linalg.eigvalsh(precision)
    if values[0] <= 0:
        return None
    log_mass = height + 0.5 * dimension * np.log(2 * np.pi) - 0.5 * np.log(values).sum()
    return float(log_mass), precision


def _weigh(
    log_mass: float,
    precision: np.ndarray,
    summit: np.ndarray,
    cloud: np.ndarray,
    log_evidence: float,
) -> Summit:
    """Compare the share of Z that a summit should have with its share of the particles."""
    centered = cloud - summit
    distances = np.einsum("si,ij,sj->s", centered, precision, centered)
    # Within 99 % of a Gaussian: the quantile of chi-squared.
    found = float(np.mean(distances < 2 * gammaincinv(0.5 * len(summit), 0.99)))
    expected = float(np.exp(log_mass - np.logaddexp(log_mass, log_evidence)))
    # A summit that is all of Z has as much mass as Z itself, not in addition to it.
    if found > 0:
        expected = min(1.0, float(np.exp(min(log_mass - log_evidence, 0.0))))
    return Summit(log_mass, expected, found)
