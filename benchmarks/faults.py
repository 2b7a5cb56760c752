"""Runs that are killed, and give the same bits all the same.

``python -m benchmarks faults [--runs 50] [--workers 20] [--draws 300]``: runs with checkpoints are
killed with SIGKILL at random moments and resumed, and Dask workers are killed while chains run on
them. Each result is compared, bit by bit, with that of an uninterrupted run.

``python -m benchmarks overhead [--draws 1000]`` compares a run with checkpoints every five seconds
with one without, and one process with two, interleaved.
"""

import argparse
import hashlib
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pymc as pm

import pymc_arm
from pymc_arm.generic.compiled import compile_model

__all__ = ["COMMANDS"]


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


def fingerprint(path: pymc_arm.Path, draws: int, **options: Any) -> str:
    """Run, and return a digest of log Z and of all draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pymc_arm.sample_path(path, draws, random_seed=1, progressbar=False, **options)
    digest = hashlib.sha256(result.attrs["log_marginal_likelihood"].hex().encode())
    for values in result["posterior"].data_vars.values():
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def run_in_process(path: pymc_arm.Path, draws: int, directory: str, answers: Any) -> None:
    checkpoint = pymc_arm.Checkpoint(directory, seconds=0.0)
    answers.put(fingerprint(path, draws, checkpoint=checkpoint, resume=True))


def main_faults(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    path = compile_model(build())
    started = time.perf_counter()
    expected = fingerprint(path, options.draws)
    seconds = time.perf_counter() - started
    print(f"an uninterrupted run takes {seconds:.1f} s", flush=True)
    killed, same = _kill_runs(path, options.draws, options.runs, seconds, expected)
    print(f"{killed} runs killed and resumed: {same} identical results", flush=True)
    dask = _kill_workers(options.draws, options.workers)
    print(f"{options.workers} Dask workers killed: {dask} identical results")
    sys.exit(same < killed or dask < options.workers)


def _kill_runs(
    path: pymc_arm.Path, draws: int, runs: int, seconds: float, expected: str
) -> tuple[int, int]:
    """Kill a run at a random moment; if it was quicker, begin again."""
    context = multiprocessing.get_context("fork")
    moments = random.Random(1)
    killed = same = 0
    while killed < runs:
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
            killed += 1
            answers = context.Queue()
            process = context.Process(target=run_in_process, args=(*work[:3], answers))
            process.start()
            same += answers.get(timeout=600) == expected
            process.join()
    return killed, same


def _kill_workers(draws: int, workers: int) -> int:
    """Kill one of two Dask workers in each of several runs."""
    moments = random.Random(2)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    expected, seconds = _run_on_dask(draws)
    return sum(
        _run_on_dask(draws, moments.uniform(0.2, 0.8) * seconds)[0] == expected
        for _ in range(workers)
    )


def _run_on_dask(draws: int, kill_after: float | None = None) -> tuple[str, float]:
    """Return log Z to the last bit, and the seconds of the run.

    Each run has a cluster of its own: Dask does not always start a killed worker again.
    """
    from distributed import Client, LocalCluster

    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        ThreadPoolExecutor(1) as killer,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        processes = list(client.run(os.getpid).values())

        def kill() -> None:
            time.sleep(kill_after)
            os.kill(processes[0], signal.SIGKILL)

        killing = None if kill_after is None else killer.submit(kill)
        started = time.perf_counter()
        result = pymc_arm.sample(
            build(), draws, random_seed=1, progressbar=False, executor=client.get_executor()
        )
        seconds = time.perf_counter() - started
        if killing is not None:
            killing.result()
    return result.attrs["log_marginal_likelihood"].hex(), seconds


def main_overhead(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks overhead")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    path = compile_model(build())
    seconds: dict[str, list[float]] = {"one process": [], "two processes": [], "checkpoints": []}
    for _ in range(options.repeats):
        for name, times in seconds.items():
            with tempfile.TemporaryDirectory() as directory:
                extra = {"checkpoint": directory} if name == "checkpoints" else {}
                cores = 1 if name == "one process" else 2
                started = time.perf_counter()
                fingerprint(path, options.draws, cores=cores, **extra)
                times.append(time.perf_counter() - started)
                print(f"{name}: {times[-1]:.2f} s", flush=True)
    one, two, checkpoints = (min(times) for times in seconds.values())
    print(f"two processes: {one / two:.2f}x; checkpoints: {100 * (checkpoints / two - 1):+.1f} %")


COMMANDS = {"faults": main_faults, "overhead": main_overhead}
