"""Particles in tiles, tiles on threads.

The compiled kernels release the interpreter's lock, so plain threads are enough. How particles
are cut into tiles depends on their number alone, and every tile has random numbers of its own:
the result is the same for any number of threads. BLAS must keep to one thread within a tile; its
own threads would fight with ours.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from pymc_arm.arguments import check_count
from pymc_arm.families.rbm.kernels import gibbs_tile
from pymc_arm.running.processors import available_cores, one_blas_thread

__all__ = ["TilePool", "gibbs_steps"]

# Wide enough that BLAS runs near its peak, small enough that a tile stays in the second cache.
WIDEST_TILE = 256
# Below this many numbers a second thread costs more than it saves.
WORTH_A_THREAD = 2**16


class TilePool:
    """A number of threads that work on tiles of particles.

    Parameters
    ----------
    threads
        How many threads, the calling one included; by default one for each processor.
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            check_count("threads", threads)
        self.threads = threads or available_cores()

    def __reduce__(self) -> tuple[Any, ...]:
        return TilePool, (self.threads,)

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads - 1, thread_name_prefix="rbm-tile")

    def run(self, function: Callable[[slice], None], count: int, work: int) -> None:
        """Call ``function`` on every tile of ``count`` particles; ``work`` is their total size."""
        tiles = tile_slices(count)
        threads = min(self.threads, len(tiles)) if work >= WORTH_A_THREAD else 1

        def share(first: int) -> None:
            for tile in tiles[first::threads]:
                function(tile)

        futures = [self._executor.submit(share, first) for first in range(1, threads)]
        share(0)
        for future in futures:
            future.result()


def tile_slices(count: int) -> list[slice]:
    """Cut ``count`` particles into an even number of tiles of nearly the same width."""
    pairs = max(1, -(-count // (2 * WIDEST_TILE)))
    width = max(1, -(-count // (2 * pairs)))
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]


def gibbs_steps(
    pool: TilePool,
    rng: np.random.Generator,
    activations: np.ndarray,
    bits: np.ndarray,
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    repeats: int = 1,
) -> None:
    """Apply block Gibbs steps to particles in place; see :func:`gibbs_tile`."""
    key = rng.integers(2**64, dtype=np.uint64, endpoint=False)

    def on_tile(tile: slice) -> None:
        first = np.uint64(tile.start)
        gibbs_tile(
            activations[tile], bits[tile], weights, visible_bias, hidden_bias, repeats, key, first
        )

    with one_blas_thread():
        pool.run(on_tile, len(bits), work=activations.size * repeats)
