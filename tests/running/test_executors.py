"""The same bits wherever chains run, and nothing lost when a worker fails or dies."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import ChainError, Settings, Smoothed, ZeroEvidenceWarning
from pymc_arm.deadline import Deadline
from pymc_arm.running import backends, executors
from pymc_arm.running.backends import Request, run_chains
from pymc_arm.running.chains import Chain, Task, Unfinished, run_chain, spawn_generators
from pymc_arm.running.checkpoint.identity import versions
from pymc_arm.running.executors import run_remotely
from pymc_arm.running.forked import map_forked
from pymc_arm.running.placement import Placement
from pymc_arm.testing import GaussianChain

TASK = Task(50, Settings())
linux = pytest.mark.skipif(
    sys.platform != "linux" or bool(os.environ.get("PYMC_ARM_NO_FORK")),
    reason="forks only on Linux, if they are not forbidden",
)


class Slow(GaussianChain):
    """A path for processes, with steps that take long enough to be interrupted."""

    placement = Placement.PROCESSES_OR_THREADS
    seconds = 0.0

    def smooth(self, rng, n, particles):
        time.sleep(self.seconds)
        return super().smooth(rng, n, particles)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(backends, "SECONDS_BEFORE_FORK", 0.0)


def assert_same(one, other):
    assert repr(one.run.history) == repr(other.run.history)
    assert set(one.draws) == set(other.draws)
    for name, values in one.draws.items():
        np.testing.assert_array_equal(values, other.draws[name])


def run_all(path, **options):
    return run_chains(Request(path, TASK, spawn_generators(1, 3)), **options)


@linux
@pytest.mark.parametrize("patience", [0.0, 0.003, 10.0])
@pytest.mark.parametrize("cores", [2, 3])
def test_forked_processes_give_the_same_bits(monkeypatch, patience, cores):
    monkeypatch.setattr(backends, "SECONDS_BEFORE_FORK", patience)
    path = Slow([0.5, -1.0, 2.0, 0.1])
    alone = run_all(path, cores=1)
    shared = run_all(path, cores=cores)
    for one, other in zip(alone, shared, strict=True):
        assert_same(one, other)


@linux
def test_chains_run_in_other_processes_once_patience_is_over(impatient):
    class Where(Slow):
        def posterior(self, rng, particles):
            return {"process": np.full(len(particles), os.getpid())}

    places = {int(chain.draws["process"][0]) for chain in run_all(Where([0.1, 0.2]), cores=2)}
    assert os.getpid() not in places
    assert len(places) == 2


def test_a_chain_can_be_stopped_and_continued():
    path = GaussianChain([0.5, -1.0, 2.0, 0.1])
    whole = run_chain(path, TASK, 0, np.random.default_rng(1))
    part = run_chain(path, TASK, 0, np.random.default_rng(1), lambda so_far: False)
    assert isinstance(part, Unfinished)
    assert len(part.history) == 1
    part = pickle.loads(pickle.dumps(part))
    rest = run_chain(path, TASK, 0, part)
    assert isinstance(rest, Chain)
    assert_same(rest, whole)


class Failing(Slow):
    """Fails in its third step, in one chain only."""

    def smooth(self, rng, n, particles):
        if n == 3 and rng.random() < 0.5:
            raise FloatingPointError("overflow in the model")
        return super().smooth(rng, n, particles)


@linux
@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_work_is_shared_out_to_forked_processes(workers):
    assert map_forked(lambda number: number**2, 7, workers) == [k**2 for k in range(7)]


@linux
def test_work_of_a_forked_process_that_dies_is_done_here():
    here = os.getpid()

    def work(number):
        if os.getpid() != here and number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert map_forked(work, 8, 2) == list(range(8))


@linux
def test_warnings_of_forked_processes_arrive():
    def work(number):
        warnings.warn(f"number {number}", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="number") as caught:
        map_forked(work, 3, 2)
    assert {str(w.message) for w in caught} == {"number 0", "number 1", "number 2"}


@pytest.mark.parametrize("place", ["here", "threads", "forked", "thread pool"])
def test_a_failure_names_chain_step_and_variable_and_keeps_the_others(impatient, place):
    path = Failing([0.1] * 5)
    path.placement = Placement.PROCESSES if place == "forked" else Placement.THREADS
    options = {"here": {"cores": 1}, "thread pool": {"executor": ThreadPoolExecutor(2)}}
    with pytest.raises(ChainError, match=r"step 2, on x\[3\]: FloatingPointError: over") as caught:
        run_all(path, **options.get(place, {"cores": 2}))
    error = caught.value
    assert (error.step, error.variable) == (2, "x[3]")
    assert f"Chain {error.chain} failed" in str(error)
    assert all(isinstance(chain, Chain) for chain in error.finished)
    assert len(error.finished) < 4


@linux
def test_a_worker_that_dies_is_replaced(impatient, tmp_path):
    class Dying(Slow):
        def smooth(self, rng, n, particles):
            mark = tmp_path / "died"
            if n == 3 and os.getpid() != parent and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().smooth(rng, n, particles)

    parent = os.getpid()
    expected = run_all(Slow([0.1] * 4), cores=1)
    found = run_all(Dying([0.1] * 4), cores=2)
    assert (tmp_path / "died").exists()
    assert [c.log_evidence for c in found] == [c.log_evidence for c in expected]


@linux
def test_a_chain_that_kills_its_workers_is_given_up(impatient):
    class Deadly(Slow):
        def smooth(self, rng, n, particles):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChainError, match=r"died 3 times.*exit code -9.*fewer draws"):
        run_all(Deadly([0.1] * 4), cores=2)


@linux
def test_warnings_of_workers_arrive(impatient):
    class Impossible(Slow):
        def smooth(self, rng, n, particles):
            return Smoothed(np.full(len(particles), -np.inf))

    with pytest.warns(ZeroEvidenceWarning, match=r"after introducing x\[2\]") as caught:
        run_all(Impossible([0.1, 0.2]), cores=2)
    assert len(caught) == 4


@linux
def test_the_deadline_ends_workers_in_the_middle_of_a_step(impatient):
    path = Slow([0.1] * 3)
    path.seconds = 60.0
    started = time.time()
    task = Task(50, Settings(), deadline=Deadline.after(0.5))
    assert run_chains(Request(path, task, spawn_generators(1, 1)), cores=2) == [None, None]
    assert time.time() - started < 5


SCRIPT = """
import os, signal, sys, time
from pymc_arm import Settings
from pymc_arm.running import backends
from pymc_arm.running.chains import Task, spawn_generators
from pymc_arm.running.placement import Placement
from pymc_arm.testing import GaussianChain

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
backends.SECONDS_BEFORE_FORK = 0.0
class Slow(GaussianChain):
    placement = Placement.PROCESSES
    def smooth(self, rng, n, particles):
        os.write(1, f"worker {os.getpid()}\\n".encode())  # in one piece
        for _ in range(600):
            time.sleep(0.1)
        return super().smooth(rng, n, particles)

