"""Models of a comparison run alone or together: the same bits, and nothing lost."""

import inspect
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import fields
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import ComparisonError, ModelError, Settings, compare
from pymc_arm.model_call import ModelCall
from pymc_arm.running.run import Options

OPTIONS = {"draws": 60, "chains": 2, "progressbar": False}
RNG = np.random.default_rng(3)
DESIGN = RNG.normal(size=(12, 2))
DATA = 0.6 * DESIGN[:, 0] + RNG.normal(size=12)


@cache
def regression(columns):
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=columns)
        pm.Normal("y", pm.math.dot(DESIGN[:, :columns], slopes), 1.0, observed=DATA)
    return model


def improper():
    with pm.Model() as model:
        mean = pm.Flat("mean")
        pm.Normal("y", mean, 1.0, observed=DATA)
    return model


def models():
    return {"one": regression(1), "two": regression(2)}


class Together(ThreadPoolExecutor):
    """Threads that run nothing before as many chains as there are threads have been submitted."""

    def __init__(self, threads):
        super().__init__(threads)
        self._all = threading.Barrier(threads, timeout=60)

    def submit(self, call, /, *args):
        return super().submit(self._begin, call, *args)

    def _begin(self, call, *args):
        self._all.wait()
        return call(*args)


class Elsewhere(Executor):
    """The same for an executor that is not known to share this process."""

    def __init__(self, threads):
        self._pool = Together(threads)

    def submit(self, call, /, *args):
        return self._pool.submit(call, *args)

    def shutdown(self, *args, **keywords):
        self._pool.shutdown(*args, **keywords)


def assert_same(table, other):
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), other.drop(columns="seconds"))


@pytest.mark.parametrize("place", [Together, Elsewhere])
def test_all_chains_are_in_flight_together_and_give_the_same_bits(place):
    alone = compare(models(), random_seed=1, cores=1, **OPTIONS)
    with place(4) as executor:
        together = compare(models(), random_seed=1, executor=executor, **OPTIONS)
    assert_same(together, alone)


@pytest.mark.parametrize("seed", [[1, 2], np.random.default_rng(1)])
def test_models_that_need_more_chains_do_not_disturb_the_others(seed):
    """Whatever the order in which rounds end, each model has a stream for itself."""
    tables = []
    for threads in (None, 2):
        seed_now = np.random.default_rng(1) if isinstance(seed, np.random.Generator) else seed
        options = {**OPTIONS, "draws": 20, "random_seed": seed_now, "target_se": 0.04}
        if threads is None:
            tables.append(compare(models(), **options))
        else:
            with ThreadPoolExecutor(threads) as executor:
                tables.append(compare(models(), executor=executor, **options))
    assert_same(*tables)
    assert tables[0]["log_evidence"].nunique() == 2


@pytest.mark.parametrize("threads", [None, 2])
def test_a_model_that_fails_does_not_lose_the_others(threads):
    options = {**OPTIONS, "random_seed": 1}
    if threads is not None:
        options["executor"] = ThreadPoolExecutor(threads)
    first, second = models().items()
    candidates = dict([first, ("wrong", improper()), second])
    with pytest.raises(
        ComparisonError, match=r"Model 'wrong' failed: ModelError.*'one', 'two'"
    ) as e:
        compare(candidates, **options)
    assert isinstance(e.value.__cause__, ModelError)
    assert compare(e.value.finished).index.tolist() == ["one", "two"]


class Broken(ThreadPoolExecutor):
    """An executor whose first chain ends with an error of its own."""

    def __init__(self, error):
        super().__init__(1)
        self._error, self.futures = error, []

    def submit(self, call, /, *args):
        if self.futures:
            future = super().submit(call, *args)
        else:
            future = Future()
            future.set_exception(self._error)
        self.futures.append(future)
        return future

    def occupy(self):
        """Keep the only thread busy until the event that is returned is set."""
        free = threading.Event()
        super().submit(free.wait)
        return free


def test_an_error_of_the_executor_is_that_of_one_model():
    with (
        Broken(OSError("worker lost")) as executor,
        pytest.raises(ComparisonError, match=r"Model 'one' failed: .*OSError: worker lost") as e,
    ):
        compare(models(), random_seed=1, executor=executor, **OPTIONS)
    assert list(e.value.finished) == ["two"]


class Idle(Executor):
    """An executor without workers."""

    def submit(self, call, /, *args):
        return Future()


def test_the_time_limit_does_not_wait_for_an_executor():
    with pytest.raises(ComparisonError, match=r"Model 'one' failed: TimeLimitError: time_limit=3"):
        compare(models(), random_seed=1, executor=Idle(), time_limit=3, **OPTIONS)


def test_an_interrupt_starts_no_more_chains():
    with Broken(KeyboardInterrupt()) as executor:
        free = executor.occupy()
        try:
            with pytest.raises(KeyboardInterrupt):
                compare(models(), random_seed=1, executor=executor, **{**OPTIONS, "chains": 4})
        finally:
            free.set()
        assert len(executor.futures) > 4
        assert all(future.cancelled() for future in executor.futures[1:])


def test_progress_has_a_line_for_each_model(capsys):
    with ThreadPoolExecutor(1) as executor:
        compare(models(), random_seed=1, executor=executor, **{**OPTIONS, "progressbar": True})
    shown = capsys.readouterr().err
    assert "one" in shown
    assert "two" in shown
    assert "2 of 2 chains" in shown


def test_wrong_arguments_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match="draws=0"):
        compare(models(), draws=0)
    with pytest.raises(ValueError, match="threshold=2"):
        compare(models(), threshold=2)
    with pytest.raises(TypeError, match="nonsense"):
        compare(models(), nonsense=1)


def test_defaults_are_those_of_sample():
    documented = {
        name: parameter.default
        for name, parameter in inspect.signature(pymc_arm.sample).parameters.items()
        if name not in ("model", "more_settings")
    }
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(ModelCall.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "given"
    }
    for option in fields(Options):
        defaults[option.name] = option.default
    # Where these are None the path has a default of its own.
    defaults |= {"variant": Settings().variant, "threshold": None, "max_rounds": None}
    assert documented == defaults
