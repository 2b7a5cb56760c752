"""Philox4x32-10: random numbers that are a function of a key and a counter, inside compiled code.

Which thread draws a number, and when, does not matter: results are the same for any number of
threads.

References
----------
Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
"""

import numpy as np
from numba import njit

__all__ = ["HALF_WORD", "LOW", "draw_key", "philox"]

ROUNDS = 10
MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
#: The lower half of 64 bits, and how many bits it has.
LOW, HALF_WORD = np.uint64(0xFFFFFFFF), np.uint64(32)


def draw_key(rng: np.random.Generator) -> np.uint64:
    """Draw a key of 64 bits."""
    return rng.integers(2**64, dtype=np.uint64)


@njit(inline="always", error_model="numpy")
def philox(
    low: np.uint64, high: np.uint64, sweep: np.uint64, key_low: np.uint64, key_high: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return four random words of 32 bits for a counter of 96 bits and a key of 64."""
    c0, c1, c2, c3 = np.uint64(low), np.uint64(high), np.uint64(sweep), np.uint64(0)
    k0, k1 = np.uint64(key_low), np.uint64(key_high)
    for _ in range(ROUNDS):
        first = MULTIPLIER_0 * c0
        second = MULTIPLIER_1 * c2
        c0 = (second >> HALF_WORD) ^ c1 ^ k0
        c1 = second & LOW
        c2 = (first >> HALF_WORD) ^ c3 ^ k1
        c3 = first & LOW
        k0 = (k0 + WEYL_0) & LOW
        k1 = (k1 + WEYL_1) & LOW
    return c0, c1, c2, c3
