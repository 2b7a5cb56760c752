"""Operations on batches: each entry gives what PyTensor gives for one element after another."""

import itertools

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise

from pymc_arm._compat import PYMC_MAJOR, nlinalg
from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.graph.operations import array_function, core_function

SIZE = 4
TABLE = np.arange(20.0).reshape(5, 4)
MASK = np.array([True, False, True, True])
GROUPS = np.array([2, 0, 2, 1, 2, -1])


def spd(matrix):
    return matrix.T @ matrix + 2 * pt.eye(3)


def label(vector):
    """Return an index that differs from particle to particle."""
    return pt.gt(vector[0], 0).astype("int64")


def labels(vector):
    return pt.gt(vector, 0).astype("int64")


# From a vector of 4 and a matrix of 3 x 3, both with one for each particle, to an array.
GRAPHS = {
    "slice": lambda v, m: v[1:3],
    "slice_with_a_step": lambda v, m: v[::-2],
    "element": lambda v, m: v[2],
    "row": lambda v, m: m[1],
    "column": lambda v, m: m[:, -1],
    "own_element": lambda v, m: v[label(v)],
    "own_row": lambda v, m: m[label(v)],
    "own_rows": lambda v, m: m[labels(v)],
    "own_elements_of_a_constant": lambda v, m: pt.constant(TABLE)[labels(v), labels(v) + 1],
    "groups": lambda v, m: v[GROUPS],
    "groups_of_columns": lambda v, m: m[:, [0, 2, 2]],
    "mask": lambda v, m: v[MASK],
    "set_slice": lambda v, m: pt.set_subtensor(pt.zeros(4)[1:3], v[:2]),
    "add_to_slice": lambda v, m: pt.inc_subtensor(v[1:3], m[0, 1:]),
    "set_mask": lambda v, m: pt.set_subtensor(pt.zeros(4)[MASK], v[:3]),
    "set_mask_of_a_matrix": lambda v, m: pt.set_subtensor(m[np.eye(3, dtype=bool)], v[:3]),
    "add_to_mask": lambda v, m: pt.inc_subtensor(v[MASK], m[0]),
    "set_groups": lambda v, m: pt.set_subtensor(v[[0, 2]], m[0, :2]),
    "add_to_groups": lambda v, m: pt.inc_subtensor(v[[1, 1, 3]], m[0]),
    "add_to_rows": lambda v, m: pt.inc_subtensor(m[[1, 1]], m[:2]),
    "add_a_number_to_columns": lambda v, m: pt.inc_subtensor(m[:, [1, 1]], v[0]),
    "set_own": lambda v, m: pt.set_subtensor(v[labels(v)[:1]], m[0, :1]),
    "add_to_own": lambda v, m: pt.inc_subtensor(v[labels(v)], v),
    "set_element": lambda v, m: pt.set_subtensor(m[1, 2], v[0]),
    "add_to_every_other": lambda v, m: pt.inc_subtensor(v[::-2], m[0, :2]),
    "transposed": lambda v, m: m.T * v[:3],
    "new_axes": lambda v, m: v[:, None] + m[0][None, :],
    "axis_dropped": lambda v, m: m[:, :1].dimshuffle(0),
    "number_of_one": lambda v, m: m[:1, :1].dimshuffle(),
    "sort": lambda v, m: pt.sort(v),
    "sort_labels": lambda v, m: pt.sort(labels(v)),
    "order": lambda v, m: pt.argsort(m, axis=-1),
    "join": lambda v, m: pt.concatenate([v, m[0], pt.ones(2)]),
    "join_columns": lambda v, m: pt.concatenate([m, pt.ones((3, 2))], axis=1),
    "join_rows": lambda v, m: pt.concatenate([m, pt.ones((2, 3))], axis=0),
    "split": lambda v, m: pt.split(v, [1, 3], n_splits=2)[1],
    "split_columns": lambda v, m: pt.split(m, [1, 2], n_splits=2, axis=1)[1],
    "cholesky": lambda v, m: pt.linalg.cholesky(spd(m)),
    "cholesky_upper": lambda v, m: pt.linalg.cholesky(spd(m), lower=False),
    "solve_lower": lambda v, m: pt.linalg.solve_triangular(spd(m), v[:3], lower=True, b_ndim=1),
    "solve_upper": lambda v, m: pt.linalg.solve_triangular(spd(m), m, lower=False),
    "solve": lambda v, m: pt.linalg.solve(spd(m), v[:3], b_ndim=1),
    "solve_matrix": lambda v, m: pt.linalg.solve(spd(m), m),
    "solve_with_factor": lambda v, m: pt.linalg.cho_solve(
        (pt.linalg.cholesky(spd(m)), True), v[:3], b_ndim=1
    ),
    "inverse": lambda v, m: pt.linalg.inv(spd(m)),
    "determinant": lambda v, m: pt.linalg.det(spd(m)),
    "log_determinant": lambda v, m: pt.linalg.slogdet(spd(m))[1],
    "log_of_determinant": lambda v, m: pt.log(pt.linalg.det(spd(m))),
    "eigenvalues": lambda v, m: pt.linalg.eigh(spd(m))[0],
    "squares_of_eigenvectors": lambda v, m: pt.linalg.eigh(spd(m))[1] ** 2,
    "singular_values": lambda v, m: pt.linalg.svd(m, compute_uv=False),
    "orthogonal": lambda v, m: pt.linalg.qr(m)[1] ** 2,
    "pseudo_inverse": lambda v, m: pt.linalg.pinv(m[:, :2]),
    "exponential": lambda v, m: pt.linalg.expm(m / 3),
    "blocks": lambda v, m: pt.linalg.block_diag(m, m[:2]),
    "solve_symmetric": lambda v, m: pt.linalg.solve(spd(m), v[:3], assume_a="pos", b_ndim=1),
    "convolution": lambda v, m: pt.signal.convolve1d(v, m[0]),
    "places_in_order": lambda v, m: pt.searchsorted(np.arange(5.0) - 2, v).astype("float64"),
    "repeat_each": lambda v, m: pt.repeat(v, [1, 2, 0, 3]),
    "fill_diagonal": lambda v, m: pt.fill_diagonal(m, v[0]),
    "diagonal": lambda v, m: pt.diag(v),
    "products": lambda v, m: pt.dot(pt.dot(v[:3], m), pt.dot(m, v[:3])) + pt.dot(m, m),
    "softmax": lambda v, m: pt.special.softmax(m, axis=1) + pt.special.log_softmax(m, axis=0),
    "cumulative": lambda v, m: pt.cumsum(v),
    "sums": lambda v, m: m.sum(axis=0) + m.prod(axis=1) + m.max() + m.min(),
    "sign_of_determinant": lambda v, m: nlinalg.SLogDet()(spd(m))[0],
}
# What PyTensor 2 can't batch, or not derive; what either opens only in the gradient of a model.
NOT_IN_PYTENSOR_2 = {"add_a_number_to_columns", "groups_of_columns"}
MISSING = NOT_IN_PYTENSOR_2 if PYMC_MAJOR < 6 else set()
NO_GRADIENT = {"diagonal", "sign_of_determinant", "solve_with_factor"}
# What PyTensor itself refuses, and eigenvectors of an eigenvalue that comes twice.
REFUSED = {("softmax", "bool"), ("singular_values", "int8"), ("pseudo_inverse", "int8")}
AMBIGUOUS = {("squares_of_eigenvectors", "bool")}
# Entries without a graph here, and where they are tested: in the files of loops and of draws.
# Of what is allocated and not filled there is nothing to compare.
ELSEWHERE = {"object", "AllocEmpty", "OpFromGraph", "RandomVariable", "Scan"}
# What PyTensor writes as an operation of its own only when it has simplified a graph.
SIMPLIFIED = {"AdvancedSubtensor1", "AdvancedIncSubtensor1", "Min"}
DTYPES = ["bool", "int8", "int32", "int64", "uint8", "float32"]


