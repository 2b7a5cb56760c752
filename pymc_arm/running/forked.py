"""Processes of this machine that are copies of this one, with the compiled path in them.

Nothing has to be sent to a forked process or compiled in it. It is a copy of the thread that made
it, so it must not wait for any other: processes are made before the progress bar starts its own
thread, run chains or bridges and nothing else, and are killed when they are no longer needed. One
that dies (the system may kill it for want of memory) is replaced, and its work done again.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from pymc_arm._compat import COMPILING
from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ChainError
from pymc_arm.running.chains import Chain, Task, Unfinished, run_chain
from pymc_arm.running.progress import ChainProgress

__all__ = ["Outcome", "Starts", "WorkerResult", "can_fork", "map_forked", "run_forked"]

# How often a chain is tried before its dying workers are taken for its own fault.
LARGEST_ATTEMPTS = 3

Starts = dict[int, np.random.Generator | Unfinished]
# None is a chain that the deadline ended in the middle of a step.
Outcome = Chain | Unfinished | ChainError | None


def can_fork() -> bool:
    """Whether this process may make copies of itself.

    Only the main thread of a process on Linux that is not itself a daemon: elsewhere system
    libraries keep threads that don't survive, and daemons may have no children. JAX keeps threads
    that a copy would wait for. ``PYMC_ARM_NO_FORK=1`` in the environment forbids it.
    """
    return (
        sys.platform == "linux"
        and "jax" not in sys.modules
        and not os.environ.get("PYMC_ARM_NO_FORK")
        and threading.current_thread() is threading.main_thread()
        and not multiprocessing.current_process().daemon
    )


def run_forked(
    path: Path,
    task: Task,
    starts: Starts,
    workers: int,
    progress: ChainProgress,
    outcomes: dict[int, Outcome],
) -> None:
    """Run chains in ``workers`` processes, and put what became of them into ``outcomes``.

    After a failure no more chains start, but those that run come to their end. The deadline ends
    them in the middle of a step.
    """

    def work(number: int, report: Callable[[Unfinished], bool]) -> Outcome:
        return run_chain(path, task, number, starts[number], report)

    waiting = list(starts)
    attempts = dict.fromkeys(starts, 0)
    busy: dict[Connection, tuple[_Worker, int]] = {}

    def assign(worker: _Worker) -> None:
        if not waiting or any(isinstance(o, ChainError) for o in outcomes.values()):
            worker.end()
            return
        number = waiting.pop(0)
        attempts[number] += 1
        busy[worker.connection] = worker, number
        progress.start(number)
        with contextlib.suppress(OSError):  # a worker that is dead is noticed when it is heard
            worker.connection.send(number)

    if not starts:
        with progress:
            return
    try:
        for worker in [_Worker(work) for _ in range(min(workers, len(starts)))]:
            assign(worker)
        with progress:
            while busy:
                remaining = None if task.deadline is None else task.deadline.remaining
                if remaining == 0:
                    break
                for connection in wait(list(busy), remaining):
                    assert isinstance(connection, Connection)
                    worker, number = busy[connection]
                    try:
                        message = connection.recv()
                    except (EOFError, OSError):
                        del busy[connection]
                        if attempts[number] == LARGEST_ATTEMPTS:
                            outcomes[number] = worker.worker_died_error(number)
                        else:
                            waiting.insert(0, number)
                            worker = _Worker(work)
                        assign(worker)
                        continue
                    if not isinstance(message, WorkerResult):
                        progress.update(number, message)
                        continue
                    del busy[connection]
                    outcomes[number] = message.outcome
                    message.repeat_warnings()
                    progress.finish(number)
                    assign(worker)
    finally:
        for worker, _ in busy.values():
            worker.end()


def map_forked(function: Callable[[int], Any], count: int, workers: int) -> list[Any]:
    """Return ``function`` of 0, ..., ``count`` - 1, found by this process and copies of it.

    What a copy that died was to find is found here.
    """
    shares = [range(first, count, workers) for first in range(1, workers)]
    helpers = [_Worker(lambda number, report: function(number)) for _ in shares]
    found: dict[int, Any] = {}
    try:
        for helper, share in zip(helpers, shares, strict=True):
            with contextlib.suppress(OSError):
                for number in share:
                    helper.connection.send(number)
        found.update((number, function(number)) for number in range(0, count, workers))
        for helper, share in zip(helpers, shares, strict=True):
            with contextlib.suppress(EOFError, OSError):
                for number in share:
                    ended = helper.connection.recv()
                    ended.repeat_warnings()
                    found[number] = ended.outcome
    finally:
        for helper in helpers:
            helper.end()
    return [found[n] if n in found else function(n) for n in range(count)]


class _Worker:
    """A process that does the work whose numbers it is sent."""

    def __init__(self, work: Callable[..., Any]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, self.connection, os.getpid(), work), daemon=True
        )
        # Held while forking, so that no other thread holds it in the child for ever.
        with COMPILING, warnings.catch_warnings():
            # The child touches nothing that a thread of this process may have held.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            self._process.start()
        other.close()

    def end(self) -> None:
        """Kill the process: it has nothing to tidy up, and may be in the middle of a step."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def worker_died_error(self, number: int) -> ChainError:
        """Return what to say of a chain whose workers die."""
        self._process.join()
        message = (
            f"The worker of chain {number} died {LARGEST_ATTEMPTS} times, the last time with exit "
            f"code {self._process.exitcode}. If the system killed it for want of memory (-9), use "
            "fewer draws or cores=1."
        )
        return ChainError(message, number, 0, "")


class WorkerResult:
    """The end of a chain, or of other work, as a worker tells it."""

    def __init__(self, outcome: Any, caught: list[warnings.WarningMessage]) -> None:
        self.outcome = outcome
        self._warnings = [(str(w.message), w.category, w.filename, w.lineno) for w in caught]

    def repeat_warnings(self) -> None:
        """Warn here of what the worker was warned of."""
        for message, category, filename, line in self._warnings:
            warnings.warn_explicit(message, category, filename, line)


def _serve(connection: Connection, others_end: Connection, parent: int, work: Any) -> None:
    """Work for as long as there is a parent to tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and kills this process
    others_end.close()
    gc.freeze()  # so that collecting garbage does not copy the parent's memory

    def report(so_far: Unfinished) -> bool:
        if os.getppid() != parent:
            os._exit(1)
        connection.send(so_far.history[-1])
        return True

    while True:
        try:
            number = connection.recv()
        except (EOFError, OSError):  # the parent has been killed
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome = work(number, report)
            except ChainError as error:
                error.add_note("".join(traceback.format_exception(error)))
                outcome = error
        try:
            connection.send(WorkerResult(outcome, caught))
        except OSError:
            return
