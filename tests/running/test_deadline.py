"""Deadlines are kept by a clock that nobody sets."""

import pickle
import time

import pytest

import pymc_arm
from pymc_arm import TimeLimitError
from pymc_arm.running.deadline import Deadline
from pymc_arm.testing import GaussianChain


def test_what_is_left():
    deadline = Deadline.after(100.0)
    assert 99 < deadline.remaining <= 100
    assert not deadline.passed
    assert Deadline.after(-1.0).passed
    assert Deadline.after(-1.0).remaining == 0


def test_another_machine_gets_what_is_left(monkeypatch):
    """Its monotonic clock begins elsewhere, and its time of day may be behind."""
    sent = pickle.dumps(Deadline.after(100.0))
    now = time.time()
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    monkeypatch.setattr(time, "time", lambda: now + 30)
    assert 69 < pickle.loads(sent).remaining <= 71
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert 99 < pickle.loads(sent).remaining <= 100


def test_a_clock_that_is_set_back_does_not_prolong_a_run(monkeypatch):
    class Slow(GaussianChain):
        def smooth(self, rng, n, particles):
            time.sleep(0.02)
            return super().smooth(rng, n, particles)

    told, calls = time.time(), []

    def set_back():
        calls.append(1)
        return told - 3600 * len(calls)

    monkeypatch.setattr(time, "time", set_back)
    started = time.monotonic()
    with pytest.raises(TimeLimitError):
        pymc_arm.sample_path(Slow([0.1] * 500), 10, cores=1, time_limit=0.3, progressbar=False)
    assert time.monotonic() - started < 5
