"""Many models with least effort: subsets of predictors, against the exact answer.

``python -m benchmarks subsets [--predictors 6] [--draws 250] [--seed 1]`` takes the first
predictors of the diabetes data of scikit-learn with a conjugate prior, and compares the models of
all subsets by ``compare(..., settle=...)``: once for the probability of each predictor, once for
the order. It prints probabilities beside the exact ones, and the effort: models and chains that
were run and CPU seconds, beside those of 20 models, drawn at random, that are run with the same
settings (``target_se``) and ``settle=None``, times the number of models over 20. With ``--workers
2`` the chains run on so many Dask workers, one of which is killed in the midst of a chain, when it
has had chains for ``--kill`` seconds, and CPU seconds are those of this process and of all workers.
"""

import argparse
import contextlib
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from scipy import special

import pymc_arm
from benchmarks.inclusion import RATE, SCALE, SHAPE, exact_logs, read_diabetes

__all__ = ["COMMANDS", "build_subsets"]


def build_subsets(x: np.ndarray, y: np.ndarray, labels: list[str]) -> dict[str, pm.Model]:
    """Return the models of all subsets of predictors, in the order of :func:`exact_logs`."""
    found = {}
    for number in range(2 ** len(labels)):
        inside = [place for place in range(len(labels)) if number >> place & 1]
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", SHAPE, RATE)
            mean: Any = 0.0
            if inside:
                b = pm.Normal("b", 0, SCALE * pm.math.sqrt(variance), shape=len(inside))
                mean = pm.math.dot(x[:, inside], b)
            pm.Normal("y", mean, pm.math.sqrt(variance), observed=y)
        found[" + ".join(labels[place] for place in inside) or "none"] = model
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks subsets")
    parser.add_argument("--predictors", type=int, default=6)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sampled", type=int, default=20)
    parser.add_argument("--goals", nargs="+", default=["predictors", "order"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--kill", type=float, default=20.0)
    parser.add_argument("--table", type=Path, help="where to write the table")
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    x, y, labels = read_diabetes(options.predictors)
    logs, inside = exact_logs(x, y)
    keywords = {"draws": options.draws, "cores": 1, "progressbar": False, "target_se": 0.005}
    keywords["random_seed"] = options.seed
    count = len(logs)
    models = build_subsets(x, y, labels)
    names = list(models)
    if options.sampled:
        chosen = np.random.default_rng(options.seed).choice(count, options.sampled, replace=False)
        started = time.process_time()
        pymc_arm.compare({names[place]: models[names[place]] for place in chosen}, **keywords)
        each = (time.process_time() - started) / len(chosen)
        print(f"{count} models; all of them with settle=None: {each * count:.0f} CPU seconds")
    groups = {
        label: [name for name, row in zip(names, inside, strict=True) if row[place]]
        for place, label in enumerate(labels)
    }
    exact = special.softmax(logs)
    if options.workers:
        del keywords["cores"]  # the workers are those of the cluster
    for goal in options.goals:
        models = build_subsets(x, y, labels)
        settle = "order" if goal == "order" else groups
        started = _cpu_seconds()
        with _workers(options.workers, options.kill) as executor:
            table = pymc_arm.compare(models, settle=settle, executor=executor, **keywords)
        seconds = _cpu_seconds() - started
        found = table.group_probabilities(groups)
        error = np.abs(found["probability"] - exact @ inside).max()
        by_name = dict(zip(names, logs, strict=True))
        ran = table[table["chains"] > 0]
        exact_order = np.array(sorted(names, key=by_name.__getitem__, reverse=True))
        differing = np.flatnonzero(exact_order != table.index.to_numpy())
        same = int(differing[0]) if len(differing) else count
        print(
            f"settle {goal}: {len(ran)} models and {table['chains'].sum()} chains in "
            f"{seconds:.0f} CPU seconds; largest error of an inclusion probability {error:.4f}; "
            f"the first {same} models in the exact order (probability "
            f"{np.sort(exact)[::-1][:same].sum():.3f})"
        )
        if goal != "order":
            print(found.assign(exact=exact @ inside).round(4))
        shown = ["log_evidence", "standard_error", "probability", "settled", "chains"]
        print(table.head(8)[shown].round(4).to_string(), flush=True)
        if options.table is not None:
            table.drop(columns="seconds").to_csv(options.table)


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@contextlib.contextmanager
def _workers(count: int, seconds: float) -> Iterator[Executor | None]:
    """Yield an executor of Dask workers, one of which is killed in the midst of it, or None."""
    if not count:
        yield None
        return
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = client.run(os.getpid)
        ended = threading.Event()
        killer = threading.Thread(target=_kill_busy, args=(client, before, seconds, ended))
        killer.start()
        try:
            yield client.get_executor()
        finally:
            ended.set()
            killer.join()
        after = client.run(os.getpid)
        print(f"workers {sorted(before.values())} at first, {sorted(after.values())} at the end")


def _kill_busy(
    client: Any, workers: dict[str, int], seconds: float, ended: threading.Event
) -> None:
    """Kill the worker that has had chains for so many seconds, if it has one."""
    busy = None
    while not ended.wait(0.2):
        running = {worker: tasks for worker, tasks in client.processing().items() if tasks}
        if not running:
            continue
        busy = busy or time.monotonic()
        worker = next(iter(running))
        if time.monotonic() - busy >= seconds and worker in workers:
            os.kill(workers[worker], signal.SIGKILL)
            print(f"killed {workers[worker]}, which had {len(running[worker])} chains to run")
            return


COMMANDS = {"subsets": main}
