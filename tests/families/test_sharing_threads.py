"""Threads that share items: each is taken once, errors are raised, copies begin anew."""

import os
import pickle
import threading

import pytest

from pymc_arm.families.threads import SharingThreads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_is_taken_once(threads):
    taken, lock = [], threading.Lock()

    def take(item):
        with lock:
            taken.append(item)

    pool = SharingThreads(threads)
    pool.share(take, range(100))
    assert sorted(taken) == list(range(100))


def test_no_more_threads_than_allowed_take_part():
    names = set()
    SharingThreads(4).share(lambda _: names.add(threading.get_ident()), range(50), threads=1)
    assert names == {threading.get_ident()}


def test_an_error_of_another_thread_is_raised():
    """The calling thread waits until another one has failed."""
    failed = threading.Event()
    caller = threading.get_ident()

    def fail(_):
        if threading.get_ident() == caller:
            assert failed.wait(30)
        else:
            failed.set()
            raise ZeroDivisionError("in a thread")

    with pytest.raises(ZeroDivisionError, match="in a thread"):
        SharingThreads(2).share(fail, range(2))


def test_a_copy_has_threads_of_its_own():
    pool = SharingThreads(2)
    pool.share(lambda _: None, range(4))
    copied = pickle.loads(pickle.dumps(pool))
    assert copied.threads == 2
    copied.share(lambda _: None, range(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_are_started_again_after_a_fork():
    pool = SharingThreads(2)
    pool.share(lambda _: None, range(4))
    child = os.fork()
    if not child:
        pool.share(lambda _: None, range(4))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_numbers_of_threads_are_checked():
    assert SharingThreads().threads >= 1
    with pytest.raises(ValueError, match="threads=0 must be"):
        SharingThreads(0)
