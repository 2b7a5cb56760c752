"""Triangular solves of many sparse factors of one pattern, compiled.

A factor is L = U exp(D): U is unit lower triangular with columns in compressed form (starts and
rows), and D a diagonal. Row p of ``numbers`` has D first, then the elements of U below the
diagonal.
"""

import numpy as np
from numba import njit

__all__ = ["gather", "pull_back", "spread"]

_options = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_options)
def spread(
    starts: np.ndarray, rows: np.ndarray, numbers: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Return w with L^T w = noise, of each row."""
    size, count = noise.shape
    result = np.empty((size, count))
    for p in range(size):
        for j in range(count - 1, -1, -1):
            total = noise[p, j] * np.exp(-numbers[p, j])
            for k in range(starts[j], starts[j + 1]):
                total -= numbers[p, count + k] * result[p, rows[k]]
            result[p, j] = total
    return result


@njit(**_options)
def gather(
    starts: np.ndarray, rows: np.ndarray, numbers: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Return L^T w, of each row."""
    size, count = offsets.shape
    result = np.empty((size, count))
    for p in range(size):
        for j in range(count):
            total = offsets[p, j]
            for k in range(starts[j], starts[j + 1]):
                total += numbers[p, count + k] * offsets[p, rows[k]]
            result[p, j] = total * np.exp(numbers[p, j])
    return result


@njit(**_options)
def pull_back(
    starts: np.ndarray,
    rows: np.ndarray,
    numbers: np.ndarray,
    noise: np.ndarray,
    offsets: np.ndarray,
    slopes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients in the noise and in the numbers of log f(w) - sum(D).

    ``offsets`` are w, and ``slopes`` the gradient in w.
    """
    size, count = noise.shape
    to_noise = slopes.copy()
    to_numbers = np.empty(numbers.shape)
    for p in range(size):
        for j in range(count):
            solved = to_noise[p, j]
            for k in range(starts[j], starts[j + 1]):
                to_noise[p, rows[k]] -= numbers[p, count + k] * solved
                to_numbers[p, count + k] = -offsets[p, rows[k]] * solved
            to_noise[p, j] = solved * np.exp(-numbers[p, j])
            to_numbers[p, j] = -to_noise[p, j] * noise[p, j] - 1.0
    return to_noise, to_numbers
