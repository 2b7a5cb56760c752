"""How much faster two threads can be than one on this machine, whatever the code.

Two virtual processors may be the two hyperthreads of one core, and then share its multipliers. So
the gain of a kernel from a second thread is printed beside that of plain matrix products: each
thread multiplies matrices of its own that stay in its cache, and nothing is shared.

Threads that are timed are held on a processor each: where all of them are busy, a system may leave
two threads of one process on the same processor for many milliseconds.
"""

import os
import threading
import time
from collections.abc import Callable

import numpy as np

__all__ = ["PROCESSORS", "best_time", "measure_gain", "product_task", "stay_on"]

# Three such matrices of float32 fit into a cache of half a megabyte.
PRODUCT_SIZE = 192
PRODUCTS = 6
# Where the process may run; empty where the system does not let it choose.
PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def stay_on(processors: list[int]) -> None:
    """Keep the calling thread, and threads it starts from now on, on some of PROCESSORS."""
    if processors:
        os.sched_setaffinity(0, processors)


def product_task(dtype: type[np.floating], seed: int = 0) -> Callable[[], None]:
    """Return a function that multiplies matrices of its own."""
    left, right = np.random.default_rng(seed).random((2, PRODUCT_SIZE, PRODUCT_SIZE)).astype(dtype)
    out = np.empty_like(left)

    def multiply() -> None:
        for _ in range(PRODUCTS):
            np.matmul(left, right, out=out)

    return multiply


def measure_gain(dtype: type[np.floating], repeats: int = 1000) -> float:
    """Return work per time of two threads over that of one: 2 if nothing is shared.

    One and two threads take turns, and the best of each counts, so that other work on the machine
    falls on both. BLAS must be held at one thread by the caller.
    """
    first, second = product_task(dtype, 0), product_task(dtype, 1)
    alone = together = np.inf
    start, end = threading.Barrier(2), threading.Barrier(2)

    def help_along() -> None:
        stay_on(PROCESSORS[-1:])
        for _ in range(repeats):
            start.wait()
            second()
            end.wait()

    helper = threading.Thread(target=help_along)
    helper.start()
    stay_on(PROCESSORS[:1])
    for _ in range(repeats):
        began = time.perf_counter()
        first()
        alone = min(alone, time.perf_counter() - began)
        start.wait()
        began = time.perf_counter()
        first()
        end.wait()
        together = min(together, time.perf_counter() - began)
    helper.join()
    stay_on(PROCESSORS)
    return 2 * alone / together


def best_time(
    function: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the shortest time of several calls."""
    shortest = np.inf
    for _ in range(repeats):
        started = clock()
        function()
        shortest = min(shortest, clock() - started)
    return shortest
