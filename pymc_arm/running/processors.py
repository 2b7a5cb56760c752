"""The processors that this process may use, and who may use them."""

import functools
import os
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


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread: more of them would wait for each other, or fight with ours."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@functools.cache
def _controller() -> ThreadpoolController:
    """Find the BLAS libraries once: it takes longer than a small run."""
    return ThreadpoolController()
