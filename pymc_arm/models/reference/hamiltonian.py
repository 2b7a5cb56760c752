"""Hamiltonian moves of a set of particles, tuned by the particles themselves.

In whitened coordinates a trajectory of length pi / 2 forgets where it began if the target is
Gaussian, whatever its dimension; the step size falls with d^(-1/4) only. So a few trajectories of a
few steps make particles new. Coordinates are whitened for one half of the particles by the places
and scores of the other half: a target on the way to the posterior is no longer as wide as q. Step
size and length are adapted from one sweep to the next over all particles, with a jitter for each,
as Buchholz, Chopin and Jacob (2021) do in Sequential Monte Carlo. Sweeps are repeated until the
particles have moved: the coordinate that remembers most, and the log-density, decide, and not the
mean over coordinates.

A posterior may be much narrower in places than it is on the whole, so that no step size is right
everywhere. A trajectory that loses its energy is followed anew from its start with shorter steps,
and accepted only if the way back needs them too. That is delayed rejection (Modi, Barnett and
Carpenter, 2024), and leaves the target invariant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_arm.estimation.approximation.covariance import score_covariance

__all__ = ["MAX_AUTOCORRELATION", "Sweeps", "correlation_with_start", "draw_further", "move"]

ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# The acceptance rate aimed at: the optimum for HMC in many dimensions is 0.65 (Beskos et al.,
# 2013), and higher rates guard particles in tails.
ACCEPTANCE = 0.8
# Step size for a standard Gaussian at that rate, times d^(1/4).
STEP = 1.3
# How far step sizes of single particles vary: no particle is on a periodic orbit, and those where
# the target is narrow accept some of the time.
JITTER = (0.6, 1.1)
# Trajectory lengths; pi / 2 is a quarter of the period of a standard Gaussian.
LENGTH = (0.7, 1.2)
# The correlation with the start that is small enough, besides what noise shows: then 1 % of the
# variance is remembered. Not tuned; doubled, moves would be shorter and remember 4 %.
MAX_AUTOCORRELATION = 0.1
# Where ten sweeps are not enough, fifteen were not either: trajectories are 64 steps long by then,
# and the draws are worth few, which the verdict says (stochastic volatility, 502 dimensions).
FEWEST_SWEEPS, MOST_SWEEPS = 2, 10
MOST_STEPS = 64
# A trajectory whose energy is off by more than this, in nats, has diverged (as in Stan): it came to
# where the target is much narrower than the step.
DIVERGENT = 1000.0
# One that loses more than this is followed anew with steps that are shorter by ``SHORTER``, up to
# ``RETRIES`` times. Its probability of being accepted is nothing beside one in double precision, so
# that what is to be corrected for trying again is one or zero. The number of steps is the same:
# where a target is narrower, less far is far enough.
LOST = 40.0
SHORTER, RETRIES = 0.25, 2
# Trajectories between two draws of one particle at the end of a path.
SWEEPS_BETWEEN_DRAWS = 1
# Distinct particles in a half for each dimension, from which on a covariance is fitted to them;
# with fewer, the widths of the coordinates are.
PER_DIMENSION = 3
# How far widths may differ from those of the coordinates that are given: scores of particles in a
# tail may be anything.
WIDTHS = (0.2, 5.0)


@dataclass(frozen=True)
class Metric:
    """The factor of a covariance that whitens the target, for some of the particles.

    ``factor`` is a matrix, or the diagonal of one.
    """

    members: np.ndarray
    factor: np.ndarray

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return how points move, of momenta that are standard normal."""
        return momentum * self.factor if self.factor.ndim == 1 else momentum @ self.factor.T

    def force(self, gradients: np.ndarray) -> np.ndarray:
        """Return how momenta change."""
        return gradients * self.factor if self.factor.ndim == 1 else gradients @ self.factor

    def among(self, rows: np.ndarray) -> "Metric":
        """Return the metric where these rows, numbers of particles, are all there are."""
        return Metric(np.flatnonzero(np.isin(rows, self.members)), self.factor)


