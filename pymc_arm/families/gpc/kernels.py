"""Compiled Gibbs sweeps over many particles at once (the paper's appendix A).

With labels absorbed, every site i is drawn from a Gaussian of precision S_ii and mean mu_i, cut
off from below: at zero in the z representation, at an auxiliary variable in the x representation.
A tile of particles is moved at a time, with the particle index fastest in memory. Sites are taken
in panels of six: one product gives g = S z for the panel, and

    mu_i = z_i - (g_i - h_i) / S_ii,        g_k := g_k + S_ki (z_i' - z_i)  for later sites k,

where h is zero unless there is a prior mean or a look-ahead. The sites are always taken in the
same order: over-relaxation loses its gain in a random one.
"""

import numpy as np
from numba import njit

from pymc_arm.families.gpc.microkernel import PANEL, TILE_BYTES, multiply_panel
from pymc_arm.families.gpc.normal import truncated_below
from pymc_arm.families.gpc.random import exponentials, next_bits, seed_lanes

__all__ = ["grow_precision", "predict", "sweep_tiles"]

#: Tiles that a sweep copies together out of the particles and back.
TILES_COPIED = 8
#: Bytes in a line of the cache.
LINE_BYTES = 64


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _slice_step(
    old: np.ndarray,
    residual: np.ndarray,
    bound: np.ndarray,
    waits: np.ndarray,
    bits: np.ndarray,
    shift: float,
    precision: float,
    width: float,
) -> None:
    """Move one site of every particle of a tile (eq:slice); ``residual`` becomes z' - z.

    ``waits`` are draws from the unit exponential, and ``bits`` become uniform numbers.
    With a positive ``width`` d, the place w of z in its slice goes to frac(1 - w + d (u - 1/2))
    instead of to a fresh uniform number: almost a reflection, which leaves the uniform
    distribution on the slice invariant.
    """
    real = old.dtype.type
    zero, half, one = real(0), real(0.5), real(1)
    tiny = real(1e-30)
    unit = real(2.0**-31)
    variance = real(1) / real(precision)
    offset, spread = real(shift), real(width)
    fresh = width <= 0
    for lane in range(old.shape[0]):
        value = old[lane]
        floor = bound[lane]
        distance = (residual[lane] - offset) * variance
        mean = value - distance
        gain = real(2) * waits[lane] * variance
        radius = np.sqrt(distance * distance + gain)
        # mean + radius - floor, without cancellation where the mean is far below the floor.
        depth = mean - floor
        above = value - floor
        lower = max(zero, depth - radius)
        product = above * (above - real(2) * depth) + gain
        far = product / max(radius - depth, tiny)
        upper = far if depth < zero else depth + radius
        length = upper - lower
        uniform = (real(np.int32(bits[lane] >> np.uint32(1))) + half) * unit
        place = (above - lower) / max(length, tiny)
        turned = one - place + spread * (uniform - half)
        turned = turned - np.floor(turned)
        place = uniform if fresh else turned
        moved = floor + lower + place * length
        residual[lane] = moved - value
        old[lane] = moved


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_tile(
    values: np.ndarray,
    matrix: np.ndarray,
    shift: np.ndarray,
    states: np.ndarray,
    width: float,
    sweeps: int,
    probit: bool,
) -> None:
    """Apply Gibbs sweeps to one tile, ``values`` (n, lanes), in place."""
    count, lanes = values.shape
    product = np.empty((PANEL, lanes), values.dtype)
    bound = np.zeros(lanes, values.dtype)
    bits = np.empty((3, PANEL, lanes), np.uint32)
    waits = np.empty((PANEL, lanes), values.dtype)
    for _ in range(sweeps):
        for panel in range((count + PANEL - 1) // PANEL):
            multiply_panel(matrix, values, product, count, panel)
            first = panel * PANEL
            inside = min(PANEL, count - first)
            # Random numbers have loops of their own: one loop with all of a step in it is a chain
            # of operations so long that the processor hardly overlaps one turn with the next.
            next_bits(states, bits[0], bits[1])
            if probit:
                next_bits(states, bits[2, : PANEL // 2], bits[2, PANEL // 2 :])
            exponentials(bits[0].reshape(-1), waits.reshape(-1))
            for row in range(inside):
                site = first + row
                if probit:
                    truncated_below(values[site], bits[2, row], bound)
                change = product[row]
                _slice_step(
                    values[site],
                    change,
                    bound,
                    waits[row],
                    bits[1, row],
                    shift[site],
                    matrix[panel, site, row],
                    width,
                )
                for later in range(row + 1, inside):
                    entry = matrix[panel, site, later]
                    target = product[later]
                    for lane in range(lanes):
                        target[lane] += entry * change[lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _aligned_tiles(particles: np.ndarray, tiles: int) -> np.ndarray:
    """Return an array (tiles, n, lanes) whose rows begin with a line of the cache.

    Without that a sweep takes 15 % longer: every strip of a row lies in one line more.
    """
    lanes = TILE_BYTES // particles.itemsize
    size = tiles * particles.shape[0] * lanes
    room = np.empty(size + LINE_BYTES // particles.itemsize, particles.dtype)
    first = (-room.ctypes.data % LINE_BYTES) // particles.itemsize
    return room[first : first + size].reshape(tiles, particles.shape[0], lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_tiles(
    particles: np.ndarray,
    moved: np.ndarray,
    matrix: np.ndarray,
    shift: np.ndarray,
    key: np.uint64,
    width: float,
    sweeps: int,
    probit: bool,
    first_tile: int,
    last_tile: int,
) -> None:
    """Apply Gibbs sweeps to a range of tiles; read ``particles`` and write ``moved``, both (n, R).

    Parameters
    ----------
    matrix
        The precision S of the n sites in panels, (panels, capacity, PANEL).
    shift
        h, (n,).
    key
        Key of the random numbers.
    width
        d of the over-relaxed step; zero for the paper's step.
    sweeps
        The number of sweeps.
    probit
        Whether a site has the likelihood Phi(x_i) (x representation) in place of the step function.
    first_tile, last_tile
        The range of tiles.
    """
    count, total = particles.shape
    lanes = TILE_BYTES // particles.itemsize
    states = np.empty((4, lanes), np.uint32)
    # Rows of one tile lie a row of particles apart, each on a page of its own: to copy several
    # tiles at once takes a fraction of the time that it takes one by one.
    tiles = _aligned_tiles(particles, min(TILES_COPIED, last_tile - first_tile))
    for first in range(first_tile, last_tile, TILES_COPIED):
        last = min(first + TILES_COPIED, last_tile)
        for site in range(count):
            for tile in range(first, last):
                values = tiles[tile - first, site]
                start = tile * lanes
                size = min(lanes, total - start)
                for lane in range(size):
                    values[lane] = particles[site, start + lane]
                for lane in range(size, lanes):
                    values[lane] = 0
        for tile in range(first, last):
            seed_lanes(states, key, tile * lanes)
            _sweep_tile(tiles[tile - first], matrix, shift, states, width, sweeps, probit)
        for site in range(count):
            for tile in range(first, last):
                values = tiles[tile - first, site]
                start = tile * lanes
                for lane in range(min(lanes, total - start)):
                    moved[site, start + lane] = values[lane]


@njit(cache=True, nogil=True, error_model="numpy")
def grow_precision(
    matrix: np.ndarray,
    rounded: np.ndarray,
    rows: np.ndarray,
    site_precision: np.ndarray,
    before: int,
    after: int,
) -> None:
    """Grow S from ``before`` to ``after`` sites, in float64, and round it for the sweeps.

    S^(n) = sum_{k <= n} v_k v_k^T - diag(tau), with v_k the rows of the inverse Cholesky factor and
    tau the precisions of the look-ahead's sites. Each step is a rank-one update of O(n^2), without
    the drift of the paper's block inversion.
    """
    for panel in range((after + PANEL - 1) // PANEL):
        first = panel * PANEL
        target = matrix[panel]
        for row in range(max(before, first), after):
            vector = rows[row]
            head = np.zeros(PANEL)
            for inside in range(min(PANEL, row + 1 - first)):
                head[inside] = vector[first + inside]
            h0, h1, h2, h3, h4, h5 = head[0], head[1], head[2], head[3], head[4], head[5]
            if first <= row < first + PANEL:
                target[row, row - first] -= site_precision[row]
            for column in range(row + 1):
                value = vector[column]
                target[column, 0] += h0 * value
                target[column, 1] += h1 * value
                target[column, 2] += h2 * value
                target[column, 3] += h3 * value
                target[column, 4] += h4 * value
                target[column, 5] += h5 * value
        if max(before, first) < after:
            for column in range(after):
                for inside in range(PANEL):
                    rounded[panel, column, inside] = target[column, inside]


@njit(cache=True, nogil=True, error_model="numpy")
def predict(row: np.ndarray, particles: np.ndarray, out: np.ndarray) -> None:
    """Compute out[r] = sum_k row[k] particles[k, r], summed in float64 whatever the particles."""
    block = 512
    count, total = particles.shape
    fours = count - count % 4
    for start in range(0, total, block):
        stop = min(start + block, total)
        for column in range(start, stop):
            out[column] = 0.0
        for site in range(0, fours, 4):
            w0, w1, w2, w3 = row[site], row[site + 1], row[site + 2], row[site + 3]
            for column in range(start, stop):
                out[column] += (
                    w0 * particles[site, column]
                    + w1 * particles[site + 1, column]
                    + w2 * particles[site + 2, column]
                    + w3 * particles[site + 3, column]
                )
        for site in range(fours, count):
            for column in range(start, stop):
                out[column] += row[site] * particles[site, column]
