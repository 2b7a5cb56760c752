"""Chains on an executor that the user gives: threads, processes or a cluster.

What is sent to it is the pickled model, and each of its processes compiles it once. Only threads
can use the path as it is.
"""

import ctypes
import functools
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any

import cloudpickle
import numpy as np

from pymc_arm._compat import COMPILING
from pymc_arm.algorithm.path import Path
from pymc_arm.deadline import Deadline
from pymc_arm.errors import ChainError
from pymc_arm.running.chains import Chain, Task, Unfinished, run_chain
from pymc_arm.running.checkpoint.identity import versions
from pymc_arm.running.forked import Outcome, Starts, WorkerResult
from pymc_arm.running.processors import one_blas_thread
from pymc_arm.running.progress import ChainProgress

__all__ = [
    "attempt",
    "cancel",
    "check_executor",
    "collect_chains",
    "gather",
    "outcome_of",
    "run_remotely",
    "submit_chains",
]

# Of glibc's mallopt, with the values that its own adaptation to large arrays ends with.
TRIM_THRESHOLD, MMAP_THRESHOLD = (-1, 2**26), (-3, 2**25)


def check_executor(executor: Any, cores: int | None) -> None:
    """Refuse what is no executor, with a remedy."""
    if executor is None:
        return
    if not isinstance(executor, Executor):
        remedy = "client.get_executor()" if hasattr(executor, "get_executor") else "None"
        raise TypeError(
            f"executor={executor!r} is not a concurrent.futures.Executor: give one, or {remedy}."
        )
    if cores is not None:
        raise ValueError(f"cores={cores} has no meaning with an executor: it has its own workers.")


def submit_chains(
    executor: Executor, path: Path, recipe: Any, task: Task, starts: Starts
) -> dict[Future[Any], int]:
    """Start chains on a given executor; only threads can use the path as it is."""
    shared = isinstance(executor, ThreadPoolExecutor)
    here = versions()
    package = b"" if shared else cloudpickle.dumps(recipe)
    futures: dict[Future[Any], int] = {}
    try:
        for number, start in starts.items():
            future: Future[Any]
            if shared:
                future = executor.submit(attempt, path, task, number, start, None)
            else:
                call = cloudpickle.dumps((task, number, start))
                future = executor.submit(run_remotely, here, package, call)
            futures[future] = number
    except BaseException:  # an executor that breaks now must not go on with those it has
        cancel(futures)
        raise
    return futures


def run_remotely(expected: dict[str, str], package: bytes, call: bytes) -> WorkerResult:
    """Run a chain in a worker of an executor, with a path that is compiled there once.

    Arguments are bytes, so that a worker with other versions can say so before it fails to read
    them.
    """
    own = versions()
    differing = [
        f"{name} {number} (not {expected.get(name)})"
        for name, number in own.items()
        if number != expected.get(name)
    ]
    if differing:
        raise RuntimeError(
            f"The worker on {platform.node()} has {', '.join(differing)}. Install the same "
            "versions everywhere: the same seed must give the same result."
        )
    _keep_freed_memory()
    with COMPILING:
        path = _unpack(package)
    task, number, start = cloudpickle.loads(call)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with one_blas_thread():
            outcome = attempt(path, task, number, start, None)
    return WorkerResult(outcome, caught)


@functools.cache
def _keep_freed_memory() -> None:
    """Undo what Dask sets for its workers: that freed memory goes back to the system at once.

    Every array is then mapped anew, page by page, and a chain takes four times as long.
    """
    if sys.platform != "linux" or "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting in (TRIM_THRESHOLD, MMAP_THRESHOLD):
            mallopt(*setting)


@functools.lru_cache(maxsize=4)
def _unpack(package: bytes) -> Path:
    """Return the path that a package holds, or that its recipe makes."""
    content = cloudpickle.loads(package)
    return content if isinstance(content, Path) else content()


def attempt(
    path: Path,
    task: Task,
    number: int,
    start: np.random.Generator | Unfinished,
    report: Callable[[Unfinished], bool] | None,
) -> Outcome:
    """Run a chain, and return its error as its outcome."""
    try:
        return run_chain(path, task, number, start, report)
    except ChainError as error:
        return error


def gather(
    futures: Mapping[Future[Any], int],
    progress: ChainProgress,
    deadline: Deadline | None = None,
    outcomes: dict[int, Outcome] | None = None,
) -> dict[int, Outcome]:
    """Collect chains as they end; after a failure, wait for those that run, and start no more.

    After the deadline those that still run are left to themselves: they end with their step.
    ``outcomes`` takes what is found, and has it even if this is interrupted.
    """
    outcomes = {} if outcomes is None else outcomes
    remaining = None if deadline is None else deadline.remaining
    try:
        for future in as_completed(futures, remaining):
            outcome = outcome_of(future, futures[future])
            if outcome is None:
                continue
            outcomes[futures[future]] = outcome
            progress.finish(futures[future])
            if isinstance(outcome, ChainError):
                cancel(futures)
    except TimeoutError:
        cancel(futures)
    except BaseException:
        cancel(futures)
        raise
    return outcomes


def outcome_of(future: Future[Any], number: int) -> Outcome:
    """Return what became of a chain, with the warnings it gave; None if it was cancelled.

    What goes wrong on the way to a worker or in it, a dying one among them, is the chain's error.
    """
    try:
        ended = future.result()
    except CancelledError:
        return None
    except Exception as error:
        message = f"Chain {number} was lost by the executor: {type(error).__name__}: {error}"
        lost = ChainError(message, number, 0, "")
        lost.__cause__ = error
        return lost
    if isinstance(ended, WorkerResult):
        ended.repeat_warnings()
        ended = ended.outcome
    outcome: Outcome = ended
    return outcome


def cancel(futures: Iterable[Future[Any]]) -> None:
    """Start none of these chains that has not begun."""
    for future in futures:
        future.cancel()


def collect_chains(starts: Starts, outcomes: Mapping[int, Outcome]) -> list[Chain | None]:
    """Return the chains in order, or raise the first error with the others' results in it."""
    chains = [outcomes.get(number) for number in starts]
    finished = [chain for chain in chains if isinstance(chain, Chain)]
    for outcome in chains:
        if isinstance(outcome, ChainError):
            outcome.finished = finished
            raise outcome
    return [chain if isinstance(chain, Chain) else None for chain in chains]
