"""Random numbers inside compiled sweeps, the same for any number of threads.

Every particle has a generator of its own. Its state comes from :mod:`pymc_arm.families.philox`, a
function of a key and the particle's index and of nothing else, so that it does not matter which
thread moves the particle, or when. From there xoshiro128+ runs, whose few shifts and additions the
compiler turns into vector instructions over many particles at once.

References
----------
Blackman and Vigna (2021), Scrambled linear pseudorandom number generators.
"""

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from pymc_arm.families.philox import HALF_WORD, LOW, philox

__all__ = ["exponentials", "next_bits", "seed_lanes"]

# Minimax polynomial for log(1 + t), sqrt(1/2) <= 1 + t < sqrt(2) (Cephes, logf).
LOG_COEFFICIENTS = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG_2 = math.log(2)
# The bits of sqrt(1/2) and of 1 in float32, and those of its mantissa.
ROOT_HALF, ONE, MANTISSA = np.uint32(0x3F3504F3), np.uint32(0x3F800000), np.uint32(0x007FFFFF)


@njit(cache=True, nogil=True, error_model="numpy")
def seed_lanes(states: np.ndarray, key: np.uint64, first: int) -> None:
    """Fill ``states`` (4, lanes), uint32, for the particles from index ``first`` on."""
    for lane in range(states.shape[1]):
        index = np.uint64(first + lane)
        words = philox(index & LOW, index >> HALF_WORD, np.uint64(0), key & LOW, key >> HALF_WORD)
        states[0, lane], states[1, lane], states[2, lane] = words[0], words[1], words[2]
        # The all-zero state is the one that xoshiro never leaves.
        states[3, lane] = words[3] | np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def _advance(
    state_0: np.uint32, state_1: np.uint32, state_2: np.uint32, state_3: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32, np.uint32]:
    """Return the next number of a generator (xoshiro128+) and its next state."""
    bits = np.uint32(state_0 + state_3)
    shifted = np.uint32(state_1 << np.uint32(9))
    state_2 = np.uint32(state_2 ^ state_0)
    state_3 = np.uint32(state_3 ^ state_1)
    state_1 = np.uint32(state_1 ^ state_2)
    state_0 = np.uint32(state_0 ^ state_3)
    state_2 = np.uint32(state_2 ^ shifted)
    state_3 = np.uint32(np.uint32(state_3 << np.uint32(11)) | np.uint32(state_3 >> np.uint32(21)))
    return bits, state_0, state_1, state_2, state_3


@njit(cache=True, nogil=True, error_model="numpy")
def next_bits(states: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Fill rows of ``first`` and ``second`` (rows, lanes), uint32, in turn with the next numbers.

    Two at a time, to read and write the states half as often.
    """
    for row in range(first.shape[0]):
        one, two = first[row], second[row]
        for lane in range(one.shape[0]):
            s0, s1, s2, s3 = states[0, lane], states[1, lane], states[2, lane], states[3, lane]
            one[lane], s0, s1, s2, s3 = _advance(s0, s1, s2, s3)
            two[lane], s0, s1, s2, s3 = _advance(s0, s1, s2, s3)
            states[0, lane], states[1, lane], states[2, lane], states[3, lane] = s0, s1, s2, s3


@intrinsic
def _as_bits(typing_context, value) -> Any:  # type: ignore[no-untyped-def]
    """Read a float32 as uint32."""

    def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.uint32))

    return types.uint32(types.float32), codegen


@intrinsic
def _as_float(typing_context, value) -> Any:  # type: ignore[no-untyped-def]
    """Read a uint32 as float32."""

    def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.uint32), codegen


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _exponential(bits: np.uint32) -> np.float32:
    """Turn random bits into a draw from the unit exponential, -log(u).

    The logarithm has the accuracy of float32, which is far below what the resolution of u, 2^-24,
    can show; written out, it becomes vector instructions.
    """
    u = (np.float32(np.int32(bits >> np.uint32(8))) + np.float32(0.5)) * np.float32(2.0**-24)
    word = np.uint32(_as_bits(u) + np.uint32(ONE - ROOT_HALF))
    exponent = np.float32(np.int32(word >> np.uint32(23)) - np.int32(127))
    t = _as_float(np.uint32(np.uint32(word & MANTISSA) + ROOT_HALF)) - np.float32(1.0)
    tail = np.float32(0.0)
    for coefficient in LOG_COEFFICIENTS:
        tail = tail * t + np.float32(coefficient)
    square = t * t
    log_mantissa = t - np.float32(0.5) * square + t * square * tail
    return -(exponent * np.float32(LOG_2) + log_mantissa)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def exponentials(bits: np.ndarray, out: np.ndarray) -> None:
    """Fill ``out`` with draws from the unit exponential, one for each element of ``bits``."""
    for index in range(out.shape[0]):
        out[index] = _exponential(bits[index])
