"""Processes of this machine that are not copies of this one, for where there is no fork.

On Windows and macOS, with JAX loaded or from another thread than the main one, a chain can run
elsewhere only in a new interpreter, which imports the package and compiles the model for itself:
some seconds. So this process begins with the chains, helpers start once it is clear that there is
enough to do, and both take chains until none is left. Helpers stay for the next call.

They do not import the main module, as those of :mod:`multiprocessing` would: a script needs no
``if __name__ == "__main__"``.
"""

import atexit
import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import IO, Any

import cloudpickle
import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ChainError
from pymc_arm.running.chains import Chain, Task, Unfinished
from pymc_arm.running.executors import attempt, cancel, outcome_of, submit_chains
from pymc_arm.running.forked import Outcome, Starts
from pymc_arm.running.progress import ChainProgress

__all__ = ["SpawnedWorkers", "can_spawn", "run_spawned", "spawned_workers"]

# A helper takes about three seconds to import PyMC and to compile a small model: what is over
# within two would gain nothing. Twice as long costs a run of thirty seconds one second.
SECONDS_BEFORE_SPAWN = 2.0
# What a helper begins with: where to import from, before anything is imported.
BOOTSTRAP = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from pymc_arm.running.spawned import serve
serve()
"""


def can_spawn() -> bool:
    """Whether this process may start interpreters; not if it is itself a worker of a pool."""
    return bool(sys.executable) and not multiprocessing.current_process().daemon


class SpawnedWorkers(Executor):
    """An executor of new interpreters, each of which starts when it is first needed.

    Examples
    --------
    >>> from pymc_arm.running.spawned import SpawnedWorkers
    >>> with SpawnedWorkers(1) as workers:
    ...     workers.submit(divmod, 7, 2).result()
    (3, 1)
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="pymc_arm-spawned")
        self._own = threading.local()
        self._processes: set[subprocess.Popen[bytes]] = set()
        # Calls of before the last kill start nothing any more.
        self._lock, self._kills = threading.RLock(), 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in one of the interpreters."""
        package = cloudpickle.dumps((fn, args, kwargs))
        return self._threads.submit(self._call, package, self._kills)

    def kill(self) -> None:
        """End what is being done; the next call starts new interpreters."""
        with self._lock:
            self._kills += 1
            for process in self._processes:
                process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the interpreters when they have done what they were asked."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for process in list(self._processes):
            self._end(process)

    def _call(self, package: bytes, kills: int) -> Any:
        with self._lock:
            if kills != self._kills:
                raise RuntimeError("The call was cancelled before the worker began with it.")
            process = self._process()
        try:
            pickle.dump(package, process.stdin)  # type: ignore[arg-type]
            process.stdin.flush()  # type: ignore[union-attr]
            succeeded, answer = cloudpickle.loads(pickle.load(process.stdout))  # type: ignore[arg-type]
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._end(process)
            raise RuntimeError(
                f"A worker ended with exit code {process.returncode}. If the system killed it for "
                "want of memory (-9), use fewer draws or cores=1."
            ) from error
        if not succeeded:
            raise answer
        return answer

    def _process(self) -> subprocess.Popen[bytes]:
        """Return the interpreter of this thread, a new one if there is none that lives."""
        known: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if known is not None and known.poll() is None:
            return known
        if known is not None:
            self._end(known)
        process = subprocess.Popen(
            [sys.executable, "-c", BOOTSTRAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._own.process = process
        self._processes.add(process)
        pickle.dump(sys.path, process.stdin)  # type: ignore[arg-type]
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        with self._lock:
            self._processes.discard(process)


def serve() -> None:
    """Do what is asked on the standard input, for as long as there is somebody who asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks gets it too, and ends this
    answers: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a model prints is not an answer
    while True:
        try:
            function, args, kwargs = cloudpickle.loads(pickle.load(sys.stdin.buffer))
        except (EOFError, OSError):
            return
        except Exception as error:
            answer: tuple[bool, Any] = (False, error)
        else:
            try:
                answer = (True, function(*args, **kwargs))
            except Exception as error:
                answer = (False, error)
        try:
            pickle.dump(cloudpickle.dumps(answer), answers)
            answers.flush()
        except OSError:
            return


def spawned_workers(count: int) -> SpawnedWorkers:
    """Return the helpers of this process: they stay for the next call, and end with it."""
    return _workers_of(os.getpid(), count)


@functools.cache
def _workers_of(process: int, count: int) -> SpawnedWorkers:
    """Return helpers of one process: a copy of it has none of the threads that speak to them."""
    workers = SpawnedWorkers(count)
    atexit.register(workers.shutdown)
    return workers


def run_spawned(
    path: Path,
    recipe: Any,
    task: Task,
    starts: Starts,
    workers: int,
    progress: ChainProgress,
    outcomes: dict[int, Outcome],
) -> None:
    """Run chains in this process and in ``workers`` - 1 others.

    ``outcomes`` takes what became of them. What a helper that dies, or that can't be started, was
    to do is done here.
    """
    waiting = list(starts)
    futures: dict[Future[Any], int] = {}
    helpers = spawned_workers(workers - 1)
    begun = time.perf_counter()

    def share() -> None:
        """Hand over all chains that have not begun, once; this process takes back the last."""
        if waiting and not futures and time.perf_counter() - begun > SECONDS_BEFORE_SPAWN:
            later = {number: starts[number] for number in waiting}
            # What can't be sent is run here.
            with contextlib.suppress(Exception):
                futures.update(submit_chains(helpers, path, recipe, task, later))
                waiting.clear()

    def run_here(number: int, start: np.random.Generator | Unfinished) -> None:
        progress.start(number)

        def report(so_far: Unfinished) -> bool:
            progress.update(number, so_far.history[-1])
            share()
            return True

        outcomes[number] = outcome = attempt(path, task, number, start, report)
        if isinstance(outcome, Chain):
            progress.finish(number)
        else:
            waiting.clear()
            cancel(futures)

    def remaining() -> float | None:
        return None if task.deadline is None else task.deadline.remaining

    try:
        while waiting:
            run_here(number := waiting.pop(0), starts[number])
        for future in reversed(futures):
            if future.cancel() and not _failed(outcomes):
                run_here(number := futures[future], starts[number])
        for future, number in futures.items():
            if number in outcomes or wait([future], remaining()).not_done or future.cancelled():
                continue
            broken = future.exception()
            found = None if broken is not None else outcome_of(future, number)
            if found is not None:
                outcomes[number] = found
                progress.finish(number)
            elif not _failed(outcomes):
                run_here(number, starts[number])
    except BaseException:
        helpers.kill()
        raise
    finally:
        cancel(futures)
        if any(not future.done() for future in futures):
            helpers.kill()


def _failed(outcomes: dict[int, Outcome]) -> bool:
    return any(isinstance(outcome, ChainError) for outcome in outcomes.values())
