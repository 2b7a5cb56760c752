"""Resample-Move and Adaptive Resample-Move: the paper's Algorithms 1 and 2, over any path.

:func:`step` is one pass of the loop, with the paper's line numbers; :func:`generate` is what
Algorithm 2 adds. In Algorithm 2 the move of line 3 is part of the generate loop: particles are
smoothed as they are, and only if their effective fraction gamma is below the threshold are they
moved, collected in chi and smoothed again. After i rounds there are R_n = iR particles.

======================  ==========================================================================
in the code             in the paper
======================  ==========================================================================
``n``, ``following``    n and n + 1
``particles``           x_[n], the particles
``log_weights``         log w_n, or log w_{n+1} from line 4 on
``size``                R, the number of particles that a step leaves with
``chi``                 chi_[n], the expanded set: ``len(chi)`` is R_n, ``chi.log_weights`` log rho
``chi.log_ratio``       log W of each particle: what the smooth step returns
``chi.reweighted``      log w_{n+1} = log W + log rho
``gamma``, ``i``        gamma^(i) = R_eff / R_n, and i, the number of rounds
``settings.threshold``  gamma_thr; ``settings.max_rounds`` is i_max
======================  ==========================================================================

What is known of a step besides, for plots and diagnostics, follows from what it did:
:class:`pymc_arm.algorithm.record.StepRecord`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pymc_arm.algorithm.generators import Generator, Transition, anticipate, reseed
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.record import StepRecord
from pymc_arm.algorithm.resampling import SCHEMES, log_sum_exp, normalize
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Batch, Info, ParticleSet, Run, State
from pymc_arm.arguments import check_count
from pymc_arm.errors import PathError, ZeroEvidenceWarning

__all__ = ["Info", "Run", "State", "generate", "initialize", "iterate", "run", "step"]


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
    return State.first(path.start, first, equal, float(log_evidence))


def step(
    path: Path,
    rng: np.random.Generator,
    state: State,
    settings: Settings,
    size: int | None = None,
) -> tuple[State, Info]:
    """Go from p_n to p_{n+1}: one pass of the loop of Algorithms 1 and 2 (lines 3 to 11).

    ``size`` is R, the number of particles to leave with, by default as many as came in.
    """
    n, particles, log_weights = state.position, state.particles, state.log_weights
    size = len(log_weights) if size is None else size
    moved = None
    if settings.variant == "rm" or (settings.move == "always" and state.has_copies):
        moved = path.move(rng, n, particles)  # 3: move
        particles = moved.particles

    following = path.advance(n, particles, log_weights, settings.threshold)  # n + 1
    smoothed = path.smooth(rng, following, particles)  # 4: smooth
    base = Batch.of(particles, log_weights, smoothed)
    chi, i = generate(Transition(path, rng, n, following, settings), base)  # Algorithm 2: generate
    record = StepRecord(state, moved, base.effective_fraction, chi, i)

    gamma, log_weights = chi.effective_fraction, chi.reweighted
    log_increment = log_sum_exp(log_weights)  # 5: log Z := log Z + log sum w_{n+1}
    _refuse_infinite(log_increment, path.describe(following), "smooth")
    particles, proposal = chi.join(path)
    if log_increment > -np.inf:
        log_weights = log_weights - log_increment  # 6: normalize
        record = record.integrated(path.integration_error(proposal, log_weights))
        if gamma < settings.minimum_fraction or len(chi) != size:  # 7: gamma < gamma_thr, R_n > R
            indices = SCHEMES[settings.resampling](rng, log_weights, size)
            record = record.resampled(indices, settings.resampling)
            particles = path.select(particles, indices)  # 8: resample
            proposal = path.select(proposal, indices)
            log_weights = np.full(size, -np.log(size))  # 9
        particles, correction = path.augment(rng, following, particles, proposal)  # 11: augment
        record = record.augmented(log_weights, correction)
        log_weights = log_weights + correction
        log_increment += log_sum_exp(log_weights)  # zero where the draw was exact
        _refuse_infinite(log_increment, path.describe(following), "augment")
    if log_increment > -np.inf:
        log_weights = normalize(log_weights)
    else:
        _warn_of_no_mass(path.describe(following))
    return record.end(path, following, particles, log_weights, log_increment)


def generate(step: Transition, base: Batch) -> tuple[ParticleSet, int]:
    """Expand the particle set while gamma < gamma_thr: what Algorithm 2 adds after line 4.

    Returns chi, and i, the number of rounds. In Algorithm 1, and where gamma^(0) is large enough,
    chi is the set as it came.
    """
    settings = step.settings
    chi, i = ParticleSet((base,)), 0
    gamma = chi.effective_fraction  # gamma^(0)
    if settings.variant == "rm" or not gamma < settings.threshold or not settings.max_rounds:
        return chi, i
    if settings.variant != "reseed":  # reseeded particles join the old ones
        chi = ParticleSet()  # chi := {}, rho := {}
    new_particles = GENERATORS[settings.variant]
    while gamma < settings.threshold and i < settings.max_rounds:
        batch, base = new_particles(step, base, gamma)
        chi = chi.include(batch)  # chi := (chi, x), rho := (R_n rho, R w) / (R_n + R)
        gamma = chi.effective_fraction  # with w_{n+1} := W(chi) rho
        i += 1
    return chi, i


def move_again(step: Transition, base: Batch, gamma: float) -> tuple[Batch, Batch]:
    """Move the set once more, and smooth it: how Algorithm 2 makes new particles.

    The next round goes on from where this one ends.
    """
    path, count = step.path, len(base)
    moved = path.move(step.rng, step.n, base.particles)  # x_[n] ~ K(x_[n]; x_[n])
    smoothed = path.smooth(step.rng, step.following, moved.particles)
    batch = Batch.moved(moved, base.log_weights, smoothed, np.arange(count))
    return batch, batch


GENERATORS: dict[str, Generator] = {
    "arm": move_again,
    "anticipate": anticipate,
    "reseed": reseed,
}


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
        R_1, ..., R_{N-1}, if the numbers of particles are known beforehand (Theorem 1). Each step
        then resamples to the next number, and ``particles`` is ignored.
    report
        Called with the :class:`Info` of each step.
    **settings
        The fields of :class:`Settings`.

    Returns
    -------
    Run
        With ``log_evidence``, the final ``state`` and the ``history`` of the steps.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm import run
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> found = run(path, np.random.default_rng(1), particles=2000)
    >>> bool(abs(found.log_evidence - path.exact_log_evidence) < 0.1), len(found.history)
    (True, 2)
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


def _refuse_infinite(log_increment: float, name: str, operation: str) -> None:
    if not log_increment < np.inf:
        raise PathError(
            f"The density is infinite, or not a number, in the step that introduces {name} (its "
            f"{operation} returned NaN or +inf). Look there for a scale that can be zero, or a "
            "value outside of the support."
        )


def _warn_of_no_mass(name: str) -> None:
    warnings.warn(
        f"No particle has positive weight after introducing {name}: the estimate of log Z is "
        "-inf. The data are impossible under the model, or more particles are needed.",
        ZeroEvidenceWarning,
        stacklevel=3,
    )
