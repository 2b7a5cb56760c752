"""The processors that this process may use, and who may use them."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

# Loaded before the controller looks for BLAS libraries: numba calls SciPy's.
import scipy.linalg.cython_blas  # noqa: F401
from threadpoolctl import ThreadpoolController

__all__ = ["available_cores", "one_blas_thread"]


def available_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneThread:
    """A limit that several threads may want at the same time: the first sets it, the last lifts it.

    Each on its own would give back the number of threads that it found: a run that began within
    another would leave BLAS at one thread for good, and end the limit of the other.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limit.restore_original_limits()

    def after_fork(self) -> None:
        """Forget a lock that another thread may have had when this process was copied."""
        self._lock = threading.Lock()


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.after_fork)


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread: more of them would wait for each other, or fight with ours."""
    return _one_thread()


@functools.cache
def _controller() -> ThreadpoolController:
    """Find the BLAS libraries once: it takes longer than a small run."""
    return ThreadpoolController()