request = backends.Request(Slow([0.1] * 3), Task(50, Settings()), spawn_generators(1, 1))
backends.run_chains(request, cores=2)
"""


@linux
def test_interrupting_ends_all_workers_at_once():
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    workers = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    process.send_signal(signal.SIGINT)
    # Each of them would sleep for a minute.
    _, errors = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def build_model():
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.3)
        rate = pm.Beta("rate", 1, 1)
        pm.Binomial("y", n=10, p=0.5 * rate + 0.5 * label, observed=7)
    return model


@pytest.mark.slow
def test_a_pool_of_spawned_processes_gives_the_same_bits():
    """The model is sent, compiled there, and its pilot's choices go with it."""
    model = build_model()
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progressbar": False}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for allocation in ("adaptive", "pilot"):
            options["allocation"] = allocation
            here = pymc_arm.sample(model, return_inferencedata=False, cores=1, **options)
            there = pymc_arm.sample(model, return_inferencedata=False, executor=pool, **options)
            for one, other in zip(here, there, strict=True):
                assert_same(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forkserver", "loky"])
def test_other_pools_of_processes_give_the_same_bits(kind):
    path = GaussianChain([0.5, -1.0, 2.0])
    if kind == "loky":
        executor = pytest.importorskip("loky").ProcessPoolExecutor(1)
    else:
        executor = ProcessPoolExecutor(1, mp_context=get_context(kind))
    with executor as pool:
        there = run_all(path, executor=pool)
    for one, other in zip(run_all(path, cores=1), there, strict=True):
        assert_same(one, other)


class Elsewhere(Executor):
    """Threads that are not known to share this process."""

    def __init__(self, threads):
        self._pool = ThreadPoolExecutor(threads)

    def submit(self, call, /, *args):
        return self._pool.submit(call, *args)


class Faulty(Executor):
    """Does with each chain in turn what it is told to."""

    def __init__(self, *deeds):
        self.deeds, self.futures = iter(deeds), []

    def submit(self, call, /, *args):
        future, deed = Future(), next(self.deeds)
        if deed == "run":
            future.set_result(call(*args))
        elif deed == "lose":
            future.set_exception(OSError("worker lost"))
        elif deed == "break":
            raise RuntimeError("no more chains")
        self.futures.append(future)
        return future


def test_an_executor_that_loses_a_chain_keeps_the_others():
    executor = Faulty("run", "lose", "run", "run")
    message = r"Chain 1 was lost by the executor: OSError: worker lost"
    with pytest.raises(ChainError, match=message) as caught:
        run_all(GaussianChain([0.1] * 3), executor=executor)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(caught.value.finished) == 3


def test_an_executor_that_breaks_is_left_with_no_chains():
    executor = Faulty("wait", "wait", "break")
    with pytest.raises(RuntimeError, match="no more chains"):
        run_all(GaussianChain([0.1] * 3), executor=executor)
    assert [future.cancelled() for future in executor.futures] == [True, True]


def test_the_deadline_does_not_wait_for_an_executor():
    """It may have no workers at all, or none for some of the chains."""
    task = Task(50, Settings(), deadline=Deadline.after(1.0))
    executor = Faulty("run", "wait")
    ended = run_chains(
        Request(GaussianChain([0.1]), task, spawn_generators(1, 1)), executor=executor
    )
    assert [type(chain) for chain in ended] == [Chain, type(None)]
    assert executor.futures[1].cancelled()


@linux
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_errors_and_warnings_come_back_from_an_executor():
    class Impossible(GaussianChain):
        def smooth(self, rng, n, particles):
            return Smoothed(np.full(len(particles), -np.inf))

    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        with pytest.raises(ChainError, match=r"step 2, on x\[3\]: FloatingPointError"):
            run_all(Failing([0.1] * 5), executor=pool)
        with pytest.warns(ZeroEvidenceWarning):
            run_all(Impossible([0.1, 0.2]), executor=pool)


def test_a_path_is_made_once_in_each_process():
    made = []

    def recipe():
        made.append(1)
        return GaussianChain([0.1, 0.2])

    package = cloudpickle.dumps(recipe)
    call = cloudpickle.dumps((TASK, 0, np.random.default_rng(1)))
    first, second = (run_remotely(versions(), package, call).outcome for _ in range(2))
    assert_same(first, second)
    assert executors._unpack.cache_info().hits >= 1


def test_a_worker_with_another_version_says_so():
    other = {**versions(), "pymc_arm": "0.0.1"}
    with pytest.raises(RuntimeError, match=r"has pymc_arm .* \(not 0.0.1\). Install the same"):
        run_remotely(other, b"not even read", b"")


def test_a_worker_with_another_version_is_named_by_the_run(monkeypatch):
    older = {**versions(), "numpy": "1.0"}
    monkeypatch.setattr(executors, "versions", iter([older, *[versions()] * 4]).__next__)
    with pytest.raises(ChainError, match=r"The worker on .* has numpy .* \(not 1.0\). Install"):
        run_all(GaussianChain([0.1]), executor=Elsewhere(1))


@pytest.mark.parametrize("executor", ["dask", 4, lambda: None])
def test_what_is_no_executor_is_refused(executor):
    with pytest.raises(TypeError, match=r"is not a concurrent.futures.Executor"):
        pymc_arm.sample_path(GaussianChain([0.1]), executor=executor)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_killed_in_the_middle_changes_nothing(tmp_path):
    distributed = pytest.importorskip("distributed")

    class Traced(GaussianChain):
        def smooth(self, rng, n, particles):
            (tmp_path / str(os.getpid())).touch()
            time.sleep(0.1)
            return super().smooth(rng, n, particles)

    path = Traced([0.1] * 20)
    expected = [chain.log_evidence for chain in run_all(GaussianChain([0.1] * 20), cores=1)]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
        ThreadPoolExecutor(1) as killer,
    ):
        with pytest.raises(TypeError, match=r"give one, or client.get_executor\(\)"):
            pymc_arm.sample_path(path, executor=client)

        def kill_one():
            end = time.time() + 60
            while not list(tmp_path.iterdir()) and time.time() < end:
                time.sleep(0.05)
            time.sleep(0.3)
            os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)

        killed = killer.submit(kill_one)
        found = run_all(path, executor=client.get_executor())
        killed.result()
    assert [chain.log_evidence for chain in found] == expected
    assert len(list(tmp_path.iterdir())) >= 3
