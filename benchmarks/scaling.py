"""What a comparison of many models takes on many workers.

``python -m benchmarks scaling [--models 3] [--chains 4] [--draws 300] [--workers 1 2]`` measures
the parts of a run in processor seconds and bytes: what this process does for a model, what a worker
does to compile it, and its chains. With them it goes through the queue of 50 models of 16 chains on
1, 10 and 100 workers, on paper, and once more with chains that take a hundred times as long. With
``--workers`` it also runs a few models on a Dask cluster of this machine, which takes as many
processors, and prints the seconds beside those of the paper.
"""

import argparse
import heapq
import logging
import pickle
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
import pymc as pm

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.running.chains import Task, run_chain, spawn_generators

__all__ = ["COMMANDS"]

MODELS, CHAINS, WORKERS = 50, 16, (1, 10, 100)
# How many times as long chains are in the second table.
LONGER = 100


def build(seed: int) -> pm.Model:
    """Return a hierarchical model of 12 groups, with a covariate of its own."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(12), 10)
    covariate = rng.normal(size=120)
    y = rng.normal(size=12)[groups] + 0.5 * covariate + rng.normal(size=120)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        slope = pm.Normal("slope", 0, 1)
        effect = pm.Normal("effect", 0, scale, shape=12)
        pm.Normal("y", effect[groups] + slope * covariate, 1, observed=y)
    return model


@dataclass(frozen=True)
class Costs:
    """Processor seconds of the parts of a run."""

    compilation: float
    chain: tuple[float, ...]
    conclusion: float  # refining and pooling the chains of a model


def measure(draws: int, chains: int, models: int) -> Costs:
    """Measure the parts, and print them with the bytes that are sent."""
    _parts(build(0), 20, 1)  # what happens only once in a process
    parts = [_parts(build(seed), draws, chains) for seed in range(1, models + 1)]
    compilation, conclusion = (float(np.mean([part[k] for part in parts])) for k in (0, 2))
    seconds = tuple(second for part in parts for second in part[1])
    package, call, back = parts[0][3]
    print(
        f"processor seconds: compile {compilation:.2f}, a chain {np.mean(seconds):.2f} (standard "
        f"deviation {np.std(seconds):.2f}), conclude {conclusion:.2f}\n"
        f"bytes: a model {package:,}, a chain's start {call:,}, a chain's end {back:,}",
        flush=True,
    )
    return Costs(compilation, seconds, conclusion)


def _parts(
    model: pm.Model, draws: int, chains: int
) -> tuple[float, list[float], float, tuple[int, int, int]]:
    started = time.process_time()
    path = compile_model(model)
    path.prepare()  # the gradient
    compilation = time.process_time() - started
    task = Task(draws, pymc_arm.Settings(resample_threshold=0.9))
    seconds, ends = [], []
    for number, rng in enumerate(spawn_generators(1, chains)[:-1]):
        started = time.process_time()
        ends.append(run_chain(path, task, number, rng))
        seconds.append(time.process_time() - started)
    started = time.process_time()
    pymc_arm.sample(model, draws, chains=chains, cores=1, random_seed=1, progressbar=False)
    conclusion = max(time.process_time() - started - sum(seconds), 0.0)
    sizes = (
        len(cloudpickle.dumps(model)),
        len(cloudpickle.dumps((task, 0, np.random.default_rng(1)))),
        len(pickle.dumps(ends[0])),
    )
    return compilation, seconds, conclusion, sizes


def queue_of_chains(costs: Costs, models: int, chains: int, workers: int) -> float:
    """Return the seconds of ``compare`` with an executor that hands chains out in order.

    This process compiles all models, one after another, then concludes each when its chains are
    there; a worker compiles each model that it meets.
    """
    free = [(0.0, worker) for worker in range(workers)]
    met: list[set[int]] = [set() for _ in range(workers)]
    done = np.zeros(models)
    for model in range(models):
        submitted = (model + 1) * costs.compilation
        for chain in range(chains):
            ready, worker = heapq.heappop(free)
            compiles = 0.0 if model in met[worker] else costs.compilation
            met[worker].add(model)
            seconds = costs.chain[(model * chains + chain) % len(costs.chain)]
            end = max(ready, submitted) + compiles + seconds
            done[model] = max(done[model], end)
            heapq.heappush(free, (end, worker))
    clock = models * costs.compilation
    for end in np.sort(done):
        clock = max(clock, end) + costs.conclusion
    return float(clock)


def queue_of_models(costs: Costs, models: int, chains: int, workers: int) -> float:
    """Return the seconds if each task is a model with all of its chains."""
    task = costs.compilation + chains * float(np.mean(costs.chain)) + costs.conclusion
    return -(-models // workers) * task


def run_on_cluster(models: int, chains: int, draws: int, workers: int) -> float:
    """Return the seconds of a comparison on a cluster of this machine that is up already."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    candidates = {str(seed): build(seed) for seed in range(1, models + 1)}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        options = {"executor": client.get_executor(), "random_seed": 1, "progressbar": False}
        pymc_arm.sample(build(0), 20, chains=workers, **options)
        started = time.perf_counter()
        pymc_arm.compare(candidates, draws=draws, chains=chains, **options)
        return time.perf_counter() - started


def table(costs: Costs, workers: Sequence[int]) -> None:
    """Print what the paper says."""
    print(f"\n{MODELS} models x {CHAINS} chains of {np.mean(costs.chain):.1f} s:\n")
    alone = queue_of_chains(costs, MODELS, CHAINS, 1)
    print("| workers | chains as tasks | faster | models as tasks |\n|---|---|---|---|")
    for number in workers:
        seconds = queue_of_chains(costs, MODELS, CHAINS, number)
        whole = queue_of_models(costs, MODELS, CHAINS, number)
        print(f"| {number} | {seconds:.0f} s | {alone / seconds:.1f}x | {whole:.0f} s |")


def main_scaling(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling")
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--workers", type=int, nargs="*", default=[])
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    costs = measure(options.draws, options.chains, options.models)
    for workers in options.workers:
        expected = queue_of_chains(costs, options.models, options.chains, workers)
        seconds = run_on_cluster(options.models, options.chains, options.draws, workers)
        print(
            f"{options.models} models x {options.chains} chains on {workers} workers: "
            f"{seconds:.1f} s, {expected:.1f} s on paper",
            flush=True,
        )
    for factor in (1, LONGER):
        longer = tuple(factor * seconds for seconds in costs.chain)
        table(replace(costs, chain=longer), WORKERS)


COMMANDS = {"scaling": main_scaling}