def inputs(dtype="float64"):
    rng = np.random.default_rng(1)
    draw = {
        "f": rng.normal,
        "i": lambda size: rng.integers(-3, 5, size),
        "u": lambda size: rng.integers(0, 5, size),
        "b": lambda size: rng.integers(0, 2, size),
    }[np.dtype(dtype).kind]
    return draw(size=(SIZE, 4)).astype(dtype), draw(size=(SIZE, 3, 3)).astype(dtype)


def compare(graph, vector, matrix):
    dtype = vector.type.dtype
    rows = pt.tensor(shape=(None, 4), dtype=dtype), pt.tensor(shape=(None, 3, 3), dtype=dtype)
    batched = vectorize_graph(graph, {vector: rows[0], matrix: rows[1]})
    program = compile_with_numpy(rows, batched)
    own = pytensor.function(
        [vector, matrix], graph, mode=Mode("py", None), on_unused_input="ignore"
    )
    expected = np.array([own(*row) for row in zip(*inputs(dtype), strict=True)])
    (found,) = program(*inputs(dtype))
    assert found.dtype == expected.dtype
    digits = 1e-9 if expected.dtype != "float32" else 1e-4
    found = np.broadcast_to(found, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=digits, atol=1e-3 * digits)
    return program


def make_inputs(dtype="float64"):
    return pt.tensor("v", shape=(4,), dtype=dtype), pt.tensor("m", shape=(3, 3), dtype=dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - MISSING))
