"""Resample-Move and Adaptive Resample-Move: the paper's Algorithms 1 and 2, over any path.

:func:`step` is one pass of the loop, with the paper's names for its parts. The generate loop that
Algorithm 2 adds is in :mod:`pymc_arm.algorithm.generators`. State and info are immutable, and
randomness is an argument, so that a run can be inspected, stopped and continued.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.generators import Base, generate
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.resampling import (
    SCHEMES,
    effective_sample_size,
    log_sum_exp,
    normalize,
    variance_of_mean,
)
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.arguments import check_count
from pymc_arm.errors import PathError, ZeroEvidenceWarning

__all__ = ["Info", "Run", "State", "initialize", "iterate", "run", "step"]

INFINITE = (
    "The density is infinite, or not a number, in the step that introduces {name} (its {operation} "
    "returned NaN or +inf). Look there for a scale that can be zero, or a value outside of the "
    "support."
)


def initialize(path: Path, rng: np.random.Generator, particles: int) -> State:
    """Draw R particles from p_1 with equal weights; log Z := log Z_1 (Algorithm 1, line 1)."""
    check_count("particles", particles)
    first, log_evidence = path.initialize(rng, particles)
    if not log_evidence < np.inf:
        raise PathError(
            f"log Z_1 is {log_evidence}: {type(path).__name__}.initialize must return the log of "
            "the exact mass of the first distribution, a number or -inf."
        )
    if log_evidence == -np.inf:
        warnings.warn(
            "The first distribution has no mass, so log Z is -inf: the data that come in with it "
            "are impossible under the model.",
            ZeroEvidenceWarning,
            stacklevel=2,
        )
    equal = np.full(particles, -np.log(particles))
    numbers = np.arange(particles)
    genealogy = Genealogy.of(particles)
    return State(path.start, first, equal, float(log_evidence), numbers, genealogy)


def step(
    path: Path,
    rng: np.random.Generator,
    state: State,
    settings: Settings,
    size: int | None = None,
) -> tuple[State, Info]:
    """Go from p_n to p_{n+1}: one pass of the loop of Algorithms 1 and 2 (lines 3 to 11).

    ``size`` is the number of particles to leave with, by default as many as came in.
    """
    n, particles = state.position, state.particles
    count = path.count(particles)
    size = count if size is None else size
    acceptance, autocorrelation, kernel_calls = np.nan, np.nan, 0
    ancestors = state.ancestors

    if settings.variant == "rm" or (settings.move == "always" and _has_copies(ancestors)):
        particles, acceptance, autocorrelation = path.move(rng, n, particles)  # line 3: move
        kernel_calls, ancestors = count, np.arange(count)

    following = path.advance(n, particles, state.log_weights, settings.threshold)
    name = path.describe(following)
    smoothed = path.smooth(rng, following, particles)  # line 4: smooth
    base = Base(n, following, particles, state.log_weights)
    generated = generate(path, rng, base, smoothed, settings)  # Algorithm 2: generate
    log_weights = generated.log_ratio + generated.log_weights
    log_increment = log_sum_exp(log_weights)  # line 5
    if not log_increment < np.inf:
        raise PathError(INFINITE.format(name=name, operation="smooth"))
    total = len(log_weights)
    fraction = effective_sample_size(log_weights) / total
    log_weights = log_weights - (log_increment if log_increment > -np.inf else 0.0)  # line 6

    particles, proposal = generated.particles, generated.proposal
    distinct_fraction = len(np.unique(ancestors)) / count
    kept = generated.unmoved
    ancestors = np.concatenate([ancestors[:kept], ancestors.max() + 1 + np.arange(total - kept)])
    genealogy = state.genealogy.extend(generated.origins)
    possible = log_increment > -np.inf
    resampled = possible and (fraction < settings.minimum_fraction or total != size)  # line 7
    if resampled:  # lines 8 and 9: resample
        indices = SCHEMES[settings.resampling](rng, log_weights, size)
        particles, proposal = path.select(particles, indices), path.select(proposal, indices)
        genealogy = genealogy.resample(log_weights, indices, settings.resampling)
        ancestors = ancestors[indices]
        log_weights = np.full(size, -np.log(size))

    predicted_variance = generated.predicted_variance
    if possible:
        particles, correction = path.augment(rng, following, particles, proposal)  # line 11
        predicted_variance += variance_of_mean(log_weights, correction)
        log_weights = log_weights + correction
        log_increment += log_sum_exp(log_weights)  # zero where the draw was exact
    if not log_increment < np.inf:
        raise PathError(INFINITE.format(name=name, operation="augment"))
    if log_increment == -np.inf:
        warnings.warn(
            f"No particle has positive weight after introducing {name}: the estimate of log Z is "
            "-inf. The data are impossible under the model, or more particles are needed.",
            ZeroEvidenceWarning,
            stacklevel=2,
        )
    else:
        log_weights = normalize(log_weights)
    log_evidence = state.log_evidence + log_increment
    observations, observed = path.observations(following)
    info = Info(
        introduced=name,
        effective_fraction=fraction,
        first_effective_fraction=generated.first_effective_fraction,
        particles=total,
        rounds=generated.rounds,
        log_increment=log_increment,
        increment_variance=generated.increment_variance,
        predicted_variance=predicted_variance,
        log_evidence=log_evidence,
        acceptance_rate=generated.acceptance_rate if generated.rounds else acceptance,
        autocorrelation=generated.autocorrelation if generated.rounds else autocorrelation,
        kernel_calls=kernel_calls + generated.kernel_calls,
        resampled=resampled,
        distinct_fraction=distinct_fraction,
        observations=observations,
        observed=observed,
    )
    return State(
        following, particles, log_weights, log_evidence, ancestors, genealogy, state.step + 1
    ), info


def iterate(
    path: Path,
    rng: np.random.Generator,
    state: State,
    settings: Settings,
    counts: Sequence[int] | None = None,
) -> Iterator[tuple[State, Info]]:
    """Yield state and info after each step, until p_N, or until no particle is left.

    ``counts`` are R_1, ..., R_{N-1}, if they are to differ; the last one is kept to the end.
    """
    while not path.finished(state.position) and state.log_evidence > -np.inf:
        size = None if counts is None else int(counts[min(state.step + 1, len(counts) - 1)])
        state, info = step(path, rng, state, settings, size)
        yield state, info


def run(
    path: Path,
    rng: np.random.Generator,
    particles: int = 1000,
    *,
    counts: Sequence[int] | None = None,
    report: Callable[[Info], None] | None = None,
    **settings: Any,
) -> Run:
    """Run Algorithm 1 or 2 on a path, from p_1 to p_N.

    Parameters
    ----------
    path
        The sequence of distributions.
    rng
        The source of all randomness.
    particles
        R, the number of particles.
    counts
        R_1, ..., R_{N-1}, when they are to differ and are known (Theorem 1); each step then
        resamples to the next size. ``particles`` is ignored.
    report
        Called with the :class:`Info` of each step.
    **settings
        The fields of :class:`Settings`.

    Returns
    -------
    Run
        With ``log_evidence``, the final ``state`` and the ``history`` of the steps.
    """
    config = Settings.of(settings)
    start = particles if counts is None or len(counts) == 0 else int(counts[0])
    latest = initialize(path, rng, start)
    history, positions = [], [latest.position]
    for state, info in iterate(path, rng, latest, config, counts):
        latest = state
        history.append(info)
        positions.append(state.position)
        if report is not None:
            report(info)
    return Run(latest, tuple(history), tuple(positions))


def _has_copies(ancestors: np.ndarray) -> bool:
    """Whether some particle has stood unmoved since it was copied."""
    return len(np.unique(ancestors)) < len(ancestors)
