"""The mass of a mode of the posterior, compared with its share of the particles.

Laplace's method gives the mass of a mode, and draws of a density around it correct that where it is
off. A mode with a good part of Z and without its part of the particles is missed.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.approximation.covariance import shrink
from pymc_arm.estimation.starts import LogDensity
from pymc_arm.estimation.trajectories import distance_from_particles

__all__ = [
    "Mode",
    "squared_distances",
    "weigh",
    "weigh_again",
    "weigh_settled",
    "weigh_together",
]

# A mode matters if Laplace's method gives it this share of Z, and is missed if it holds next to
# none of the particles that it should. On a curved ridge the method is off by a factor of several;
# what is missed is weighed by draws of q, so that a mode too many costs time and no precision.
SMALLEST_SHARE = 0.01
MISSED = 0.05
# One that alone should have so many times the Z that was found lacks particles if it holds a
# smaller share than this: a few that met a mode late, of 90 % of Z, held 17 %.
EXCESS = 3.0
LACKING = 0.3
# Where several modes together have so much more than the Z that was found, in nats, those with
# less than half of their share of the particles lack them too: three modes in five dimensions held
# 10, 56 and 33 % for 40, 39 and 21 %, and log Z-hat was 0.52 low.
TOGETHER = 0.2
HALF = 0.5
# The component of q at a mode is a little wider than Laplace's Gaussian, and has heavier tails:
# too wide by a tenth costs a tenth of the draws in ten dimensions, too narrow has no bound.
INFLATION = 1.1
SETTLED_DRAWS = 1000
FREEDOM = 10.0


@dataclass(frozen=True)
class Mode:
    """A local maximum: the log of its mass, and the shares of Z and of the particles it holds.

    ``component`` is a density around it, in the space that was searched, and ``log_excess`` how far
    its mass alone is above the estimate of Z. ``lacking`` says that it holds too few particles by
    the masses of all modes together.
    """

    log_mass: float
    expected_share: float
    found_share: float
    component: SinhArcsinhStudent = field(repr=False, compare=False)
    log_excess: float = 0.0
    lacking: bool = False

    @property
    def missed(self) -> bool:
        """Whether it should hold many more particles than it does."""
        return self.lacking or self.starved

    @property
    def starved(self) -> bool:
        """Whether it holds next to none, or far too few by its own mass alone."""
        expected = self.expected_share
        least = LACKING if self.log_excess > np.log(EXCESS) else MISSED
        return bool(expected > SMALLEST_SHARE and self.found_share < least * expected)

    @property
    def lacks(self) -> bool:
        """Whether it is missed although it holds some particles."""
        return self.missed and self.found_share > 0


def weigh(
    log_mass: float,
    mode: np.ndarray,
    precision: np.ndarray,
    points: np.ndarray,
    log_evidence: float,
) -> Mode:
    """Compare the share of Z that a mode should have with its share of the particles."""
    # Within 99 % of a Gaussian: the quantile of chi-squared.
    radius = 2 * scipy.special.gammaincinv(0.5 * len(mode), 0.99)
    found = float(np.mean(squared_distances(points, mode, precision) < radius))
    expected = float(np.exp(log_mass - np.logaddexp(log_mass, log_evidence)))
    # A mode that is all of Z has as much mass as Z itself, not in addition to it.
    if found > 0:
        expected = min(1.0, float(np.exp(min(log_mass - log_evidence, 0.0))))
    excess = log_mass - log_evidence
    return Mode(log_mass, expected, found, _component(mode, precision), excess)


def weigh_again(
    mode: Mode, log_density: LogDensity, log_evidence: float, rng: np.random.Generator
) -> Mode:
    """Return a mode with its mass by importance, if that is smaller than Laplace's.

    On a closed ridge, a ring say, Laplace's method goes on along the tangent, and finds many times
    Z. The mean of f / q over draws of the component is not above Z but by chance.
    """
    draws = mode.component.draw(rng, SETTLED_DRAWS)
    by_draws = log_mean_exp(log_density(draws) - mode.component.log_density(draws))
    log_mass = min(mode.log_mass, float(by_draws))
    expected = min(1.0, float(np.exp(min(log_mass - log_evidence, 0.0))))
    return replace(
        mode, log_mass=log_mass, expected_share=expected, log_excess=log_mass - log_evidence
    )


def weigh_together(
    modes: list[Mode], log_density: LogDensity, log_evidence: float, rng: np.random.Generator
) -> list[Mode]:
    """Compare the shares of several modes with those of their masses, if these add up to more."""

    def total() -> float:
        return float(np.logaddexp.reduce([mode.log_mass for mode in modes]))

    if len(modes) < 2 or not total() > log_evidence + TOGETHER:
        return modes
    modes = [weigh_again(mode, log_density, log_evidence, rng) for mode in modes]
    excess = total()
    if not excess > log_evidence + TOGETHER:
        return modes
    shares = [float(np.exp(mode.log_mass - excess)) for mode in modes]
    return [
        replace(mode, lacking=share > SMALLEST_SHARE and mode.found_share < HALF * share)
        for mode, share in zip(modes, shares, strict=True)
    ]


def weigh_settled(
    component: SinhArcsinhStudent,
    points: np.ndarray,
    log_density: LogDensity,
    log_evidence: float,
    rng: np.random.Generator,
) -> Mode:
    """Return a part of the posterior where trajectories have settled, with its mass by importance.

    Only what is away from the particles counts: trajectories that have settled on both sides of
    them give a density that covers them too.
    """
    draws = component.draw(rng, SETTLED_DRAWS)
    ratio = log_density(draws) - component.log_density(draws)
    ratio = np.where(distance_from_particles(draws, points) > 1, ratio, -np.inf)
    log_mass = float(log_mean_exp(ratio))
    expected = float(np.exp(log_mass - np.logaddexp(log_mass, log_evidence)))
    return Mode(log_mass, expected, 0.0, component)


def _component(mode: np.ndarray, precision: np.ndarray) -> SinhArcsinhStudent:
    """Return a Student-t around a mode, a little wider than Laplace's Gaussian."""
    dimension = len(mode)
    covariance = np.linalg.inv(precision)
    covariance = shrink(0.5 * (covariance + covariance.T), 0.0)
    try:
        factor = INFLATION * np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # a ridge that rounding has flattened: widths alone
        factor = np.diag(INFLATION / np.sqrt(np.diag(precision)))
    zeros, ones = np.zeros(dimension), np.ones(dimension)
    # Without skew and with tails as they are, coordinates are centred at the mode, and not bent.
    return SinhArcsinhStudent(mode, ones, zeros, ones, zeros, factor, FREEDOM)


def squared_distances(points: np.ndarray, mode: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return squared Mahalanobis distances from a mode."""
    centered = points - mode
    squared: np.ndarray = np.einsum("si,si->s", centered @ precision, centered)
    return squared