def test_a_batch_is_what_one_after_another_gives(name):
    vector, matrix = make_inputs()
    assert compare(GRAPHS[name](vector, matrix), vector, matrix).vectorized


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "dtype"),
    sorted(set(itertools.product(GRAPHS.keys() - MISSING, DTYPES)) - REFUSED - AMBIGUOUS),
)
def test_a_batch_of_any_dtype_is_what_one_after_another_gives(name, dtype):
    vector, matrix = make_inputs(dtype)
    compare(GRAPHS[name](vector, matrix), vector, matrix)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - MISSING - NO_GRADIENT))
def test_the_gradient_of_a_batch_is_too(name):
    vector, matrix = make_inputs()
    graph = GRAPHS[name](vector, matrix)
    total = (graph * pt.cos(graph)).sum()
    gradients = pt.grad(total, [vector, matrix], disconnected_inputs="ignore")
    joined = pt.concatenate([gradient.ravel() for gradient in gradients])
    assert compare(joined, vector, matrix).vectorized


@pytest.mark.filterwarnings("ignore")
def test_every_entry_of_the_table_has_a_graph():
    found = set()
    for name in GRAPHS.keys() - MISSING:
        inputs = make_inputs()
        graphs = [GRAPHS[name](*inputs)]
        if name not in NO_GRADIENT:
            graphs += pt.grad((graphs[0] ** 2).sum(), inputs, disconnected_inputs="ignore")
        rows = pt.tensor(shape=(None, 4)), pt.tensor(shape=(None, 3, 3))
        batched = vectorize_graph(graphs, dict(zip(inputs, rows, strict=True)))
        operations = [v.owner.op for v in ancestors(batched) if v.owner]
        found |= {type(op).__name__ for op in operations}
        found |= {type(op.core_op).__name__ for op in operations if isinstance(op, Blockwise)}
    entries = {kind.__name__ for kind in {**core_function.registry, **array_function.registry}}
    assert entries - found - ELSEWHERE <= SIMPLIFIED


def test_matrices_that_are_not_definite_or_not_regular_are_nan():
    matrices = np.stack([np.eye(2), -np.eye(2), np.zeros((2, 2))])
    rows = pt.tensor(shape=(None, 2, 2))
    one = pt.tensor(shape=(2, 2))
    graphs = [pt.linalg.cholesky(one), pt.linalg.inv(one)]
    found = compile_with_numpy([rows], *vectorize_graph(graphs, {one: rows}))(matrices)
    np.testing.assert_array_equal(np.isnan(found[0]).all(axis=(1, 2)), [False, True, True])
    np.testing.assert_array_equal(np.isnan(found[1]).all(axis=(1, 2)), [False, False, True])
