"""Random numbers inside compiled sweeps, the same for any number of threads.

Every particle has a generator of its own. Its state comes from Philox4x32-10, a function of a key
and the particle's index and of nothing else, so that it does not matter which thread moves the
particle, or when. From there xoshiro128+ runs, whose few shifts and additions the compiler turns
into vector instructions over many particles at once.

References
----------
Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
Blackman and Vigna (2021), Scrambled linear pseudorandom number generators.
"""

import numpy as np
from numba import njit

__all__ = ["draw_key", "next_bits", "seed_lanes"]

ROUNDS = 10
MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
HALF_WORD = np.uint64(32)


def draw_key(rng: np.random.Generator) -> np.uint64:
    """Draw the key of one sweep."""
    return rng.integers(2**64, dtype=np.uint64)


@njit(cache=True, nogil=True, error_model="numpy")
def seed_lanes(states: np.ndarray, key: np.uint64, first: int) -> None:
    """Fill ``states`` (4, lanes), uint32, for the particles from index ``first`` on."""
    for lane in range(states.shape[1]):
        index = np.uint64(first + lane)
        word_0, word_1 = index & LOW, index >> HALF_WORD
        word_2, word_3 = np.uint64(0), np.uint64(0)
        key_0, key_1 = key & LOW, key >> HALF_WORD
        for _ in range(ROUNDS):
            product_0, product_1 = MULTIPLIER_0 * word_0, MULTIPLIER_1 * word_2
            word_0 = (product_1 >> HALF_WORD) ^ word_1 ^ key_0
            word_2 = (product_0 >> HALF_WORD) ^ word_3 ^ key_1
            word_1, word_3 = product_1 & LOW, product_0 & LOW
            key_0, key_1 = (key_0 + WEYL_0) & LOW, (key_1 + WEYL_1) & LOW
        states[0, lane] = word_0
        states[1, lane] = word_1
        states[2, lane] = word_2
        # The all-zero state is the one that xoshiro never leaves.
        states[3, lane] = word_3 | np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def next_bits(states: np.ndarray, bits: np.ndarray) -> None:
    """Fill ``bits`` (lanes), uint32, with the next number of each lane (xoshiro128+)."""
    for lane in range(bits.shape[0]):
        state_0, state_1 = states[0, lane], states[1, lane]
        state_2, state_3 = states[2, lane], states[3, lane]
        bits[lane] = np.uint32(state_0 + state_3)
        shifted = np.uint32(state_1 << np.uint32(9))
        state_2 = np.uint32(state_2 ^ state_0)
        state_3 = np.uint32(state_3 ^ state_1)
        state_1 = np.uint32(state_1 ^ state_2)
        state_0 = np.uint32(state_0 ^ state_3)
        state_2 = np.uint32(state_2 ^ shifted)
        state_3 = np.uint32(
            np.uint32(state_3 << np.uint32(11)) | np.uint32(state_3 >> np.uint32(21))
        )
        states[0, lane], states[1, lane] = state_0, state_1
        states[2, lane], states[3, lane] = state_2, state_3
