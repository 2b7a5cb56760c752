"""Particles in tiles, tiles on threads.

How particles are cut into tiles depends on their number alone, and every tile has random numbers of
its own: the result is the same for any number of threads. BLAS must keep to one thread within a
tile; its own threads would fight with ours.
"""

from collections.abc import Callable

import numpy as np

from pymc_arm.families.philox import draw_key
from pymc_arm.families.rbm.kernels import gibbs_tile
from pymc_arm.families.threads import SharingThreads
from pymc_arm.running.processors import one_blas_thread

__all__ = ["TilePool", "gibbs_steps"]

# Wide enough that BLAS runs near its peak, small enough that a tile stays in the second cache.
WIDEST_TILE = 256
# Below this many numbers a second thread costs more than it saves.
WORTH_A_THREAD = 2**16


class TilePool(SharingThreads):
    """Threads that work on tiles of particles."""

    def run(self, function: Callable[[slice], None], count: int, work: int) -> None:
        """Call ``function`` on every tile of ``count`` particles; ``work`` is their total size."""
        self.share(function, tile_slices(count), None if work >= WORTH_A_THREAD else 1)


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
    key = draw_key(rng)

    def on_tile(tile: slice) -> None:
        first = np.uint64(tile.start)
        gibbs_tile(
            activations[tile], bits[tile], weights, visible_bias, hidden_bias, repeats, key, first
        )

    with one_blas_thread():
        pool.run(on_tile, len(bits), work=activations.size * repeats)
