"""Runs that are killed, and give the same bits all the same.

Runs with checkpoints are killed with SIGKILL at random moments and resumed, and Dask workers are
killed while chains run on them. Each result is compared, bit by bit, with that of an uninterrupted
run.
"""

import contextlib
import hashlib
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.hostile.tally import Tally
from pymc_arm.models.compiled import compile_model

__all__ = ["build", "digest", "tally_killed_runs", "tally_killed_workers"]


def build() -> pm.Model:
    """Return a model with global, local and discrete variables."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(8), 5)
    y = rng.normal(rng.normal(0, 1, 8)[groups], 1)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        shift = pm.Bernoulli("shift", 0.5)
        effect = pm.Normal("effect", 0, scale, shape=8)
        pm.Normal("y", effect[groups] + shift, 1, observed=y)
    return model


def digest(result: Any) -> str:
    """Return a digest of log Z and of all draws."""
    found = hashlib.sha256(result.attrs["log_marginal_likelihood"].hex().encode())
    for values in result["posterior"].data_vars.values():
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def fingerprint(path: pymc_arm.Path, draws: int, **options: Any) -> str:
    """Run, and return the digest of the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(
            pymc_arm.sample_path(path, draws, random_seed=1, progressbar=False, **options)
        )


def run_in_process(path: pymc_arm.Path, draws: int, directory: str, answers: Any) -> None:
    checkpoint = pymc_arm.Checkpoint(directory, seconds=0.0)
    answers.put(fingerprint(path, draws, checkpoint=checkpoint, resume=True))


def tally_killed_runs(runs: int, draws: int = 300) -> Tally:
    """Kill so many runs, and resume them."""
    path = compile_model(build())
    started = time.perf_counter()
    expected = fingerprint(path, draws)
    seconds = time.perf_counter() - started
    return _kill_runs(path, draws, runs, seconds, expected)


def tally_killed_workers(workers: int, draws: int = 300) -> Tally:
    """Kill so many Dask workers while chains run on them."""
    tally = Tally("Dask workers killed")
    for same in _kill_workers(draws, workers):
        tally.add("same bits" if same else "other bits", "" if same else "a result has other bits")
    return tally


def _kill_runs(path: pymc_arm.Path, draws: int, runs: int, seconds: float, expected: str) -> Tally:
    """Kill a run at a random moment; if it was quicker, begin again."""
    context = multiprocessing.get_context("fork")
    moments = random.Random(1)
    tally = Tally("runs killed and resumed")
    while tally.tried < runs:
        with tempfile.TemporaryDirectory() as directory:
            answers = context.Queue()
            work = (path, draws, directory, answers)
            process = context.Process(target=run_in_process, args=work)
            process.start()
            time.sleep(moments.uniform(0.0, seconds))
            if not process.is_alive():
                continue
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            answers = context.Queue()
            process = context.Process(target=run_in_process, args=(*work[:3], answers))
            process.start()
            same = answers.get(timeout=600) == expected
            process.join()
            tally.add("same bits" if same else "other bits", "" if same else "other bits")
    return tally


def _kill_workers(draws: int, workers: int) -> list[bool]:
    """Kill one of two Dask workers while chains run; if they were quicker, begin again.

    They are processes of ours without a nanny: one that is slow to start would not be waited for.
    """
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    moments = random.Random(2)
    model = build()
    expected = digest(pymc_arm.sample(model, draws, random_seed=1, progressbar=False))
    same: list[bool] = []
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        contextlib.ExitStack() as started,
    ):

        def start() -> subprocess.Popen[bytes]:
            options = ["--no-nanny", "--no-dashboard", "--nthreads", "1"]
            command = [sys.executable, "-m", "distributed.cli.dask_worker", *options]
            process = subprocess.Popen(
                [*command, cluster.scheduler_address], stderr=subprocess.DEVNULL
            )
            started.callback(process.kill)
            return process

        processes = [start(), start()]
        _wait_for(client, processes)
        _, seconds, _ = _run_on_dask(client, model, draws)
        while len(same) < workers:
            moment = moments.uniform(0.0, seconds)
            found, _, in_time = _run_on_dask(client, model, draws, moment, processes[0])
            if not in_time:
                continue
            same.append(found == expected)
            processes = [processes[1], start()]
            _wait_for(client, processes)
    return same


def _wait_for(client: Any, processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the scheduler knows these workers, and no dead one."""
    wanted, found = {process.pid for process in processes}, None
    while found != wanted:
        time.sleep(0.5)
        with contextlib.suppress(OSError):  # it may not have heard of a death
            found = set(client.run(os.getpid).values())


def _run_on_dask(
    client: Any,
    model: pm.Model,
    draws: int,
    kill_after: float | None = None,
    process: subprocess.Popen[bytes] | None = None,
) -> tuple[str, float, bool]:
    """Return the digest, the seconds of the run, and whether a worker was killed before its end."""
    ended = threading.Event()

    def run(draws: int, chains: int) -> Any:
        options = {"random_seed": 1, "progressbar": False, "executor": client.get_executor()}
        return pymc_arm.sample(model, draws, chains=chains, **options)

    def kill() -> bool:
        in_time = not ended.wait(kill_after)
        if in_time:
            process.kill()
            process.wait()
        return in_time

    run(2, 2)  # workers import and compile before the time is taken
    with ThreadPoolExecutor(1) as killer:
        killing = None if kill_after is None else killer.submit(kill)
        started = time.perf_counter()
        result = run(draws, 4)
        seconds = time.perf_counter() - started
        ended.set()
        in_time = killing is not None and killing.result()
    return digest(result), seconds, in_time