@dataclass(frozen=True)
class Sweeps:
    """The moved points with their log-densities and gradients, and how it went."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    acceptance_rate: float
    memory: float
    sweeps: int
    evaluations: int
    #: Step size and length of the trajectories, as they were tuned.
    step: float
    length: float
    metrics: tuple[Metric, ...]


def fit_metrics(
    rng: np.random.Generator, points: np.ndarray, values: np.ndarray, gradients: np.ndarray
) -> tuple[Metric, ...]:
    """Return the metric of each half of the particles, fitted to the other half.

    Copies of a particle are in the same half, so that no particle is moved by a metric that was
    fitted to it.
    """
    dimension = points.shape[1]
    _, owner = np.unique(values, return_inverse=True)
    order = rng.permutation(owner.max() + 1)
    first = (order < len(order) // 2)[owner]
    halves = [np.flatnonzero(first), np.flatnonzero(~first)]
    metrics = []
    for mine, others in (halves, halves[::-1]):
        distinct = others[np.unique(owner[others], return_index=True)[1]]
        distinct = distinct[np.isfinite(values[distinct]) & gradients[distinct].any(axis=1)]
        factor = np.ones(dimension)
        if len(distinct) > PER_DIMENSION * dimension:
            covariance = score_covariance(points[distinct], gradients[distinct])[1]
            factor = np.linalg.cholesky(covariance)
        elif len(distinct) > PER_DIMENSION:
            spread, slopes = points[distinct].std(axis=0), gradients[distinct].std(axis=0)
            factor = np.clip(np.sqrt(spread / np.maximum(slopes, 1e-12)), *WIDTHS)
        metrics.append(Metric(mine, factor))
    return tuple(metrics)


def move(
    rng: np.random.Generator,
    target: ValueAndGradient,
    points: np.ndarray,
    most: int = MOST_SWEEPS,
    retries: int = RETRIES,
    told: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Sweeps:
    """Move points by trajectories that leave the target invariant.

    Parameters
    ----------
    rng
        The source of randomness.
    target
        Returns the log-density and its gradient at points.
    points
        (size, dimension), in coordinates where the target is about as wide in each direction.
    most
        The largest number of sweeps.
    retries
        How often a trajectory that is lost is followed anew.
    told
        What is to be forgotten besides the log-density, as a function of points, (size, columns);
        by default all coordinates.
    """
    size, dimension = points.shape
    begun = points if told is None else told(points)
    start = state = _State(points, *target(points))
    metrics = fit_metrics(rng, *state)
    step, length = STEP * dimension**-0.25, np.pi / 2
    rates, evaluations, memory, number = [], size, 1.0, 0
    for number in range(1, most + 1):
        steps = _steps(rng, length, step)
        state, followed = _sweep(rng, target, state, step, steps, metrics, retries)
        evaluations += followed.evaluations
        rate, latest = followed.rate, memory
        rates.append(rate)
        reached = state.points if told is None else told(state.points)
        memory = correlation_with_start(begun, start.values, reached, state.values)
        if number >= FEWEST_SWEEPS and memory <= MAX_AUTOCORRELATION + 4 / np.sqrt(size):
            break
        # At a rate near zero the step is five times too long or more; near the aim it hardly moves.
        step *= float(np.exp(np.clip(1.5 * (rate - ACCEPTANCE), -1.2, 0.2)))
        if rate > 0.5 and number > 1 and memory > 0.6 * latest:
            # The target is wider somewhere than the coordinates say.
            length = min(1.4 * length, MOST_STEPS * step)
    rate = float(np.mean(rates))
    return Sweeps(*state, rate, memory, number, evaluations, step, length, metrics)


def draw_further(
    rng: np.random.Generator, target: ValueAndGradient, start: Sweeps, rounds: int
) -> tuple[list[np.ndarray], float]:
    """Follow moved points for more rounds, and return them after each.

    Also the share of trajectories that diverged, NaN if there were none.

    The points are draws of the target already, so that the rounds need not forget one another:
    those of one point are a short Markov chain, tuned by the moves before.
    """
    state = _State(start.points, start.values, start.gradients)
    found, divergent = [], []
    for _ in range(rounds):
        for _ in range(SWEEPS_BETWEEN_DRAWS):
            steps = _steps(rng, start.length, start.step)
            state, followed = _sweep(rng, target, state, start.step, steps, start.metrics, RETRIES)
            divergent.append(followed.divergent)
        found.append(state.points)
    return found, float(np.mean(divergent)) if divergent else np.nan


def _steps(rng: np.random.Generator, length: float, step: float) -> int:
    """Return the number of steps of trajectories of about this length."""
    return int(np.clip(np.ceil(length * rng.uniform(*LENGTH) / step), 1, MOST_STEPS))


class _State(NamedTuple):
    """Points with their log-densities and gradients."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray

    def at(self, rows: np.ndarray) -> "_State":
        """Return some of the rows."""
        return _State(*(part[rows] for part in self))

    def replace(self, rows: np.ndarray, others: "_State") -> "_State":
        """Return the rows, some of them as in others."""
        parts = [part.copy() for part in self]
        for part, other in zip(parts, others, strict=True):
            part[rows] = other
        return _State(*parts)


