r"""Grids of inverse temperatures: linear, geometric, and by the rule of appendix B.

Two neighbours on the grid should overlap: the change of the mean energy
M(beta) = E_beta[d log f / d beta] should be of the order of its fluctuations. On a geometric path
dM / d beta = V(beta), the variance of the energy, so that

    Delta beta ~ 1 / V(beta)^{1/2}.

A pilot run measures V along the path, and the grid takes equal steps of
Lambda(beta) = \int_0^beta V^{1/2}. Since it is fixed before the runs that are counted, their
Z-hat stays unbiased.
"""

from typing import Any

import numpy as np

from benchmarks.baselines.annealing import Annealing
from pymc_arm.algorithm.resampling import effective_sample_size, normalize, residual
from pymc_arm.arguments import check_count

__all__ = ["adaptive", "check_schedule", "geometric", "linear"]

# The pilot takes steps of this much Lambda, and resamples below this effective fraction.
PILOT_STEP = 0.5
PILOT_FRACTION = 0.5
MOST_STEPS = 100_000


def linear(temperatures: int) -> np.ndarray:
    """Return equal steps from 0 to 1.

    Examples
    --------
    >>> from benchmarks.baselines import linear
    >>> linear(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_count("temperatures", temperatures)
    return np.linspace(0, 1, temperatures + 1)


def geometric(temperatures: int, smallest: float = 1e-4) -> np.ndarray:
    """Return 0, and a geometric progression from ``smallest`` to 1.

    Examples
    --------
    >>> from benchmarks.baselines import geometric
    >>> geometric(3, 0.01).round(6).tolist()
    [0.0, 0.01, 0.1, 1.0]
    """
    check_count("temperatures", temperatures)
    if not 0 < smallest < 1:
        raise ValueError(f"smallest={smallest} must lie between 0 and 1.")
    if temperatures == 1:
        return np.array([0.0, 1.0])
    grid = np.concatenate([[0.0], np.geomspace(smallest, 1.0, temperatures)])
    grid[-1] = 1.0
    return grid


def adaptive(
    path: Annealing,
    temperatures: int | None,
    rng: np.random.Generator,
    particles: int = 200,
) -> np.ndarray:
    """Return the grid with Delta beta in proportion to V(beta)^(-1/2), as a pilot run has it.

    Parameters
    ----------
    path
        The path.
    temperatures
        The number of steps; None for Delta beta = V(beta)^(-1/2) itself.
    rng
        Randomness of the pilot.
    particles
        Particles of the pilot, which resamples and moves as it goes.
    """
    if temperatures is not None:
        check_count("temperatures", temperatures)
    cloud, _ = path.draw_base(rng, particles)
    log_weights = np.full(particles, -np.log(particles))
    betas, deviations = [0.0], [_deviation(path, cloud, log_weights, 0.0)]
    while betas[-1] < 1:
        if len(betas) > MOST_STEPS:
            raise ValueError(
                f"The pilot of the adaptive schedule is at beta = {betas[-1]:.3g} after "
                f"{MOST_STEPS} steps: its energy varies by {deviations[-1]:.3g}. Give a schedule, "
                "or a base that is closer to the target."
            )
        new = min(1.0, betas[-1] + PILOT_STEP / max(deviations[-1], PILOT_STEP))
        ratio, cloud = path.log_ratio(cloud, betas[-1], new)
        log_weights = normalize(log_weights + ratio)
        if effective_sample_size(log_weights) < PILOT_FRACTION * particles:
            cloud = path.select(cloud, residual(rng, log_weights, particles))
            log_weights = np.full(particles, -np.log(particles))
        cloud = path.transition(rng, new, cloud).particles
        betas.append(new)
        deviations.append(_deviation(path, cloud, log_weights, new))
    lengths = np.diff(betas) * (np.array(deviations[1:]) + np.array(deviations[:-1])) / 2
    # A stretch on which the energy is constant still has to be crossed.
    travelled = np.concatenate([[0.0], np.cumsum(np.maximum(lengths, 1e-12))])
    steps = max(1, int(np.ceil(travelled[-1]))) if temperatures is None else temperatures
    grid = np.interp(np.linspace(0, travelled[-1], steps + 1), travelled, betas)
    grid[0], grid[-1] = 0.0, 1.0
    return grid


def check_schedule(betas: Any) -> np.ndarray:
    """Return a grid that the user gave, or say what is wrong with it."""
    grid = np.asarray(betas, dtype=float)
    if grid.ndim != 1 or len(grid) < 2 or grid[0] != 0 or grid[-1] != 1:
        raise ValueError(
            f"schedule has shape {grid.shape}: a vector is needed that starts at 0 and ends at 1."
        )
    falling = np.flatnonzero(~(np.diff(grid) > 0))
    if len(falling):
        place = int(falling[0])
        raise ValueError(
            f"schedule[{place + 1}] is {grid[place + 1]} after {grid[place]}: it must increase."
        )
    return grid


def _deviation(path: Annealing, cloud: Any, log_weights: np.ndarray, beta: float) -> float:
    """Return V(beta)^(1/2) under weighted particles."""
    energy = path.energy(cloud, beta)
    weights = np.exp(log_weights)
    mean = weights @ energy
    return float(np.sqrt(weights @ (energy - mean) ** 2))
