"""Entries of the table for linear algebra on batches of matrices."""

import contextlib
import functools
from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.math import Dot

from pymc_arm._compat import linear_algebra
from pymc_arm.models.graph.operations import batch_shape, core_function
from pymc_arm.models.graph.program import ArrayFunction

__all__: list[str] = []


@core_function.register(linear_algebra.Cholesky)
def _cholesky(core: linear_algebra.Cholesky, node: Apply) -> ArrayFunction:
    return functools.partial(_factor, core.lower)


@core_function.register(linear_algebra.SolveTriangular)
def _solve_triangular(core: linear_algebra.SolveTriangular, node: Apply) -> ArrayFunction | None:
    return None if core.unit_diagonal else functools.partial(_substitute, core.lower, core.b_ndim)


@core_function.register(AllocDiag)
def _allocate_diagonal(core: AllocDiag, node: Apply) -> ArrayFunction | None:
    main = core.offset == 0 and (core.axis1, core.axis2) == (0, 1)
    return _spread_on_diagonal if main else None


@core_function.register(Dot)
def _dot(core: Dot, node: Apply) -> ArrayFunction | None:
    matrices = [len(axes) for axes in node.op.inputs_sig] == [2, 2]
    return _product if matrices else None


def _factor(lower: bool, matrices: np.ndarray) -> Sequence[np.ndarray]:
    """Factor a batch of matrices; those that are not positive definite become NaN."""
    try:
        factors = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.full(matrices.shape, np.nan)
        for place in np.ndindex(matrices.shape[:-2]):
            with contextlib.suppress(np.linalg.LinAlgError):
                factors[place] = np.linalg.cholesky(matrices[place])
    return (factors if lower else np.swapaxes(factors, -1, -2),)


def _substitute(
    lower: bool, width: int, factors: np.ndarray, right: np.ndarray
) -> Sequence[np.ndarray]:
    """Solve a batch of triangular systems by substitution, row by row for all at once."""
    right = right if width == 2 else right[..., None]
    batch = batch_shape([factors, right], [2, 2])
    solution = np.empty((*batch, *right.shape[-2:]))
    size = factors.shape[-1]
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        total = np.matmul(factors[..., row : row + 1, known], solution[..., known, :])
        value = right[..., row, :] - total[..., 0, :]
        solution[..., row, :] = value / factors[..., row, row, None]
    return (solution if width == 2 else solution[..., 0],)


def _spread_on_diagonal(vectors: np.ndarray) -> Sequence[np.ndarray]:
    result = np.zeros((*vectors.shape, vectors.shape[-1]), dtype=vectors.dtype)
    places = np.arange(vectors.shape[-1])
    result[..., places, places] = vectors
    return (result,)


def _product(left: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
    return (np.matmul(left, right),)
