"""The processors of this process, and BLAS on one thread."""

import os

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from pymc_arm.running.processors import available_cores, one_blas_thread


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity")
def test_processors_are_those_that_are_allowed():
    allowed = os.sched_getaffinity(0)
    assert available_cores() == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_blas_has_one_thread_inside_and_its_own_number_after():
    np.ones((2, 2)) @ np.ones((2, 2))

    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert set(threads()) <= {1}
    assert threads() == before


def test_the_limit_lasts_until_the_last_thread_leaves_it():
    np.ones((2, 2)) @ np.ones((2, 2))

    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before
