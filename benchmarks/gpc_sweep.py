"""The speed of the compiled sweeps of Gaussian process classification.

``gpc-sweep`` measures one sweep against the matrix product of the same run, against a
straightforward sweep, and on two threads against one.
"""

import argparse
import time
from functools import partial

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.ceiling import PROCESSORS, best_time, measure_gain, stay_on
from benchmarks.gpc import usps
from pymc_arm.families.gpc import GPCPath
from pymc_arm.families.gpc.kernels import sweep_tiles
from pymc_arm.families.gpc.microkernel import TILE_BYTES
from pymc_arm.families.gpc.precision import GrowingPrecision

__all__ = ["COMMANDS"]

PEAK_SIZE = 2048


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
        plain = {"lookahead": None, "dtype": dtype}
        paths = [GPCPath(covariance, labels, threads=count, **plain) for count in (1, 2)]
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
            stay_on(PROCESSORS[:1])
            paths[1]._executor().submit(stay_on, PROCESSORS[-1:]).result()
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


COMMANDS = {"gpc-sweep": main_sweep}
