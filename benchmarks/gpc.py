"""Gaussian process classification at the paper's hardest setting, and the speed of its sweeps.

``gpc`` compares ARM, RM, ARM-anticipate and the EP look-ahead on USPS threes against fives;
``gpc-sweep`` measures the compiled sweep against the matrix product and against a straightforward
sweep; ``gpc-growth`` fits how time grows with n and memory with R; ``gpc-order`` compares orders of
the variables with the look-ahead on other data; ``gpc-large`` runs a large problem.
"""

import argparse
import os
import resource
import time
import tracemalloc
from functools import partial
from pathlib import Path as FilePath
from typing import NamedTuple

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.ceiling import measure_gain
from pymc_arm import run
from pymc_arm.families.gpc import GPCPath
from pymc_arm.families.gpc.kernels import sweep_tiles
from pymc_arm.families.gpc.microkernel import TILE_BYTES
from pymc_arm.families.gpc.precision import GrowingPrecision
from pymc_arm.resampling import log_mean_exp

__all__ = ["COMMANDS"]

LOG_LENGTH, LOG_AMPLITUDE = 4.85, 5.1
TRUE_LOG_EVIDENCE, TRUE_ERROR = -105.8359, 0.0006
# RM resamples below 0.9 R as in the paper. For ARM the paper has i_max = 50; 0.7 and 10 are ours.
METHODS: dict[str, tuple[dict, dict]] = {
    "rm": ({}, {"variant": "rm", "resample_threshold": 0.9}),
    "arm": ({}, {"variant": "arm", "threshold": 0.7, "max_rounds": 10}),
    "anticipate": ({}, {"variant": "anticipate", "threshold": 0.7, "max_rounds": 10}),
    "look-ahead": ({"lookahead": "ep"}, {"variant": "arm"}),
}
PEAK_SIZE = 2048


class Measured(NamedTuple):
    """One method at one number of particles."""

    log_evidence: np.ndarray
    seconds: float
    kernel_calls: float
    ratio: float

    @property
    def cost(self) -> float:
        """Variance of log Z times processor time, which other work on the machine leaves alone."""
        return float(np.var(self.log_evidence, ddof=1)) * self.seconds


def usps() -> tuple[np.ndarray, np.ndarray]:
    """Return covariance and labels of USPS threes against fives, in the order of the file."""
    beside = FilePath(__file__).resolve().parents[1].parent / "shared" / "data"
    file = FilePath(os.environ.get("PYMC_ARM_DATA", beside)) / "usps_3v5.npz"
    if not file.exists():
        raise SystemExit(f"{file} is not there: set PYMC_ARM_DATA to the folder that holds it.")
    with np.load(file) as data:
        inputs, labels = data["X_train"].astype(float), data["y_train"]
    return squared_exponential(inputs, LOG_LENGTH, LOG_AMPLITUDE), labels


def measure(path: GPCPath, particles: int, runs: int, seed: int, settings: dict) -> Measured:
    started = time.process_time()
    results = [
        run(path, np.random.default_rng([seed, index]), particles, **settings)
        for index in range(runs)
    ]
    seconds = (time.process_time() - started) / runs
    return Measured(
        np.array([result.log_evidence for result in results]),
        seconds,
        float(np.mean([sum(info.kernel_calls for info in r.history) for r in results])),
        float(np.mean([[info.particles for info in r.history] for r in results])) / particles,
    )


def standard_errors(values: np.ndarray, truth: float) -> float:
    """Return the distance of the mean of values from the truth, in standard errors of both."""
    error = np.hypot(np.std(values, ddof=1) / np.sqrt(len(values)), TRUE_ERROR)
    return float((np.mean(values) - truth) / error)


