"""The arithmetic of the machine: block Gibbs steps and smooth steps, compiled.

A Gibbs step is two matrix products and two layers of coin tosses. The products are BLAS's, in
single precision; each layer of coins is one flat loop in which random number, exponential and
comparison are fused, written so that the compiler turns it into vector instructions. Random
numbers come from a counter-based generator (:mod:`pymc_arm.families.philox`): the counter
holds the sweep and the place of the coin among all particles, so that the result does not depend
on how the particles are divided among threads.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic

from pymc_arm.families.philox import HALF_WORD, LOW, philox

__all__ = ["gibbs_tile", "softplus_difference_tile", "toss"]

_options = {"cache": True, "nogil": True, "error_model": "numpy"}
# Sums may be reordered, so that they vectorise; infinities keep their meaning.
_reorder = {"reassoc", "contract", "nsz"}

# Cephes' polynomial for exp(f), |f| <= log(2) / 2, and log(2) in two parts.
_LOG2_E = np.float32(1.44269504088896341)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
# Beyond this exp(-|x|) is below single precision's 1 + exp(-|x|) = 1 by far.
_SATURATION = np.float32(80.0)
# A product of so many factors in [1, 2] cannot overflow single precision.
_FACTORS = 64


@intrinsic
def _as_float(typing_context: Any, bits: Any) -> Any:
    """Read the bits of an int32 as a float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@njit(inline="always", error_model="numpy")
def _exp(x: np.float32) -> np.float32:
    """Return exp(x) in single precision, for |x| <= 80, to two units in the last place."""
    k = np.floor(x * _LOG2_E + np.float32(0.5))
    f = x - k * _LN2_HIGH - k * _LN2_LOW
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    return p * _as_float((np.int32(k) + np.int32(127)) << np.int32(23))


@njit(inline="always", error_model="numpy")
def _coin(word: np.uint64, x: np.float32) -> np.float32:
    """Return 1 with probability 1 / (1 + exp(-x)), else 0."""
    uniform = (np.float32(np.int32(word >> np.uint64(8))) + np.float32(0.5)) * np.float32(2**-24)
    x = min(max(x, -_SATURATION), _SATURATION)
    return np.float32(1.0) if uniform * (np.float32(1.0) + _exp(-x)) < 1 else np.float32(0.0)


@njit("void(f4[::1], f4[::1], u8, u8, u8)", **_options)
def toss(
    activations: np.ndarray,
    states: np.ndarray,
    key: np.uint64,
    sweep: np.uint64,
    offset: np.uint64,
) -> None:
    """Set each state to 1 with probability sigmoid(activation), to 0 otherwise.

    Parameters
    ----------
    activations, states
        Flat arrays of one length.
    key
        The key of the generator: one for each call of a move.
    sweep
        The number of the layer update within the move.
    offset
        The number of coins that the tiles before this one toss: where its counter starts.
    """
    size = activations.size
    quarter = size // 4
    key_low, key_high = key & LOW, key >> HALF_WORD
    second, third, fourth = quarter, 2 * quarter, 3 * quarter
    for i in range(quarter):
        counter = offset + np.uint64(i)
        w0, w1, w2, w3 = philox(counter & LOW, counter >> HALF_WORD, sweep, key_low, key_high)
        states[i] = _coin(w0, activations[i])
        states[second + i] = _coin(w1, activations[second + i])
        states[third + i] = _coin(w2, activations[third + i])
        states[fourth + i] = _coin(w3, activations[fourth + i])
    for i in range(4 * quarter, size):
        counter = offset + np.uint64(i)
        word = philox(counter & LOW, counter >> HALF_WORD, sweep, key_low, key_high)[0]
        states[i] = _coin(word, activations[i])


@njit("void(f4[:, ::1], f4[::1])", **_options)
def _add_bias(activations: np.ndarray, bias: np.ndarray) -> None:
    for row in range(activations.shape[0]):
        for column in range(activations.shape[1]):
            activations[row, column] += bias[column]


@njit("void(f4[:, ::1], u1[:, ::1], f4[:, ::1], f4[::1], f4[::1], i8, u8, u8)", **_options)
def gibbs_tile(
    hidden: np.ndarray,
    bits: np.ndarray,
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    repeats: int,
    key: np.uint64,
    start: np.uint64,
) -> None:
    """Apply ``repeats`` block Gibbs steps, h given x and then x given h, to a tile of particles.

    Parameters
    ----------
    hidden
        (particle, hidden unit) activations g of the particles; those of the new ones on return.
    bits
        (particle, visible unit) states; only written, for g says all about them that h needs.
    weights
        (visible unit, hidden unit), of the n units that are in.
    visible_bias, hidden_bias
        Biases of both layers.
    repeats
        t, the number of steps.
    key
        The key of the random numbers of this move.
    start
        The index of the first particle of the tile among all particles.
    """
    count, units = bits.shape
    hidden_units = hidden.shape[1]
    hidden_states = np.empty((count, hidden_units), np.float32)
    visible = np.empty((count, units), np.float32)
    states = np.empty((count, units), np.float32)
    for repeat in range(repeats):
        sweep = np.uint64(2 * repeat)
        toss(hidden.ravel(), hidden_states.ravel(), key, sweep, start * np.uint64(hidden_units))
        np.dot(hidden_states, weights.T, visible)
        _add_bias(visible, visible_bias)
        toss(visible.ravel(), states.ravel(), key, sweep + np.uint64(1), start * np.uint64(units))
        np.dot(states, weights, hidden)
        _add_bias(hidden, hidden_bias)
    for row in range(count):
        for column in range(units):
            bits[row, column] = np.uint8(states[row, column])


@njit(inline="always", error_model="numpy")
def _excess(x: np.float32) -> np.float32:
    """Return 1 + exp(-|x|), so that softplus(x) = max(x, 0) + log(1 + exp(-|x|))."""
    return np.float32(1.0) + _exp(max(-abs(x), -_SATURATION))


@njit("void(f4[:, ::1], f4, f4[::1], f4, f4[::1], f8[::1])", fastmath=_reorder, **_options)
def softplus_difference_tile(
    hidden: np.ndarray,
    old_scale: np.float32,
    before: np.ndarray,
    new_scale: np.float32,
    after: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out`` to sum_h softplus(new g_h + after_h) - softplus(old g_h + before_h).

    With both scales one it is eq. (upd_rbm).

    The exponentials of a block are multiplied before the logarithm is taken, once a block, and
    the differences are summed, not the sums subtracted, so that single precision is enough.
    """
    units = hidden.shape[1]
    for row in range(hidden.shape[0]):
        total = 0.0
        for first in range(0, units, _FACTORS):
            linear = np.float32(0.0)
            above = np.float32(1.0)
            below = np.float32(1.0)
            for unit in range(first, min(first + _FACTORS, units)):
                new = new_scale * hidden[row, unit] + after[unit]
                old = old_scale * hidden[row, unit] + before[unit]
                linear += max(new, np.float32(0.0)) - max(old, np.float32(0.0))
                above *= _excess(new)
                below *= _excess(old)
            total += np.float64(linear) + np.log(np.float64(above) / np.float64(below))
        out[row] = total
