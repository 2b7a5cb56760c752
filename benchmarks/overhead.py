"""What checkpoints cost, and what a second process gives.

``python -m benchmarks overhead [--draws 3000] [--chains 4] [--repeats 3]`` takes turns between a
run in one process, one in two, and one in two with checkpoints every five seconds, and prints the
seconds of each, by the clock and of the processors. The time inside of the functions that write
checkpoints is added up in the workers: that share says more than a difference between two runs on
a machine that is not quiet. Beside the gain from a second process stands what the machine has
to give: the first chain alone, and two copies of it at the same time that share nothing.
"""

import argparse
import logging
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pymc_arm
from benchmarks.faults import build, fingerprint
from pymc_arm.models.compiled import compile_model
from pymc_arm.running.chains import Task, run_chain
from pymc_arm.running.checkpoint.journal import Journal
from pymc_arm.running.processors import one_blas_thread

__all__ = ["COMMANDS"]

FORK = multiprocessing.get_context("fork")


def processor_seconds() -> float:
    """Return what this process and its children that have ended took."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def count_writing(total: Any) -> None:
    """Add the seconds that writing a chain takes, in whatever forked process, to a total."""
    for name in ("save", "finish"):
        setattr(Journal, name, _counted(getattr(Journal, name), total))


def _counted(write: Callable[..., None], total: Any) -> Callable[..., None]:
    def counted(*arguments: Any) -> None:
        started = time.perf_counter()
        write(*arguments)
        with total.get_lock():
            total.value += time.perf_counter() - started

    return counted


def seconds_of_copies(path: pymc_arm.Path, draws: int, copies: int) -> float:
    """Return the seconds until all of some processes have run the same chain."""

    def work() -> None:
        with one_blas_thread():
            run_chain(path, Task(draws, pymc_arm.Settings()), 0, np.random.default_rng(1))

    started = time.perf_counter()
    processes = [FORK.Process(target=work) for _ in range(copies)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return time.perf_counter() - started


def main_overhead(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks overhead")
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    path = compile_model(build())
    path.prepare()
    writing = FORK.Value("d", 0.0)
    count_writing(writing)
    seconds: dict[str, list[float]] = {"one process": [], "two processes": [], "checkpoints": []}
    gains, shares = [], []
    for _ in range(options.repeats):
        for name, times in seconds.items():
            with tempfile.TemporaryDirectory() as directory:
                extra = {"checkpoint": directory} if name == "checkpoints" else {}
                cores = 1 if name == "one process" else 2
                started, used = time.perf_counter(), processor_seconds()
                fingerprint(path, options.draws, chains=options.chains, cores=cores, **extra)
                times.append(time.perf_counter() - started)
                used = processor_seconds() - used
            print(f"{name}: {times[-1]:.2f} s, of the processors {used:.2f} s", flush=True)
        shares.append(writing.value / used)
        writing.value = 0.0
        alone, together = (seconds_of_copies(path, options.draws, n) for n in (1, 2))
        gains.append(2 * alone / together)
        print(f"writing {shares[-1]:.2%}; a chain {alone:.2f} s, two at once {together:.2f} s")
    one, two, checkpoints = (np.array(times) for times in seconds.values())
    print(
        f"two processes: {one.min() / two.min():.2f}x (each time: {_list(one / two)}); two "
        f"processes that share nothing: {_list(gains)}\n"
        f"checkpoints: {checkpoints.min() / two.min() - 1:+.1%}, of which writing "
        f"{np.median(shares):.2%} of the processors' time"
    )


def _list(numbers: Any) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers)


COMMANDS = {"overhead": main_overhead}
