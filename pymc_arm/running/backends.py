"""Where the chains of a run run: here, on threads, in processes, or on any executor.

Small runs stay in this process. Paths whose work is done under the interpreter's lock go to forked
processes, which share the compiled path with this one and start in some tens of milliseconds; where
there is no fork new interpreters help (:mod:`pymc_arm.running.spawned`). Everything else runs on
threads (:mod:`pymc_arm.running.placement`). Any :class:`concurrent.futures.Executor` can take their
place (:mod:`pymc_arm.running.executors`).

A chain depends on its own generator alone, so that the same seed gives the same bits everywhere.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ChainError
from pymc_arm.running.chains import Chain, Task, Unfinished
from pymc_arm.running.executors import attempt, collect_chains, gather, submit_chains
from pymc_arm.running.forked import Outcome, Starts, can_fork, run_forked
from pymc_arm.running.placement import Placement, Preparable, placement_of
from pymc_arm.running.processors import available_cores, one_blas_thread
from pymc_arm.running.progress import ChainProgress
from pymc_arm.running.spawned import can_spawn, run_spawned

__all__ = ["Request", "Runner", "make_runner", "run_chains"]

# Runs that take less than this, in seconds, are over before processes would have started.
SECONDS_BEFORE_FORK = 0.3


@dataclass(frozen=True)
class Request:
    """Chains that a run can't go on without.

    ``generators`` has one for each chain, and ``first`` is the number of the first. ``recipe``
    makes the path anew in processes that have no copy of it; by default it is sent itself.
    """

    path: Path
    task: Task
    generators: Sequence[np.random.Generator]
    first: int = 0
    recipe: Callable[[], Path] | None = None

    @property
    def starts(self) -> Starts:
        """The generator of each chain, by its number."""
        return dict(enumerate(self.generators, start=self.first))


# Runs chains, and returns them in order, with None for those that the deadline ended.
Runner = Callable[[Request], list[Chain | None]]


def make_runner(
    cores: int | None = None, executor: Executor | None = None, progressbar: bool = False
) -> Runner:
    """Return what runs chains on this machine's cores, or on an executor."""
    return lambda request: run_chains(
        request, cores=cores, executor=executor, progressbar=progressbar
    )


def run_chains(
    request: Request,
    *,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool = False,
) -> list[Chain | None]:
    """Run one chain for each generator of a request.

    Parameters
    ----------
    request
        What to run.
    cores
        How many run at the same time; by default as many as there are processors.
    executor
        Where to run them, if not here.
    progressbar
        Whether to show progress.

    Returns
    -------
    list of Chain
        None for those that the deadline or an interruption (Ctrl-C) ended. An interruption before
        any chain has ended is raised.
    """
    outcomes: dict[int, Outcome] = {}
    try:
        _run(request, cores, executor, progressbar, outcomes)
    except KeyboardInterrupt:
        if not any(isinstance(outcome, Chain) for outcome in outcomes.values()):
            raise
    return collect_chains(request.starts, outcomes)


def _run(
    request: Request,
    cores: int | None,
    executor: Executor | None,
    progressbar: bool,
    outcomes: dict[int, Outcome],
) -> None:
    """Run chains, and put what becomes of each into ``outcomes``."""
    path, task, starts = request.path, request.task, request.starts
    workers = min(len(starts), available_cores() if cores is None else cores)
    length = None if path.length is None else path.length - 1
    progress = ChainProgress(len(starts), length, progressbar, request.first)
    placement = placement_of(path)
    with one_blas_thread():
        if executor is not None:
            with progress:
                futures = submit_chains(executor, path, request.recipe or path, task, starts)
                gather(futures, progress, task.deadline, outcomes)
        elif workers > 1 and placement.forks and can_fork():
            _run_here(path, task, starts, progress, outcomes, SECONDS_BEFORE_FORK)
            if not any(isinstance(outcome, ChainError) for outcome in outcomes.values()):
                left = _unfinished(starts, outcomes)
                if left and isinstance(path, Preparable):
                    path.prepare()
                run_forked(path, task, left, workers, progress, outcomes)
        elif workers > 1 and placement is Placement.PROCESSES and can_spawn():
            with progress:
                recipe = request.recipe or path
                run_spawned(path, recipe, task, starts, workers, progress, outcomes)
        elif workers == 1 or placement in (Placement.SERIAL, Placement.PROCESSES):
            with progress:
                _run_here(path, task, starts, progress, outcomes)
        else:
            with progress:
                _run_on_threads(path, task, starts, progress, outcomes, workers)


def _run_here(
    path: Path,
    task: Task,
    starts: Starts,
    progress: ChainProgress,
    outcomes: dict[int, Outcome],
    seconds: float = np.inf,
) -> None:
    """Run chains one after another, until one fails or these seconds are over."""
    end = time.perf_counter() + seconds
    for number, start in starts.items():
        if time.perf_counter() >= end:
            break
        progress.start(number)

        def report(so_far: Unfinished, number: int = number) -> bool:
            progress.update(number, so_far.history[-1])
            return time.perf_counter() < end

        outcomes[number] = attempt(path, task, number, start, report)
        if not isinstance(outcomes[number], Chain):
            break
        progress.finish(number)


def _run_on_threads(
    path: Path,
    task: Task,
    starts: Starts,
    progress: ChainProgress,
    outcomes: dict[int, Outcome],
    workers: int,
) -> None:
    """Run chains on threads; they end after the step they are in when something fails."""
    stop = threading.Event()

    def work(number: int, start: np.random.Generator | Unfinished) -> Outcome:
        def report(so_far: Unfinished) -> bool:
            progress.update(number, so_far.history[-1])
            return not stop.is_set()

        progress.start(number)
        return attempt(path, task, number, start, report)

    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(work, number, start): number for number, start in starts.items()}
        try:
            gather(futures, progress, outcomes=outcomes)
        finally:
            stop.set()


def _unfinished(starts: Starts, outcomes: dict[int, Outcome]) -> Starts:
    """Return the chains that are not done, as far as they have come."""
    left: Starts = {}
    for number, start in starts.items():
        outcome = outcomes.get(number, start)
        if isinstance(outcome, Unfinished | np.random.Generator):
            left[number] = outcome
    return left
