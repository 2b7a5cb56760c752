"""Deadlines are kept by a clock that nobody sets, and by all that evaluates a model."""

import pickle
import time

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import TimeLimitError
from pymc_arm.deadline import Deadline, OutOfTimeError, check_deadline, keep_deadline
from pymc_arm.running.options import Options
from pymc_arm.testing import GaussianChain


class AfterLooks(Deadline):
    """A deadline that has passed once it was looked at so many times."""

    def __init__(self, looks):
        object.__setattr__(self, "moment", float("inf"))
        object.__setattr__(self, "looks", looks)

    @property
    def passed(self):
        object.__setattr__(self, "looks", self.looks - 1)
        return self.looks < 0

    @property
    def remaining(self):
        return float("inf") if self.looks > 0 else 0.0


def regression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=3)
        pm.Bernoulli("y", logit_p=x @ b, observed=rng.random(40) < 1 / (1 + np.exp(-x[:, 0])))
    return model


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


def test_it_is_kept_within_a_block():
    check_deadline()
    with keep_deadline(Deadline.after(-1.0)), pytest.raises(OutOfTimeError):
        check_deadline()
    check_deadline()


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
@pytest.mark.parametrize("together", [False, True])
def test_whatever_is_evaluated_ends_with_the_limit(monkeypatch, together):
    """In fitting, in chains or in refining; and a call without a limit then is as if it had none.

    How often a run looks at the deadline is found first; then it passes at four moments of a run.
    """
    options = {"draws": 200, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}

    def run(model):
        if together:
            row = pymc_arm.compare({"a": model}, time_limit=3600, **options).loc["a"]
            return row["log_evidence"], row["verdict"]
        found = pymc_arm.sample(model, time_limit=3600, **options).attrs
        return found["log_marginal_likelihood"], found["verdict"]

    never = AfterLooks(10**9)
    monkeypatch.setattr(Options, "deadline", lambda self: never)
    whole = run(regression())
    looks, ended = 10**9 - never.looks, []
    for share in np.linspace(0.05, 0.98, 4):
        model, late = regression(), AfterLooks(int(share * looks))
        monkeypatch.setattr(Options, "deadline", lambda self, late=late: late)
        try:
            found = run(model)
        except (TimeLimitError, pymc_arm.ComparisonError) as error:
            ended.append(str(error).split("time_limit=3600 s ")[1])
        else:
            assert found[1] == "caution"
            ended.append("with a part")
        monkeypatch.setattr(Options, "deadline", lambda self: None)
        assert run(model) == whole
    nothing = "ended the run before any chain did. Give it more time, or fewer draws."
    assert set(ended) == {nothing, "with a part"}


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
