"""Reductions over an axis and sums by groups are PyTensor's, however arrays lie in memory."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_arm.models.graph.interpret import compile_with_numpy

OWN = Mode(linker="py", optimizer=None)
INFINITE = np.array([[1.0, np.inf, 2.0], [-np.inf, np.inf, 0.0], [np.nan, 1.0, 2.0]])
SHAPES = [(4, 5), (3, 4, 5), (2, 3, 4, 5), (1, 1), (0, 3), (3, 0)]


def arrays(shape, dtype):
    """Return the same numbers by row, by column, and as a part of a larger array."""
    rng = np.random.default_rng(0)
    array = (10 * rng.normal(size=shape)).astype(dtype)
    wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
    wide[..., ::2] = array
    return [array, np.asfortranarray(array), wide[..., ::2]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [-1, 0, 1, None, "all but the first"])
def test_sums_of_any_type_and_layout(shape, dtype, axis):
    x = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape))
    axes = tuple(range(1, len(shape))) if axis == "all but the first" else axis
    graph = pt.sum(x, axis=axes)
    own = pytensor.function([x], graph, mode=OWN)
    program = compile_with_numpy([x], graph)
    for array in arrays(shape, dtype):
        (found,) = program(array)
        expected = own(array)
        assert found.dtype == expected.dtype
        assert np.allclose(found, expected, rtol=1e-12 if dtype == "float64" else 1e-6)


def test_infinities_add_up_as_they_do_elsewhere():
    x = pt.matrix("x")
    (found,) = compile_with_numpy([x], pt.sum(x, axis=-1))(INFINITE)
    assert found[0] == np.inf
    assert np.isnan(found[1:]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(200, 5), (40, 5, 2), (200, 9), (400, 10, 1), (3, 4)], ids=str)
@pytest.mark.parametrize("axis", [-1, 0, None])
@pytest.mark.parametrize("name", ["max", "min", "all", "any"])
def test_what_slices_are_combined_to(name, axis, shape, dtype):
    """Short axes of large arrays are taken slice by slice, others are not: the same bits."""
    x = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape))
    if dtype == "bool" and name in ("max", "min"):
        pytest.skip("PyTensor has no maximum of truth values")
    graph = getattr(pt, name)(x, axis=axis)
    own = pytensor.function([x], graph, mode=OWN)
    program = compile_with_numpy([x], graph)
    for array in arrays(shape, dtype):
        (found,) = program(array)
        expected = own(array)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_a_maximum_with_nan_is_nan():
    array = np.random.default_rng(2).normal(size=(500, 3))
    array[::7, 1], array[::11, 0] = np.nan, -np.inf
    x = pt.matrix("x")
    (found,) = compile_with_numpy([x], pt.max(x, axis=-1))(array)
    assert np.array_equal(found, array.max(axis=-1), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_sums_by_groups(dtype):
    """Rows are added to their places: negative ones, several at one place, and places without."""
    x = pt.tensor("x", dtype=dtype, shape=(None, 3))
    start = pt.constant(np.arange(15).reshape(5, 3).astype(dtype))
    places = np.array([2, 0, 2, -1, 2, 0])
    graph = pt.inc_subtensor(start[places], x)
    own = pytensor.function([x], graph, mode=OWN)
    program = compile_with_numpy([x], graph)
    rng = np.random.default_rng(1)
    for _ in range(2):  # the second call has the grouping at hand
        rows = (10 * rng.normal(size=(6, 3))).astype(dtype)
        (found,) = program(rows)
        assert found.dtype == dtype
        assert np.allclose(found, own(rows), rtol=1e-6)


def test_groups_that_change_between_calls():
    x, places = pt.matrix("x"), pt.lvector("places")
    graph = pt.inc_subtensor(pt.zeros((4, 2))[places], x)
    program = compile_with_numpy([x, places], graph)
    rows = np.arange(6.0).reshape(3, 2)
    for chosen in ([0, 0, 3], [1, 2, 1]):
        expected = np.zeros((4, 2))
        np.add.at(expected, chosen, rows)
        assert np.array_equal(program(rows, np.array(chosen))[0], expected)
