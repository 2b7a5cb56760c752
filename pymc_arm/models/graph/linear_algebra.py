"""Entries of the table for linear algebra on batches of matrices."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_arm._compat import nlinalg, slinalg
from pymc_arm.models.graph.operations import batch_shape, core_function, looped
from pymc_arm.models.graph.program import ArrayFunction

__all__ = ["take_log_determinants"]


@node_rewriter([pt.log])
def take_log_determinants(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace log(det) and log(abs(det)), which overflow; PyTensor 2 can't do it in a batch."""
    (inner,) = node.inputs
    sizes = inner.owner is not None and inner.owner.op == pt.abs
    found = inner.owner.inputs[0] if sizes else inner
    if found.owner is None or not isinstance(found.owner.op, Blockwise):
        return None
    if not isinstance(found.owner.op.core_op, nlinalg.Det):
        return None
    sign, logarithm = Blockwise(nlinalg.SLogDet())(*found.owner.inputs)
    return [logarithm if sizes else pt.switch(pt.lt(sign, 0), np.nan, logarithm)]


@core_function.register(slinalg.Cholesky)
def _cholesky(core: Any, node: Apply) -> ArrayFunction:
    return functools.partial(_factor, core.lower)


@core_function.register(slinalg.SolveTriangular)
def _solve_triangular(core: Any, node: Apply) -> ArrayFunction:
    if core.unit_diagonal:
        return looped(node)
    return functools.partial(_substitute, core.lower, core.b_ndim)


@core_function.register(slinalg.Solve)
def _solve(core: Any, node: Apply) -> ArrayFunction:
    # The matrix may be given by one triangle only.
    general = core.assume_a == "gen"
    return functools.partial(_solve_general, core.b_ndim) if general else looped(node)


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


@core_function.register(nlinalg.Eigh)
def _eigenvalues(core: Any, node: Apply) -> ArrayFunction:
    if len(node.inputs) > 1:  # with a second matrix
        return looped(node)
    lower = getattr(core, "UPLO", "L") == "L" and getattr(core, "lower", True)

    def decompose(matrices: np.ndarray) -> Sequence[np.ndarray]:
        with contextlib.suppress(np.linalg.LinAlgError):
            return np.linalg.eigh(matrices, "L" if lower else "U")
        return one_by_one(matrices)

    one_by_one = looped(node)
    return decompose


if hasattr(nlinalg, "EighGrad"):  # PyTensor 3 writes it out

    @core_function.register(nlinalg.EighGrad)
    def _eigenvalues_gradient(core: Any, node: Apply) -> ArrayFunction:
        return functools.partial(_differentiate_eigenvalues, core.UPLO == "L")


@core_function.register(slinalg.BlockDiagonal)
def _block_diagonal(core: Any, node: Apply) -> ArrayFunction:
    dtype = node.outputs[0].type.dtype

    def join(*matrices: np.ndarray) -> Sequence[np.ndarray]:
        batch = batch_shape(matrices, [2] * len(matrices))
        ends = np.cumsum([matrix.shape[-2:] for matrix in matrices], axis=0)
        result = np.zeros((*batch, *ends[-1]), dtype)
        for matrix, (row, column) in zip(matrices, ends.tolist(), strict=True):
            own = slice(row - matrix.shape[-2], row), slice(column - matrix.shape[-1], column)
            result[..., *own] = matrix
        return (result,)

    return join


@core_function.register(AllocDiag)
def _allocate_diagonal(core: AllocDiag, node: Apply) -> ArrayFunction:
    main = core.offset == 0 and (core.axis1, core.axis2) == (0, 1)
    return _spread_on_diagonal if main else looped(node)


@core_function.register(Dot)
def _dot(core: Dot, node: Apply) -> ArrayFunction:
    return functools.partial(_product, [len(axes) for axes in node.op.inputs_sig])


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


def _differentiate_eigenvalues(
    lower: bool,
    matrices: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    of_values: np.ndarray,
    of_vectors: np.ndarray,
) -> Sequence[np.ndarray]:
    """Return derivatives with respect to the triangle that a decomposition has read.

    They are V (diag(g_w) + F * (V^T g_V)) V^T with F_mn = 1 / (w_n - w_m), and 0 on the diagonal.
    """
    distances = values[..., None, :] - values[..., :, None]
    same = np.eye(values.shape[-1], dtype=bool)
    turned = np.swapaxes(vectors, -1, -2)
    middle = np.matmul(turned, of_vectors) / np.where(same, 1.0, distances)
    middle = np.where(same, of_values[..., None, :], middle)
    whole = np.matmul(np.matmul(vectors, middle), turned)
    mirrored = np.swapaxes(whole, -1, -2)
    if lower:
        return (np.tril(whole) + np.tril(mirrored, -1),)
    return (np.triu(whole) + np.triu(mirrored, 1),)


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
