"""Threads that share the tiles of a sweep.

Compiled kernels release the interpreter's lock, so plain threads are enough. A tile has random
numbers of its own (:mod:`pymc_arm.families.philox`), so that results are the same for any number of
threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pymc_arm.arguments import check_count
from pymc_arm.running.processors import available_cores

__all__ = ["SharingThreads"]

_Item = TypeVar("_Item")


class SharingThreads:
    """A number of threads, the calling one included.

    Parameters
    ----------
    threads
        How many; by default one for each processor.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            check_count("threads", threads)
        self.threads = available_cores() if threads is None else int(threads)
        self._executor: tuple[int, ThreadPoolExecutor] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.threads,)

    def share(
        self, function: Callable[[_Item], None], items: Sequence[_Item], threads: int | None = None
    ) -> None:
        """Call a function with every item: a thread that is done takes the next one.

        Parameters
        ----------
        function
            What to call.
        items
            What to call it with.
        threads
            How many threads take part at most, if not all.
        """
        left = iter(items)

        def take() -> None:
            for item in left:
                function(item)

        helpers = min(self.threads if threads is None else threads, len(items)) - 1
        # This thread takes part, and has begun before another one is awake.
        others = [self._pool().submit(take) for _ in range(helpers)]
        take()
        for other in others:
            other.result()

    def _pool(self) -> ThreadPoolExecutor:
        """Return the other threads; those of a parent process are not there after a fork."""
        process = os.getpid()
        if self._executor is None or self._executor[0] != process:
            self._executor = process, ThreadPoolExecutor(self.threads - 1)
        return self._executor[1]
