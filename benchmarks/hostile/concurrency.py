"""The same bits wherever a run is called from: threads, copies, pools, Dask, beside JAX.

Each place is tried in a process of its own, with a limit of time, so that one that waits for ever
is counted and ends.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pymc_arm
from benchmarks.hostile.killed import build, digest
from benchmarks.hostile.tally import Tally

__all__ = ["tally_places"]

DRAWS = 100
# A place takes up to 20 s with its imports on a quiet machine.
LARGEST_SECONDS = 300


def run(cores: int = 2) -> str:
    """Return the digest of a run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"random_seed": 1, "progressbar": False, "cores": cores, "chains": 4}
        return digest(pymc_arm.sample(build(), DRAWS, **options))


def _on_threads() -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, [2, 1]))


def _beside_a_thread() -> list[str]:
    """Run while another thread multiplies, compiles and prints, as a notebook does."""
    found: list[str] = []
    other = threading.Thread(target=lambda: found.append(run(1)))
    other.start()
    found.append(run(2))
    other.join()
    return found


def _in_a_pool(method: str) -> list[str]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        return list(pool.map(run, [1, 2]))


def _in_a_child(method: str) -> list[str]:
    """Run in a child of a process that has run itself, and in the parent after it."""
    first = run(2)
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=_answer, args=(answers,))
    child.start()
    found = answers.get(timeout=LARGEST_SECONDS)
    child.join()
    return [first, found, run(2)]


def _answer(answers: Any) -> None:
    answers.put(run(2))


def _in_a_daemon() -> list[str]:
    """Run in a worker of a pool that may have no children."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return list(pool.map(run, [2, 2]))


def _on_dask() -> list[str]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        futures = [client.submit(run, cores, pure=False) for cores in (1, 2)]
        return [future.result() for future in futures]


def _after(module: str) -> list[str]:
    """Run after another library has started its threads."""
    library: Any = importlib.import_module(module)
    if module == "jax":
        library.numpy.ones((200, 200)).dot(library.numpy.ones((200, 200))).block_until_ready()
    else:
        library.ones((200, 200)) @ library.ones((200, 200))
    return [run(2), *_in_a_child("fork" if module != "jax" else "spawn")]


PLACES: dict[str, Callable[[], list[str]]] = {
    "alone": lambda: [run(1), run(2)],
    "two threads": _on_threads,
    "beside a thread": _beside_a_thread,
    "forked child": lambda: _in_a_child("fork"),
    "spawned child": lambda: _in_a_child("spawn"),
    "pool of forked processes": lambda: _in_a_pool("fork"),
    "pool of spawned processes": lambda: _in_a_pool("spawn"),
    "pool of daemons": _in_a_daemon,
    "Dask worker": _on_dask,
    "after JAX": lambda: _after("jax"),
    "after torch": lambda: _after("torch"),
}


def tally_places() -> Tally:
    """Run in each place, and compare with a run alone."""
    tally = Tally("places to call from")
    expected = ""
    for place in PLACES:
        command = [sys.executable, "-m", "benchmarks.hostile.concurrency", place]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=LARGEST_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            tally.add("no end", f"{place}: no end in {LARGEST_SECONDS} s")
            continue
        lines = [line for line in ended.stdout.splitlines() if line.startswith("digest ")]
        found = {line.split()[1] for line in lines}
        if "ModuleNotFoundError" in ended.stderr and not lines:
            print(f"{place}: not installed")
            continue
        expected = expected or next(iter(found), "")
        same = found == {expected} and ended.returncode == 0
        why = ended.stderr.strip().splitlines()[-1:] or [f"other bits: {found}"]
        tally.add("same bits" if same else "failed", "" if same else f"{place}: {why[0]}")
    return tally


if __name__ == "__main__":
    for each in PLACES[sys.argv[1]]():
        print("digest", each, os.getpid(), flush=True)
