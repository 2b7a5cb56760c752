"""One run of a path as a chain that can be stopped, continued and sent elsewhere.

Chains are islands: they share nothing but the compiled path, and Z-hat is averaged over them. Each
has its own random stream, spawned from one seed, so the result does not depend on where they run
(:mod:`pymc_arm.running.executors`), nor on how many run at the same time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pymc_arm.algorithm.allocation import predicted_variance
from pymc_arm.algorithm.arm import Info, Run, State, initialize, iterate
from pymc_arm.algorithm.path import Particles, Path, Position
from pymc_arm.algorithm.resampling import SCHEMES
from pymc_arm.algorithm.settings import Settings
from pymc_arm.errors import ChainError
from pymc_arm.estimation.bridge import Bridge

__all__ = [
    "Chain",
    "Journal",
    "Task",
    "Unfinished",
    "equally_weighted",
    "run_chain",
    "spawn_generators",
]


@dataclass(frozen=True)
class Chain:
    """One run with equally weighted draws from its end."""

    run: Run
    particles: Particles = field(repr=False)
    draws: dict[str, np.ndarray] = field(repr=False)
    seconds: float
    #: Which particles descend from the same one, and may be alike.
    founders: np.ndarray = field(repr=False)
    refined: Bridge | None = None

    @property
    def log_evidence(self) -> float:
        """The estimate of log Z."""
        return self.run.log_evidence

    @property
    def predicted_variance(self) -> float:
        """Theorem 1's prediction of Var(log Z-hat) from this run alone."""
        return predicted_variance(self.run.history)

    @property
    def integration_error(self) -> float:
        """How far log Z may be off because of what its integrals have not seen.

        Steps err to the same side, so their errors add up.
        """
        return float(sum(info.integration_error for info in self.run.history))

    @property
    def genealogy_variance(self) -> float:
        """The same from the founders of particles, which counts what they remember."""
        state = self.run.state
        if not self.run.history:
            return 0.0
        return np.inf if self.particles is None else state.genealogy.variance(state.log_weights)


@dataclass(frozen=True)
class Unfinished:
    """A chain after some step: all it takes to continue it to the same bits.

    The generator is the one that goes on being used, so its state belongs to the latest step.
    """

    rng: np.random.Generator = field(repr=False)
    state: State = field(repr=False)
    history: tuple[Info, ...]
    positions: tuple[Position, ...] = field(repr=False)
    seconds: float

    def after(self, state: State, info: Info, seconds: float) -> "Unfinished":
        """Return the chain one step later."""
        return Unfinished(
            self.rng,
            state,
            (*self.history, info),
            (*self.positions, state.position),
            self.seconds + seconds,
        )


@dataclass(frozen=True)
class Task:
    """What the chains of a run have in common, besides the path.

    ``deadline`` is a time of :func:`time.time`, after which no chain takes another step;
    ``journal`` is where chains write how far they have come, and begin if they find it.
    """

    particles: int
    settings: Settings
    counts: tuple[int, ...] | None = None
    deadline: float | None = None
    journal: "Journal | None" = None

    @property
    def first_count(self) -> int:
        """The number of particles to start with."""
        return self.counts[0] if self.counts else self.particles


class Journal(Protocol):
    """Where chains are written down (:mod:`pymc_arm.running.checkpoint.journal`)."""

    def load(self, number: int, path: Path) -> Chain | Unfinished | None:
        """Return the end of a chain, or as far as it has come, or None."""

    def writer(self, number: int) -> Callable[[Unfinished], None]:
        """Return a function that writes a chain's state when it is time."""

    def finish(self, number: int, chain: Chain) -> None:
        """Write the end of a chain."""


def run_chain(
    path: Path,
    task: Task,
    number: int,
    start: np.random.Generator | Unfinished,
    report: Callable[[Unfinished], bool] | None = None,
) -> Chain | Unfinished:
    """Run a chain from its beginning or from where it was left.

    Parameters
    ----------
    path, task
        What to run.
    number
        The chain's number, for errors.
    start
        The chain's generator, or the chain as far as it has come.
    report
        Called after each step; False stops the chain.

    Returns
    -------
    Chain or Unfinished
        Unfinished if it was stopped.

    Raises
    ------
    ChainError
        With the chain, the step and the variable, for whatever goes wrong in a step.
    """
    since = time.perf_counter()
    journal = task.journal
    if journal is not None and isinstance(start, np.random.Generator):
        found = journal.load(number, path)
        if isinstance(found, Chain):
            return found
        start = start if found is None else found
    write = None if journal is None else journal.writer(number)
    so_far = start if isinstance(start, Unfinished) else None
    try:
        if so_far is None:
            assert isinstance(start, np.random.Generator)
            state = initialize(path, start, task.first_count)
            so_far = Unfinished(start, state, (), (state.position,), 0.0)
        for state, info in iterate(path, so_far.rng, so_far.state, task.settings, task.counts):
            now = time.perf_counter()
            so_far, since = so_far.after(state, info, now - since), now
            if write is not None:
                write(so_far)
            if report is not None and not report(so_far):
                return so_far
            if task.deadline is not None and time.time() > task.deadline:
                return so_far
        result = Run(so_far.state, so_far.history, so_far.positions)
        final, founders = equally_weighted(
            path, so_far.rng, result.state, task.particles, task.settings
        )
        draws = {} if final is None else path.posterior(so_far.rng, final)
    except Exception as error:
        raise _explain(path, task, number, so_far, error) from error
    seconds = so_far.seconds + time.perf_counter() - since
    chain = Chain(result, final, draws, seconds, founders)
    if journal is not None:
        journal.finish(number, chain)
    return chain


def _explain(
    path: Path, task: Task, number: int, so_far: Unfinished | None, error: Exception
) -> ChainError:
    """Say in which chain, at which step and variable something went wrong."""
    step = 0 if so_far is None else len(so_far.history) + 1
    variable = "the first distribution"
    if so_far is not None:
        state = so_far.state
        try:
            if path.finished(state.position):
                variable = "the posterior draws"
            else:
                following = path.advance(
                    state.position, state.particles, state.log_weights, task.settings.threshold
                )
                variable = path.describe(following)
        except Exception:  # the step itself can't be chosen: name the one before
            variable = f"what follows {path.describe(state.position)}"
    message = (
        f"Chain {number} failed in step {step}, on {variable}: {type(error).__name__}: {error}"
    )
    return ChainError(message, number, step, variable)


def equally_weighted(
    path: Path, rng: np.random.Generator, state: State, size: int, settings: Settings
) -> tuple[Particles | None, np.ndarray]:
    """Resample the final particles, and move the copies apart.

    Returns them, or None if no particle is left, and the family that each belongs to.
    """
    founders = state.genealogy.founders
    if state.log_evidence == -np.inf:
        return None, founders[:0]
    particles, count = state.particles, path.count(state.particles)
    unequal = count != size or np.ptp(state.log_weights) > 0
    if unequal:
        indices = SCHEMES[settings.resampling](rng, state.log_weights, size)
        particles, founders = path.select(particles, indices), founders[indices]
        particles = path.move(rng, state.position, particles).particles
    elif len(np.unique(state.ancestors)) < count:
        particles = path.move(rng, state.position, particles).particles
    return particles, founders


def spawn_generators(
    random_seed: int | Sequence[int] | np.random.Generator | None, chains: int
) -> list[np.random.Generator]:
    """Return one independent generator a chain, and one more for pilot runs."""
    return np.random.default_rng(random_seed).spawn(chains + 1)
