"""Philox4x32-10 is that of its authors, and keys and counters are independent of each other."""

import numpy as np
from numba import njit

from pymc_arm.families.philox import draw_key, philox


@njit
def words(low, high, sweep, key_low, key_high):
    return philox(low, high, sweep, key_low, key_high)


def call(*numbers):
    return [int(word) for word in words(*(np.uint64(number) for number in numbers))]


def test_known_answers():
    """From kat_vectors of Random123, where the fourth word of the counter is zero."""
    assert call(0, 0, 0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_every_part_of_counter_and_key_matters():
    base = [1, 2, 3, 4, 5]
    results = [tuple(call(*base))]
    for place in range(5):
        changed = base.copy()
        changed[place] += 1
        results.append(tuple(call(*changed)))
    assert len(set(results)) == 6


def test_bits_are_fair():
    """Ones among 128,000 bits: beyond 4.5 standard errors once in 150,000."""
    found = np.array([call(number, 0, 0, 7, 9) for number in range(1000)], dtype=np.uint32)
    ones = np.unpackbits(found.view(np.uint8)).sum()
    assert abs(ones - 64_000) < 4.5 * np.sqrt(128_000) / 2


def test_keys_come_from_the_generator():
    first, again, other = (draw_key(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert first.dtype == np.uint64
