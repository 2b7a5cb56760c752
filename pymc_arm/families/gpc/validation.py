"""Checks of the arguments of a user; every error names the entry that is wrong."""

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf

__all__ = ["check_covariance", "check_labels", "check_mean", "factorize"]

# Asymmetry up to this fraction of the largest entry is rounding, and is averaged away.
ASYMMETRY = 1e-8


def check_covariance(covariance: Any) -> np.ndarray:
    """Return a symmetric float64 copy of K, or say which entry is wrong.

    Positive definiteness is left to :func:`factorize`, where the factor is needed anyway.
    """
    matrix = np.array(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"K has shape {matrix.shape}; a square matrix is needed.")
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"K[{row}, {column}] is {matrix[row, column]}; every entry must be finite."
        )
    difference = np.abs(matrix - matrix.T)
    row, column = np.unravel_index(np.argmax(difference), matrix.shape)
    if difference[row, column] > ASYMMETRY * np.max(np.abs(matrix)):
        raise ValueError(
            f"K is not symmetric: K[{row}, {column}] is {matrix[row, column]:.6g}, "
            f"but K[{column}, {row}] is {matrix[column, row]:.6g}."
        )
    return (matrix + matrix.T) / 2


def factorize(covariance: np.ndarray, name: str = "K") -> np.ndarray:
    """Return the lower Cholesky factor, or say where the matrix stops being positive definite."""
    factor: np.ndarray
    factor, info = dpotrf(covariance, lower=1, clean=1)
    if info > 0:
        smallest = np.linalg.eigvalsh(covariance)[0]
        raise ValueError(
            f"{name} is not positive definite: its Cholesky factor breaks down at row {info - 1}, "
            f"{name}[{info - 1}, {info - 1}], and its smallest eigenvalue is {smallest:.3g}. "
            f"Jitter is never added silently; if you mean to, pass "
            f"{name} + 1e-6 * np.eye({len(covariance)})."
        )
    return factor


def check_labels(labels: Any, size: int) -> np.ndarray:
    """Return labels as float64 -1 and +1, from 0/1, booleans or -1/+1."""
    given = np.asarray(labels)
    if given.shape != (size,):
        raise ValueError(f"y has shape {given.shape}, but K has {size} rows: ({size},) is needed.")
    if given.dtype == bool:
        return np.where(given, 1.0, -1.0)
    if not np.issubdtype(given.dtype, np.number) or np.iscomplexobj(given):
        raise ValueError(f"y has type {given.dtype}; labels are 0/1, booleans or -1/+1.")
    binary = np.isin(given, (-1, 0, 1))
    if not binary.all():
        entry = int(np.argmin(binary))
        raise ValueError(f"y[{entry}] is {given[entry]}; labels are 0/1, booleans or -1/+1.")
    if (given == 0).any() and (given == -1).any():
        zero, negative = int(np.argmax(given == 0)), int(np.argmax(given == -1))
        raise ValueError(
            f"y[{zero}] is 0 and y[{negative}] is -1; labels are 0/1 or -1/+1, not a mixture."
        )
    return np.where(given > 0, 1.0, -1.0)


def check_mean(mean: Any, size: int) -> np.ndarray:
    """Return the prior mean as a float64 vector, from a number or a vector."""
    given = np.asarray(mean, dtype=np.float64)
    if given.shape not in ((), (size,)):
        raise ValueError(
            f"mean has shape {given.shape}, but K has {size} rows: a number or a vector of that "
            "length is needed."
        )
    vector = np.full(size, given)
    if not np.isfinite(vector).all():
        entry = int(np.argmin(np.isfinite(vector)))
        raise ValueError(f"mean[{entry}] is {vector[entry]}; it must be finite.")
    return vector