class _Followed(NamedTuple):
    """The acceptance rate and the share that diverged, of the longest steps; evaluations of all."""

    rate: float
    divergent: float
    evaluations: int


def _sweep(
    rng: np.random.Generator,
    target: ValueAndGradient,
    state: _State,
    step: float,
    steps: int,
    metrics: Sequence[Metric],
    retries: int,
) -> tuple[_State, _Followed]:
    """Move each point by a trajectory, of shorter steps where those of longer ones are lost.

    One of shorter steps is accepted only if longer ones are lost on the way back too: then both
    ways are tried with the same probability.
    """
    size = len(state.points)
    momentum = rng.normal(size=state.points.shape)
    step_sizes = step * rng.uniform(*JITTER, size=size)
    log_uniform = np.log(rng.random(size))
    evaluations, rate, divergent = 0, np.nan, np.nan
    lost, result = np.arange(size), state
    for tried in range(1 + retries):
        own, begin = [metric.among(lost) for metric in metrics], state.at(lost)
        sizes = SHORTER**tried * step_sizes[lost]
        end, end_momentum, log_ratio = _trajectory(target, begin, momentum[lost], sizes, steps, own)
        evaluations += len(lost) * steps
        if not tried:
            rate = float(np.mean(np.exp(np.minimum(log_ratio, 0.0))))
            divergent = float(np.mean(log_ratio < -DIVERGENT))
        accepted = np.flatnonzero(log_uniform[lost] < log_ratio)
        for earlier in range(tried):
            if not len(accepted):
                break
            back = [metric.among(lost[accepted]) for metric in metrics]
            longer = SHORTER**earlier * step_sizes[lost[accepted]]
            ratio = _trajectory(
                target, end.at(accepted), -end_momentum[accepted], longer, steps, back
            )[2]
            evaluations += len(accepted) * steps
            accepted = accepted[ratio < -LOST]
        result = result.replace(lost[accepted], end.at(accepted))
        lost = lost[log_ratio < -LOST]
        if not len(lost):
            break
    return result, _Followed(rate, divergent, evaluations)


def _trajectory(
    target: ValueAndGradient,
    state: _State,
    momentum: np.ndarray,
    step_sizes: np.ndarray,
    steps: int,
    metrics: Sequence[Metric],
) -> tuple[_State, np.ndarray, np.ndarray]:
    """Return where leapfrog steps lead, the momenta there, and the log of the Metropolis ratio."""
    points, values, gradients = state
    each = step_sizes[:, None]
    energy = values - 0.5 * (momentum**2).sum(axis=1)
    with np.errstate(all="ignore"):
        momentum = momentum + 0.5 * each * _by_half(metrics, Metric.force, gradients)
        for number in range(steps):
            points = points + each * _by_half(metrics, Metric.velocity, momentum)
            values, gradients = target(points)
            force = _by_half(metrics, Metric.force, gradients)
            momentum += (1.0 if number < steps - 1 else 0.5) * each * force
        log_ratio = values - 0.5 * (momentum**2).sum(axis=1) - energy
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    return _State(points, values, gradients), momentum, log_ratio


def _by_half(
    metrics: Sequence[Metric],
    function: Callable[[Metric, np.ndarray], np.ndarray],
    rows: np.ndarray,
) -> np.ndarray:
    """Return a function of all rows, by the metric of each."""
    result = np.empty_like(rows)
    for metric in metrics:
        result[metric.members] = function(metric, rows[metric.members])
    return result


def correlation_with_start(
    start_points: np.ndarray, start_values: np.ndarray, points: np.ndarray, values: np.ndarray
) -> float:
    """Return the largest correlation with the start, of a coordinate or of the log-density."""
    before = np.column_stack([start_points, start_values])
    after = np.column_stack([points, values])
    usable = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    if usable.sum() < 3:
        return 1.0
    before, after = before[usable], after[usable]
    before, after = before - before.mean(axis=0), after - after.mean(axis=0)
    spread = np.sqrt((before**2).sum(axis=0) * (after**2).sum(axis=0))
    return float(np.max(np.abs((before * after).sum(axis=0)) / np.maximum(spread, 1e-300)))
