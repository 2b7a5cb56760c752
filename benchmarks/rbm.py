"""Restricted Boltzmann machines: precision for time, against AIS, and the speed of the kernels.

``rbm`` compares Resample-Move, Adaptive Resample-Move and its variants with annealed importance
sampling that is given the same time in the same run. ``rbm-step`` times a Gibbs step against the
peak of single-precision matrix products. ``rbm-digits`` draws particles as images, as in the paper.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit
from scipy.special import expit

import pymc_arm
from benchmarks.ceiling import measure_gain
from benchmarks.rbm_rows import Row, claims
from pymc_arm.algorithm.allocation import predicted_variance
from pymc_arm.algorithm.arm import initialize, iterate
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.families.rbm import Machine, RBMPath, TemperedRBMPath, tempered_path
from pymc_arm.families.rbm.kernels import _excess, gibbs_tile
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS
from pymc_arm.families.rbm.threads import TilePool
from pymc_arm.running.processors import one_blas_thread

FOLDER = Path(os.environ.get("PYMC_ARM_DATA", Path(__file__).parents[2] / "shared" / "data"))
# File and reference log Z with its standard error.
MACHINES = {
    "cd25": ("rbm_cd25_500.npz", 451.28, 0.03),
    "pcd": ("rbm_pcd_500.npz", 1006.57, 0.05),
    "small": ("rbm_784x15.npz", 215.138406, 0.0),
}
# The paper's: twice as many for PCD.
RESEED_TRANSITIONS = {"cd25": 1500, "pcd": 3000, "small": 1500}


@dataclass(frozen=True)
class Method:
    """A way to estimate log Z: options of the path on which units come in, and settings.

    Without options the path is the tempered one.
    """

    name: str
    path: dict | None
    settings: dict


# No generate rounds: a step that falls below a high threshold is resampled, then moved.
EARLY = {"variant": "arm", "threshold": 0.97, "max_rounds": 0}
# Those without a comment are the paper's: t = 10, threshold 0.7, at most 3 rounds.
METHODS = [
    Method("RM", {}, {"variant": "rm"}),
    Method("ARM", {}, {"variant": "arm"}),
    Method("ARM-anticipate", {}, {"variant": "anticipate"}),
    Method("ARM-reseed", {}, {"variant": "reseed", "max_rounds": 2}),
    Method("early", {}, EARLY),
    Method("look-ahead", {"lookahead": "data"}, EARLY),
    Method("look-ahead, t = 40", {"lookahead": "data", "gibbs_steps": 40}, EARLY),
    # The default of pymc_arm.rbm with data.
    Method("tempered", None, TEMPERED_SETTINGS),
    Method("tempered, 0.999", None, {**TEMPERED_SETTINGS, "threshold": 0.999}),
]


def load_machine(name: str) -> Machine:
    with np.load(FOLDER / MACHINES[name][0]) as arrays:
        return Machine(arrays["W"], arrays["a"], arrays["b"])


def load_digits() -> np.ndarray:
    with np.load(FOLDER / "mnist.npz") as arrays:
        return (arrays["train_images"] > 127).astype(np.uint8)


@njit(
    "void(f4[:, ::1], f4, f8[::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz"},
)
def tempered_difference(hidden, ratio, out):
    """Set ``out`` to sum_h softplus(ratio g_h) - softplus(g_h), and multiply g by ``ratio``."""
    for row in range(hidden.shape[0]):
        total = 0.0
        for first in range(0, hidden.shape[1], 64):
            linear, above, below = np.float32(0.0), np.float32(1.0), np.float32(1.0)
            for unit in range(first, min(first + 64, hidden.shape[1])):
                old = hidden[row, unit]
                new = ratio * old
                linear += max(new, np.float32(0.0)) - max(old, np.float32(0.0))
                above *= _excess(new)
                below *= _excess(old)
                hidden[row, unit] = new
            total += np.float64(linear) + np.log(np.float64(above) / np.float64(below))
        out[row] = total


def annealed_importance_sampling(
    machine: Machine,
    base_rates: np.ndarray,
    chains: int,
    pool: TilePool,
    temperatures: int,
    rng: np.random.Generator,
    seconds: float = np.inf,
) -> tuple[float, int]:
    """Estimate log Z by AIS on the geometric path from the base-rate machine.

    log f_beta(x) = ((1 - beta) a_0 + beta a)^T x + sum_h softplus(beta (b_h + W_h^T x)), one Gibbs
    step at each beta. Stops, with no estimate, when ``seconds`` are over; returns log Z and the
    number of temperatures reached, so that a first run can find how many fit into a given
    processor time.
    """
    rates = np.clip(base_rates, 1 / 60_000, 1 - 1 / 60_000)
    start = np.log(rates / (1 - rates))
    bits = (rng.random((chains, len(rates))) < rates).astype(np.uint8)
    hidden = (bits @ machine.W + machine.b).astype(np.float32)
    weights = np.ascontiguousarray(machine.W, dtype=np.float32)
    log_weights = np.zeros(chains)
    difference = np.empty(chains)

    def gibbs_step(beta: float) -> None:
        key = rng.integers(2**64, dtype=np.uint64)
        scaled = weights * np.float32(beta)
        visible_bias = ((1 - beta) * start + beta * machine.a).astype(np.float32)
        hidden_bias = (beta * machine.b).astype(np.float32)

        def on_tile(tile: slice) -> None:
            first = np.uint64(tile.start)
            gibbs_tile(hidden[tile], bits[tile], scaled, visible_bias, hidden_bias, 1, key, first)

        pool.run(on_tile, chains, hidden.size)

    def raise_temperature(ratio: float) -> None:
        def on_tile(tile: slice) -> None:
            tempered_difference(hidden[tile], np.float32(ratio), difference[tile])

        pool.run(on_tile, chains, hidden.size)

    betas = np.linspace(0, 1, temperatures + 1)
    began = time.process_time()
    with one_blas_thread():
        for step, (old, new) in enumerate(pairwise(betas)):
            if time.process_time() - began > seconds:
                return np.nan, step
            if step == 0:
                hidden *= np.float32(new)
                difference[:] = (np.logaddexp(0, hidden, dtype=float) - np.log(2)).sum(axis=1)
            else:
                raise_temperature(new / old)
            log_weights += (new - old) * (bits @ (machine.a - start)) + difference
            gibbs_step(new)
    log_start = np.logaddexp(0, start).sum() + machine.hidden_units * np.log(2)
    return log_start + log_mean_exp(log_weights), temperatures


def main_rbm(arguments: list[str]) -> None:
    """Compare all methods on trained machines, and say which claims of the paper hold."""
    parser = argparse.ArgumentParser(prog="benchmarks rbm", description=main_rbm.__doc__)
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=["cd25", "pcd"])
    parser.add_argument("--particles", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--cell", type=float, default=np.inf, help="no more runs than fit into so many seconds"
    )
    parser.add_argument("--fewest", type=int, default=4, help="runs, however long they take")
    names = [method.name for method in METHODS]
    parser.add_argument("--methods", nargs="+", choices=names, default=names)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--ais-chains", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--ais", nargs="*", choices=names, default=["ARM", "tempered"], help="who AIS is timed by"
    )
    options = parser.parse_args(arguments)
    digits = load_digits()
    base_rates = digits.mean(axis=0)
    for name in options.machines:
        machine = load_machine(name)
        reference = MACHINES[name][1:]
        for particles in options.particles:
            print(f"\n{name}: log Z {reference[0]} (se {reference[1]}); R = {particles}")
            rows = []
            for method in METHODS:
                if method.name not in options.methods:
                    continue
                path = build_path(method, name, digits, options)
                estimate = partial(run_path, path, particles, method.settings)
                found, seconds = repeat(estimate, options)
                rows.append(Row(method.name, found[:, 0], seconds, reference, found[:, 1]))
                print(rows[-1], flush=True)
                if method.name not in options.ais:
                    continue
                anneal = partial(
                    annealed_importance_sampling,
                    machine,
                    base_rates,
                    options.ais_chains,
                    TilePool(options.threads),
                )
                _, fitting = anneal(10**6, np.random.default_rng(0), seconds)
                fitting = max(fitting, 2)
                found, seconds = repeat(partial(first_of, anneal, fitting), options)
                rows.append(Row(f"   AIS, K = {fitting}", found[:, 0], seconds, reference))
                print(rows[-1], flush=True)
            print("\n".join(claims(rows)))


def build_path(
    method: Method, name: str, digits: np.ndarray, options: argparse.Namespace
) -> RBMPath | TemperedRBMPath:
    machine = load_machine(name)
    if method.path is not None:
        return RBMPath(
            machine,
            data=digits,
            threads=options.threads,
            reseed_transitions=RESEED_TRANSITIONS[name],
            **method.path,
        )
    began = time.process_time()
    path = tempered_path(machine, digits, threads=options.threads)
    print(
        f"{'':22s} data bias strength {path.data_bias_strength}, by pilot runs: "
        f"{time.process_time() - began:.2f} cpu s, once"
    )
    return path


def run_path(
    path: RBMPath | TemperedRBMPath, particles: int, settings: dict, rng: np.random.Generator
) -> tuple[float, float]:
    """Return log Z-hat, and the variance that the run predicts of it."""
    found = pymc_arm.run(path, rng, particles, **settings)
    state = found.state
    by_families = state.genealogy.variance(state.log_weights)
    return found.log_evidence, max(predicted_variance(found.history), by_families)


def first_of(anneal: Callable, temperatures: int, rng: np.random.Generator) -> tuple[float]:
    return (anneal(temperatures, rng)[0],)


def repeat(
    estimate: Callable[[np.random.Generator], tuple[float, ...]], options: argparse.Namespace
) -> tuple[np.ndarray, float]:
    """Return what each of several runs found, and the processor time of one in seconds."""
    found: list[tuple[float, ...]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pymc_arm.TrustWarning)
        began = time.process_time()
        for index in range(options.runs):
            seconds = time.process_time() - began
            if index >= options.fewest and seconds * (index + 1) / index > options.cell:
                break
            found.append(estimate(np.random.default_rng([options.seed, index])))
        return np.array(found), (time.process_time() - began) / len(found)


def shortest(function: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    function()
    return clock() - began


def main_step(arguments: list[str]) -> None:
    """Time a full Gibbs step, and a smooth step, at 784 x 500.

    Everything takes turns and the best of each counts, so that other work on the machine falls on
    all alike. One thread is measured in processor time, two threads against one by the clock.
    """
    parser = argparse.ArgumentParser(prog="benchmarks rbm-step", description=main_step.__doc__)
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    count, visible, hidden = options.particles, 784, 500
    machine = Machine(rng.normal(0, 0.2, (visible, hidden)))
    square = rng.random((2048, 2048), dtype=np.float32)
    flops = 4 * count * visible * hidden
    paths = {threads: RBMPath(machine, threads=threads, gibbs_steps=1) for threads in (1, 2)}
    start = paths[1].initialize(rng, count)[0].activations
    particles = paths[1]._gibbs(rng, visible, start, 5)

    def with_numpy(dtype):
        weights, states = machine.W.astype(dtype), np.zeros((count, visible), dtype=dtype)

        def step():
            on = (rng.random((count, hidden), dtype) < expit(states @ weights)).astype(dtype)
            return (rng.random((count, visible), dtype) < expit(on @ weights.T)).astype(dtype)

        return step

    one, two = (partial(paths[threads].move, rng, visible, particles) for threads in (1, 2))
    in_processor_time = {
        "sgemm": lambda: square @ square,
        "numpy float64": with_numpy(np.float64),
        "numpy float32": with_numpy(np.float32),
        "one thread": one,
        "smooth": lambda: paths[1].smooth(rng, visible, particles),
    }
    best = dict.fromkeys([*in_processor_time, "one", "two"], np.inf)
    with one_blas_thread():
        for turn in range(options.turns):
            if turn < 8:
                for name, function in in_processor_time.items():
                    best[name] = min(best[name], shortest(function, time.thread_time))
            for name, function in (("one", one), ("two", two)):
                best[name] = min(best[name], shortest(function, time.perf_counter))
        gain = measure_gain(np.float32)
    peak = 2 * 2048**3 / best["sgemm"]
    print(f"sgemm peak, 2048^3, one thread: {peak / 1e9:.0f} GF/s")
    for name in ("numpy float64", "numpy float32", "one thread"):
        share = 100 * flops / best[name] / peak
        print(f"{name:14s} {best[name] * 1e3:7.2f} ms  {share:5.1f} % of peak")
    print(
        f"two threads over one, by the clock: {best['one'] * 1e3:.2f} ms against "
        f"{best['two'] * 1e3:.2f} ms, {best['one'] / best['two']:.2f}x; independent products of "
        f"small matrices on two threads gain {gain:.2f}x on this machine"
    )
    print(f"smooth step, one thread: {best['smooth'] * 1e3:.2f} ms")


def main_digits(arguments: list[str]) -> None:
    """Draw particles as images at n = 200 and n = 784, with excluded pixels in grey."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(prog="benchmarks rbm-digits", description=main_digits.__doc__)
    parser.add_argument("--machine", choices=MACHINES, default="pcd")
    parser.add_argument("--particles", type=int, default=200)
    parser.add_argument("--output", default="rbm_digits.png")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lookahead", choices=["data"], default=None)
    options = parser.parse_args(arguments)
    path = RBMPath(load_machine(options.machine), data=load_digits(), lookahead=options.lookahead)
    rng = np.random.default_rng(options.seed)
    settings = pymc_arm.Settings()
    start = initialize(path, rng, options.particles)
    rows = {}
    for state, _ in iterate(path, rng, start, settings):
        if state.position in (200, 784):
            rows[state.position] = state
    figure, axes = plt.subplots(2, 8, figsize=(8, 2.5))
    for line, (position, reached) in zip(axes, rows.items(), strict=True):
        chosen = rng.choice(len(reached.log_weights), size=8, p=np.exp(reached.log_weights))
        for axis, particle in zip(line, chosen, strict=True):
            image = np.full(784, 0.5)
            image[path.order[:position]] = 1 - reached.particles.bits[particle]
            axis.imshow(image.reshape(28, 28), cmap="gray", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(f"n = {position}")
    figure.tight_layout()
    figure.savefig(options.output, dpi=150)
    print(f"{options.output}: log Z = {state.log_evidence:.2f}")


COMMANDS = {"rbm": main_rbm, "rbm-step": main_step, "rbm-digits": main_digits}
