"""Where there is no fork, new interpreters help, with the same bits."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm._compat import get_group
from pymc_arm.running import spawned
from pymc_arm.running.placement import Placement
from pymc_arm.running.spawned import SpawnedWorkers, can_spawn
from pymc_arm.testing import GaussianChain

ROOT = Path(__file__).parents[2]
OPTIONS = {"draws": 60, "random_seed": 1, "progressbar": False}


@pytest.fixture
def no_fork(monkeypatch):
    """Forbid forks, and let helpers start at once."""
    monkeypatch.setenv("PYMC_ARM_NO_FORK", "1")
    monkeypatch.setattr(spawned, "SECONDS_BEFORE_SPAWN", 0.0)


@pytest.fixture
def used(monkeypatch):
    """Count what helpers are asked to do."""
    calls = []
    submit = SpawnedWorkers.submit

    def counted(self, *args):
        calls.append(args[0])
        return submit(self, *args)

    monkeypatch.setattr(SpawnedWorkers, "submit", counted)
    return calls


@pytest.fixture
def workers():
    with SpawnedWorkers(1) as workers:
        yield workers


def make_model():
    with pm.Model() as model:
        center = pm.Normal("center", 0.0, 3.0)
        spread = pm.HalfNormal("spread", 2.0)
        pm.Normal("y", center, spread, observed=[0.3, -1.0, 2.5, 1.1])
    return model


@pytest.mark.parametrize("start", ["prior", "reference"])
@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_the_same_bits(no_fork, used, start):
    results = [
        pymc_arm.sample(make_model(), cores=cores, start=start, **OPTIONS) for cores in (1, 2)
    ]
    assert len(used) >= 3
    alone, helped = (get_group(result, "posterior") for result in results)
    assert alone.equals(helped)
    assert (
        results[0].attrs["log_marginal_likelihood"] == results[1].attrs["log_marginal_likelihood"]
    )


def test_errors_come_back(workers):
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result()
    assert workers.submit(divmod, 7, 2).result() == (3, 1)


def test_what_a_model_prints_is_no_answer(workers, capfd):
    assert workers.submit(print, "a line of the model").result() is None
    assert workers.submit(divmod, 7, 2).result() == (3, 1)


def test_a_worker_that_dies_is_replaced(workers):
    with pytest.raises(RuntimeError, match="exit code 3"):
        workers.submit(os._exit, 3).result()
    assert workers.submit(divmod, 7, 2).result() == (3, 1)


def path_in_processes():
    path = GaussianChain([0.5, -1.0, 2.0])
    path.placement = Placement.PROCESSES
    return path


def sampled(path, cores):
    result = pymc_arm.sample_path(path, cores=cores, **OPTIONS)
    return result.attrs["log_marginal_likelihood"]


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_what_helpers_lose_is_done_here(no_fork, monkeypatch):
    expected = sampled(path_in_processes(), 1)
    monkeypatch.setattr(spawned, "BOOTSTRAP", "import sys; sys.exit(1)")
    fresh = SpawnedWorkers(1)
    monkeypatch.setattr(spawned, "spawned_workers", lambda count: fresh)
    with fresh:
        assert sampled(path_in_processes(), 2) == expected


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_what_cannot_be_sent_is_run_here(no_fork, used):
    expected = sampled(path_in_processes(), 1)
    path = path_in_processes()
    path.lock = threading.Lock()
    assert sampled(path, 2) == expected
    assert not used


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_a_failure_is_told(no_fork):
    class Failing(GaussianChain):
        placement = Placement.PROCESSES

        def augment(self, rng, position, particles, proposal):
            if len(particles) > 1:  # one particle is how the memory is measured
                raise ValueError("no more")
            return super().augment(rng, position, particles, proposal)

    with pytest.raises(pymc_arm.ChainError, match="no more"):
        pymc_arm.sample_path(Failing([0.5, 1.0]), cores=2, **OPTIONS)


def test_a_script_needs_no_guard(tmp_path):
    """Its model is of its own main module, which helpers do not import."""
    script = tmp_path / "script.py"
    script.write_text(
        "import pymc as pm, pymc_arm\n"
        "from pymc_arm.running import spawned\n"
        "print('begin')\n"
        "spawned.SECONDS_BEFORE_SPAWN = 0.0\n"
        "def log_density(value, center):\n"
        "    return -0.5 * (value - center) ** 2\n"
        "with pm.Model() as model:\n"
        "    m = pm.Normal('m', 0, 1)\n"
        "    pm.CustomDist('y', m, logp=log_density, observed=[0.5, 1.0])\n"
        "result = pymc_arm.sample(\n"
        "    model, draws=60, cores=2, random_seed=1, start='prior', progressbar=False)\n"
        "print(result.attrs['log_marginal_likelihood'])\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYMC_ARM_NO_FORK": "1", "PYTHONPATH": path},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    begin, log_z = ran.stdout.split()
    assert begin == "begin"
    # With m integrated out: the normalisers are missing from the data's density.
    exact = np.log(3.0) * -0.5 - 0.5 * (0.25 + 1.0 - 1.5**2 / 3.0)
    assert float(log_z) == pytest.approx(exact, abs=0.05)


def test_workers_of_a_pool_start_no_others(monkeypatch):
    assert can_spawn()
    monkeypatch.setattr(sys, "executable", "")
    assert not can_spawn()


def test_a_copy_of_a_process_has_helpers_of_its_own(monkeypatch):
    """It has none of the threads that speak to those of its parent, and would wait for ever."""
    mine = spawned.spawned_workers(1)
    assert spawned.spawned_workers(1) is mine
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert spawned.spawned_workers(1) is not mine
