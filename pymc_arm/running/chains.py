"""One run of a path as a chain that can be stopped, continued and sent elsewhere.

Chains are independent: they share nothing but the compiled path, and Z-hat is averaged over them.
Each has its own random stream, spawned from one seed, so the result does not depend on where they
run (:mod:`pymc_arm.running.executors`), nor on how many run at the same time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pymc_arm.algorithm.allocation import predicted_variance
from pymc_arm.algorithm.arm import Info, Run, State, initialize, iterate
from pymc_arm.algorithm.path import Particles, Path, Position
from pymc_arm.algorithm.resampling import SCHEMES
from pymc_arm.algorithm.settings import Settings
from pymc_arm.deadline import Deadline, OutOfTimeError, keep_deadline
from pymc_arm.errors import ChainError
from pymc_arm.estimation.bridge import Bridge

__all__ = [
    "Chain",
    "ChainStore",
    "DrawsFurther",
    "FinalDraws",
    "FurtherDraws",
    "Task",
    "Unfinished",
    "equally_weighted",
    "run_chain",
    "spawn_generators",
]


# Up to this share of copies among resampled particles is left as it is: a move costs an evaluation
# or more for each particle, and draws lose no more of their number than that.
FEW_COPIES = 0.05


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
    #: The share of the last trajectories that lost their energy, if there were any.
    divergent: float = np.nan
    #: The draws as they were before random images of them were taken, where those are symmetric.
    representatives: dict[str, np.ndarray] | None = field(default=None, repr=False)

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

    After the ``deadline`` no chain takes another step; ``journal`` is where chains write how far
    they have come, and begin if they find it.
    """

    particles: int
    settings: Settings
    counts: tuple[int, ...] | None = None
    deadline: Deadline | None = None
    journal: "ChainStore | None" = None

    def first_count(self, path: Path) -> int:
        """Return the number of particles to start with."""
        if self.counts:
            return self.counts[0]
        return (
            path.count_particles(self.particles)
            if isinstance(path, DrawsFurther)
            else self.particles
        )


class FurtherDraws(NamedTuple):
    """What particles of the last distribution become as they are moved on.

    ``rounds`` are the particles after each round; ``forgot`` is whether they forgot where they
    began before the first of them: then two particles of one family are two draws. ``divergent`` is
    the share of trajectories that lost their energy, if there were any.
    """

    rounds: Sequence[Particles]
    forgot: bool
    divergent: float = np.nan


class FinalDraws(NamedTuple):
    """Equally weighted particles, or None if none is left, their families, and divergences."""

    particles: Particles | None
    founders: np.ndarray
    divergent: float = np.nan


@runtime_checkable
class DrawsFurther(Protocol):
    """A path that few particles explore: at its end they are moved on, and make many draws."""

    def count_particles(self, draws: int) -> int:
        """Return how many particles are to explore, for so many draws at the end."""

    def draw_further(
        self, rng: np.random.Generator, n: Any, particles: Any, rounds: int
    ) -> FurtherDraws:
        """Move particles of the last distribution on, for so many rounds."""


class ChainStore(Protocol):
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
) -> Chain | Unfinished | None:
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
        Unfinished if it was stopped, None if the deadline ended it in the middle of a step.

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
        with keep_deadline(task.deadline):
            if so_far is None:
                assert isinstance(start, np.random.Generator)
                state = initialize(path, start, task.first_count(path))
                so_far = Unfinished(start, state, (), (state.position,), 0.0)
            for state, info in iterate(path, so_far.rng, so_far.state, task.settings, task.counts):
                now = time.perf_counter()
                so_far, since = so_far.after(state, info, now - since), now
                if write is not None:
                    write(so_far)
                if report is not None and not report(so_far):
                    return so_far
                if task.deadline is not None and task.deadline.passed:
                    return so_far
            result = Run(so_far.state, so_far.history, so_far.positions)
            ended = equally_weighted(path, so_far.rng, result.state, task.particles, task.settings)
            draws = {} if ended.particles is None else path.posterior(so_far.rng, ended.particles)
    except OutOfTimeError:
        return None
    except Exception as error:
        raise _explain(path, task, number, so_far, error) from error
    seconds = so_far.seconds + time.perf_counter() - since
    chain = Chain(
        result, ended.particles, draws, seconds, ended.founders, divergent=ended.divergent
    )
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
) -> FinalDraws:
    """Resample the final particles, and move copies apart if there are more than a few."""
    founders = state.genealogy.founders
    if state.log_evidence == -np.inf:
        return FinalDraws(None, founders[:0])
    particles, count = state.particles, path.count(state.particles)
    if isinstance(path, DrawsFurther) and count < size:
        return _draw_further(path, rng, state, size, settings)
    unequal = count != size or np.ptp(state.log_weights) > 0
    if unequal:
        indices = SCHEMES[settings.resampling](rng, state.log_weights, size)
        particles, founders = path.select(particles, indices), founders[indices]
        distinct = len(np.unique(state.ancestors[indices]))
        if distinct < (1 - FEW_COPIES) * size:
            particles = path.move(rng, state.position, particles).particles
    elif len(np.unique(state.ancestors)) < count:
        particles = path.move(rng, state.position, particles).particles
    return FinalDraws(particles, founders)


def _draw_further(
    path: Any, rng: np.random.Generator, state: State, size: int, settings: Settings
) -> FinalDraws:
    """Return the draws that few particles make, those of one particle next to each other.

    So what measures the autocorrelation of draws sees that they are a Markov chain.
    """
    particles, founders = state.particles, state.genealogy.founders
    count = path.count(particles)
    if np.ptp(state.log_weights) > 0:
        indices = SCHEMES[settings.resampling](rng, state.log_weights, count)
        particles, founders = path.select(particles, indices), founders[indices]
    rounds = -(-size // count)
    further = path.draw_further(rng, state.position, particles, rounds)
    together = path.join(list(further.rounds))
    founders = np.arange(count) if further.forgot else founders
    by_particle = np.arange(rounds * count).reshape(rounds, count).T.ravel()
    chosen = by_particle[by_particle < size]  # those of the last round that are too many are left
    return FinalDraws(path.select(together, chosen), founders[chosen % count], further.divergent)


def spawn_generators(
    random_seed: int | Sequence[int] | np.random.Generator | None, chains: int
) -> list[np.random.Generator]:
    """Return one independent generator a chain, and one more for pilot runs."""
    return np.random.default_rng(random_seed).spawn(chains + 1)