def main_gpc(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc", description=__doc__)
    parser.add_argument("--particles", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--runs-large", type=int, default=20, help="runs at R >= 10,000")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--sweeps", type=int, default=None)
    parser.add_argument("--order", choices=["informative", "random"], default="informative")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", default=None, help="file to which log Z of every run is added")
    options = parser.parse_args(arguments)
    covariance, labels = usps()
    print(
        f"USPS 3 v 5, n = {len(labels)}, log l = {LOG_LENGTH}, log sigma = {LOG_AMPLITUDE}, "
        f"{options.order} order"
    )
    print(f"true log Z = {TRUE_LOG_EVIDENCE} +- {TRUE_ERROR}")
    paths = {}
    extra = {"order": options.order, "random_seed": options.seed, "threads": options.threads}
    if options.sweeps is not None:
        extra["sweeps"] = options.sweeps
    for name in options.methods:
        started = time.perf_counter()
        paths[name] = GPCPath(covariance, labels, **METHODS[name][0], **extra)
        print(f"set-up of {name}: {time.perf_counter() - started:.2f} s")
        run(paths[name], np.random.default_rng(0), 64, **METHODS[name][1])
    print(
        f"{'R':>6} {'method':>11} {'runs':>4} {'mean':>10} {'sd':>8} {'errors':>7} "
        f"{'log mean Z':>10} {'errors':>7} {'cpu s':>8} {'kernel calls':>12} {'R_n/R':>6} "
        f"{'var x s':>9}"
    )
    for particles in options.particles:
        runs = options.runs_large if particles >= 10_000 else options.runs
        measured = {}
        for name in options.methods:
            found = measured[name] = measure(
                paths[name], particles, runs, options.seed, METHODS[name][1]
            )
            values = found.log_evidence
            if options.csv:
                with open(options.csv, "a") as file:
                    for index, value in enumerate(values):
                        file.write(f"{name},{particles},{options.seed},{index},{value:.6f}\n")
            print(
                f"{particles:6d} {name:>11} {runs:4d} {np.mean(values):10.4f} "
                f"{np.std(values, ddof=1):8.4f} "
                f"{standard_errors(values, TRUE_LOG_EVIDENCE):7.1f} "
                f"{log_mean_exp(values):10.4f} "
                f"{standard_errors(np.exp(values - TRUE_LOG_EVIDENCE), 1.0):7.1f} "
                f"{found.seconds:8.2f} "
                f"{found.kernel_calls:12.0f} {found.ratio:6.2f} {found.cost:9.4f}",
                flush=True,
            )
        if "rm" in measured:
            for name in measured:
                if name != "rm":
                    gain = measured["rm"].cost / measured[name].cost
                    print(f"       variance x time of rm over that of {name}: {gain:.2f}")


@njit(nogil=True, error_model="numpy")
def straightforward_sweep(particles: np.ndarray, precision: np.ndarray, seed: int) -> None:
    """Sweep as one would write it down: a dot product a site, one particle after another."""
    np.random.seed(seed)  # noqa: NPY002
    count, total = particles.shape[1], particles.shape[0]
    for particle in range(total):
        values = particles[particle]
        for site in range(count):
            product = values.dtype.type(0)
            for other in range(count):
                product += precision[site, other] * values[other]
            mean = values[site] - product / precision[site, site]
            radius = np.sqrt(
                (values[site] - mean) ** 2
                - 2 * np.log(1 - np.random.random()) / precision[site, site]  # noqa: NPY002
            )
            lower = max(0.0, mean - radius)
            values[site] = lower + np.random.random() * (mean + radius - lower)  # noqa: NPY002


def best_time(function, repeats: int, clock=time.perf_counter) -> float:
    """Return the shortest time of several calls."""
    shortest = np.inf
    for _ in range(repeats):
        started = clock()
        function()
        shortest = min(shortest, clock() - started)
    return shortest


def main_sweep(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-sweep")
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args(arguments)
    covariance, labels = usps()
    size = len(labels)
    rng = np.random.default_rng(0)
    operations = 2 * size**2 * options.particles
    print(
        f"n = {size}, R = {options.particles}, best of {options.repeats} taken in turns, "
        "one BLAS thread"
    )
    for dtype in (np.float32, np.float64):
        paths = [GPCPath(covariance, labels, dtype=dtype, threads=count) for count in (1, 2)]
        particles = np.abs(rng.normal(size=(size, options.particles))).astype(dtype)
        moved = np.empty_like(particles)
        matrix, shift = GrowingPrecision(paths[0].sequence, dtype).at(size)
        tiles = -(-options.particles * particles.itemsize // TILE_BYTES)
        dense = matrix.transpose(0, 2, 1).reshape(-1, size)[:size].copy()
        square = rng.normal(size=(PEAK_SIZE, PEAK_SIZE)).astype(dtype)
        plain = np.ascontiguousarray(particles.T)

        def one(particles=particles, moved=moved, matrix=matrix, shift=shift, tiles=tiles) -> None:
            sweep_tiles(particles, moved, matrix, shift, np.uint64(1), 0.05, 1, False, 0, tiles)

        def naive_sweep(plain=plain, dense=dense) -> None:
            straightforward_sweep(plain.copy(), dense, 0)

        def square_product(square=square) -> None:
            square @ square

        def move(threads: int, paths=paths, particles=particles) -> None:
            paths[threads - 1].move(rng, size, particles)

        with threadpool_limits(1, user_api="blas"):
            straightforward_sweep(plain[:1].copy(), dense, 0)
            move(1), move(2)
            peak_time = single = naive = np.inf
            walls = {1: np.inf, 2: np.inf}
            processor = time.thread_time
            # Taken in turns, so that a busy moment of the machine does not fall on one of them.
            for turn in range(options.repeats):
                if turn < 8:
                    peak_time = min(peak_time, best_time(square_product, 1, processor))
                single = min(single, best_time(one, 1, processor))
                for threads in walls:
                    walls[threads] = min(walls[threads], best_time(partial(move, threads), 1))
                if turn < 3:
                    naive = min(naive, best_time(naive_sweep, 1, processor))
            gain = measure_gain(dtype)
        peak = 2 * PEAK_SIZE**3 / peak_time
        print(
            f"{np.dtype(dtype).name}: peak {peak / 1e9:.0f} GF/s; sweep {single * 1e3:.1f} ms, "
            f"{100 * operations / single / peak:.0f} % of peak; "
            f"straightforward {naive * 1e3:.0f} ms, {naive / single:.1f}x; "
            f"two threads {walls[2] * 1e3:.1f} ms against {walls[1] * 1e3:.1f}, "
            f"{walls[1] / walls[2]:.2f}x (independent small products: {gain:.2f}x)"
        )


def fitted_exponent(sizes: list[int], values: list[float]) -> float:
    """Return the slope of log(values) on log(sizes)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main_growth(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-growth")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400, 767])
    parser.add_argument("--particles", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", default=None, help="file for a figure")
    options = parser.parse_args(arguments)
    covariance, labels = usps()
    order = np.random.default_rng(0).permutation(len(labels))
    settings = {"variant": "rm", "resample_threshold": 0.9}

    seconds = []
    for size in options.sizes:
        chosen = order[:size]
        path = GPCPath(covariance[np.ix_(chosen, chosen)], labels[chosen], threads=1)
        seconds.append(
            best_time(
                lambda path=path: run(path, np.random.default_rng(0), 1024, **settings),
                options.repeats,
                time.process_time,
            )
        )
        print(f"n = {size:4d}, R = 1024: {seconds[-1]:7.3f} cpu s")
    time_exponent = fitted_exponent(options.sizes, seconds)
    print(f"time of a run of RM grows as n^{time_exponent:.2f}; the sweeps alone would be n^3")

    chosen = order[: options.sizes[0]]
    path = GPCPath(covariance[np.ix_(chosen, chosen)], labels[chosen], threads=1)
    bytes_used = []
    for particles in options.particles:
        tracemalloc.start()
        run(path, np.random.default_rng(0), particles, **settings)
        bytes_used.append(float(tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
        print(f"n = {len(chosen)}, R = {particles:6d}: {bytes_used[-1] / 1e6:7.2f} MB at most")
    memory_exponent = fitted_exponent(options.particles, bytes_used)
    print(f"memory grows as R^{memory_exponent:.2f}")
    if options.plot:
        plot_growth(options, seconds, bytes_used, time_exponent, memory_exponent)


def plot_growth(options, seconds, bytes_used, time_exponent, memory_exponent) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    axes[0].loglog(options.sizes, seconds, "o-")
    axes[0].set(xlabel="n", ylabel="seconds", title=f"RM, R = 1024: $n^{{{time_exponent:.2f}}}$")
    axes[1].loglog(options.particles, np.array(bytes_used) / 1e6, "o-")
    axes[1].set(xlabel="R", ylabel="MB", title=f"memory: $R^{{{memory_exponent:.2f}}}$")
    for axis, ticks in zip(axes, (options.sizes, options.particles), strict=True):
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
    figure.savefig(options.plot, dpi=100)
    print(f"figure written to {options.plot}")


def squared_exponential(inputs: np.ndarray, log_length: float, log_amplitude: float) -> np.ndarray:
    squares = np.sum(inputs**2, axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0)
    covariance = np.exp(2 * log_amplitude - 0.5 * distances * np.exp(-2 * log_length))
    return (covariance + covariance.T) / 2


# Two digits of scikit-learn's set, log l, log sigma; none of them chose the order.
ORDER_CASES = [(3, 5, 2, 2), (4, 9, 2, 2), (1, 7, 1, 1), (8, 9, 2.5, 4), (3, 8, 1, 3)]


def main_order(arguments: list[str]) -> None:
    from sklearn.datasets import load_digits

    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-order")
    parser.add_argument("--size", type=int, default=60, help="examples of each digit")
    parser.add_argument("--particles", type=int, default=500)
    parser.add_argument("--runs", type=int, default=16)
    options = parser.parse_args(arguments)
    data, target = load_digits(return_X_y=True)
    print("standard deviation of log Z with the look-ahead, by order of the variables")
    for first, second, log_length, log_amplitude in ORDER_CASES:
        inputs = np.concatenate(
            [data[target == digit][: options.size] / 8 - 1 for digit in (first, second)]
        )
        labels = np.repeat([1, -1], options.size)
        covariance = squared_exponential(inputs, log_length, log_amplitude)
        informative = GPCPath(covariance, labels, lookahead="ep", threads=1).order
        orders = {
            "informative": informative,
            "given": "given",
            "random": "random",
            "reversed": informative[::-1],
            "pivots": GPCPath(covariance, labels, threads=1).order,
        }
        deviations = {}
        for name, order in orders.items():
            path = GPCPath(
                covariance, labels, lookahead="ep", order=order, random_seed=1, threads=1
            )
            found = measure(path, options.particles, options.runs, 0, {})
            deviations[name] = np.std(found.log_evidence, ddof=1)
        listed = ", ".join(f"{name} {value:.4f}" for name, value in deviations.items())
        print(f"{first} v {second}, {log_length}, {log_amplitude}: {listed}", flush=True)


def main_large(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpc-large")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1250, 2500, 5000])
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--lookahead", choices=["ep"], default=None)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    for size in options.sizes:
        inputs = rng.normal(size=(size, 4))
        covariance = squared_exponential(inputs, 0.5, 1.0)
        covariance.flat[:: size + 1] += 1e-6
        labels = inputs[:, 0] + 0.5 * rng.normal(size=size) > 0
        started = time.process_time()
        tracemalloc.start()
        path = GPCPath(covariance, labels, lookahead=options.lookahead)
        set_up = time.process_time() - started
        found = run(path, np.random.default_rng(0), options.particles)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"n = {size}, R = {options.particles}: log Z {found.log_evidence:.1f}; set-up "
            f"{set_up:.1f} cpu s, all {time.process_time() - started:.1f} cpu s; at most "
            f"{peak / 1e6:.0f} MB of arrays, {peak / (8 * size**2):.1f} n^2 doubles; "
            f"{resident:.2f} GB resident",
            flush=True,
        )


COMMANDS = {
    "gpc": main_gpc,
    "gpc-sweep": main_sweep,
    "gpc-growth": main_growth,
    "gpc-order": main_order,
    "gpc-large": main_large,
}
