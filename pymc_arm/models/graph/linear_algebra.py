"""Entries of the table for linear algebra, and softmax, on batches of matrices."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor import special
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.math import Dot

from pymc_arm._compat import nlinalg, slinalg
from pymc_arm.models.graph.operations import batch_shape, core_function
from pymc_arm.models.graph.program import ArrayFunction

__all__: list[str] = []


@core_function.register(slinalg.Cholesky)
def _cholesky(core: Any, node: Apply) -> ArrayFunction:
    return functools.partial(_factor, core.lower)


@core_function.register(slinalg.SolveTriangular)
def _solve_triangular(core: Any, node: Apply) -> ArrayFunction | None:
    return None if core.unit_diagonal else functools.partial(_substitute, core.lower, core.b_ndim)


@core_function.register(slinalg.Solve)
def _solve(core: Any, node: Apply) -> ArrayFunction | None:
    # The matrix may be given by one triangle only.
    return functools.partial(_solve_general, core.b_ndim) if core.assume_a == "gen" else None


@core_function.register(slinalg.CholeskySolve)
def _cholesky_solve(core: Any, node: Apply) -> ArrayFunction:
    def solve(factors: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
        transposed = np.swapaxes(factors, -1, -2)
        first, last = (factors, transposed) if core.lower else (transposed, factors)
        (half,) = _substitute(True, core.b_ndim, first, right)
        return _substitute(False, core.b_ndim, last, half)

    return solve


@core_function.register(nlinalg.MatrixInverse)
def _inverse(core: Any, node: Apply) -> ArrayFunction:
    def invert(matrices: np.ndarray) -> Sequence[np.ndarray]:
        return _solve_general(2, matrices, np.eye(matrices.shape[-1]))

    return invert


@core_function.register(nlinalg.Det)
def _determinant(core: Any, node: Apply) -> ArrayFunction:
    return lambda matrices: (np.linalg.det(matrices),)


@core_function.register(nlinalg.SLogDet)
def _log_determinant(core: Any, node: Apply) -> ArrayFunction:
    return lambda matrices: tuple(np.linalg.slogdet(matrices))


@core_function.register(AllocDiag)
def _allocate_diagonal(core: AllocDiag, node: Apply) -> ArrayFunction | None:
    main = core.offset == 0 and (core.axis1, core.axis2) == (0, 1)
    return _spread_on_diagonal if main else None


@core_function.register(Dot)
def _dot(core: Dot, node: Apply) -> ArrayFunction:
    return functools.partial(_product, [len(axes) for axes in node.op.inputs_sig])


if hasattr(special, "SoftmaxGrad"):  # PyTensor 3 writes it out

    @core_function.register(special.SoftmaxGrad)
    def _softmax_gradient(core: Any, node: Apply) -> ArrayFunction:
        dimensions = len(node.op.inputs_sig[0])
        axes = range(dimensions) if core.axis is None else [core.axis % dimensions]
        last = tuple(axis - dimensions for axis in axes)

        def gradient(outer: np.ndarray, softmax: np.ndarray) -> Sequence[np.ndarray]:
            product = outer * softmax
            return (product - product.sum(axis=last, keepdims=True) * softmax,)

        return gradient


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


def _solve_general(width: int, matrices: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
    """Solve a batch of systems; those without a solution become NaN."""
    right = right if width == 2 else right[..., None]
    try:
        solution = np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        batch = batch_shape([matrices, right], [2, 2])
        matrices = np.broadcast_to(matrices, (*batch, *matrices.shape[-2:]))
        right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
        solution = np.full(right.shape, np.nan)
        for place in np.ndindex(batch):
            with contextlib.suppress(np.linalg.LinAlgError):
                solution[place] = np.linalg.solve(matrices[place], right[place])
    return (solution if width == 2 else solution[..., 0],)


def _product(cores: Sequence[int], left: np.ndarray, right: np.ndarray) -> Sequence[np.ndarray]:
    """Multiply batches of matrices or vectors."""
    row, column = cores[0] == 1, cores[1] == 1
    result = np.matmul(left[..., None, :] if row else left, right[..., None] if column else right)
    result = result[..., 0] if column else result
    if row:
        result = result[..., 0] if column else result[..., 0, :]
    return (result,)
