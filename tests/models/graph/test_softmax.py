"""Softmax and its logarithm on batches, against SciPy."""

import numpy as np
import pytensor.tensor as pt
import pytest
import scipy.special

from pymc_arm.models.graph.interpret import compile_with_numpy

SHAPES = [(4,), (1,), (3, 5), (300, 7), (40, 60), (2, 400, 3), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_over_any_axis(shape, dtype):
    array = pt.tensor(shape=(None,) * len(shape), dtype=dtype)
    given = np.random.default_rng(1).normal(scale=300.0, size=shape).astype(dtype)
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    for axis in [None, *range(-len(shape), len(shape))]:
        if not given.size and axis not in (-1, 1):
            continue  # SciPy has no largest element of nothing
        graphs = [f(array, axis=axis) for f in (pt.special.softmax, pt.special.log_softmax)]
        found = compile_with_numpy([array], *graphs)(given)
        expected = [f(given, axis=axis) for f in (scipy.special.softmax, scipy.special.log_softmax)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [3, 20])
def test_gradients(length):
    """Of sum(w softmax(x)) they are s (w - sum(w s)), and of sum(w log softmax(x)) w - s sum(w)."""
    rng = np.random.default_rng(2)
    points, weights = rng.normal(size=(2, 500, length))
    array = pt.dmatrix()
    totals = [(weights * pt.special.softmax(array, axis=-1)).sum()]
    totals.append((weights * pt.special.log_softmax(array, axis=-1)).sum())
    found = compile_with_numpy([array], *(pt.grad(total, array) for total in totals))(points)
    shares = scipy.special.softmax(points, axis=1)
    mean = (weights * shares).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[0], shares * (weights - mean), atol=1e-12)
    np.testing.assert_allclose(
        found[1], weights - shares * weights.sum(axis=1, keepdims=True), atol=1e-12
    )


def test_impossible_choices_have_no_share():
    given = np.array([[0.0, -np.inf, 0.0], [1000.0, 0.0, -1000.0]])
    array = pt.dmatrix()
    graphs = [f(array, axis=-1) for f in (pt.special.softmax, pt.special.log_softmax)]
    shares, logarithms = compile_with_numpy([array], *graphs)(given)
    np.testing.assert_array_equal(shares, [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        logarithms, [[-np.log(2), -np.inf, -np.log(2)], [0.0, -1000.0, -2000.0]]
    )
