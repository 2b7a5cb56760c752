"""The interpreter of batched graphs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph.interpret import MANY_NODES, compile_with_numpy


def test_what_is_bound_is_evaluated_once():
    points, scale, shift = pt.dmatrix("points"), pt.dvector("scale"), pt.dscalar("shift")
    program = compile_with_numpy(
        [points, scale, shift], pt.exp(points * pt.log(scale)) + pt.sqrt(shift), pt.sqrt(shift)
    )
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(5, 3)), rng.uniform(1, 2, size=3), np.array(4.0)
    bound = program.bind(*inputs[1:])
    assert len(bound.instructions) < len(program.instructions)
    for result, expected in zip(bound(inputs[0]), program(*inputs), strict=True):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_allclose(bound(inputs[0])[0], inputs[1] ** inputs[0] + 2.0)
    assert bound(inputs[0])[1] == 2.0
    (alone,) = program.bind(*inputs[1:], outputs=[1])(inputs[0])
    assert alone == 2.0


def test_threads_share_operations_with_a_compiled_function() -> None:
    """PyTensor 3's softmax is one; two threads in it at once ended the process."""
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(4))
        pm.Multinomial("counts", 20, shares, observed=[3, 5, 2, 10])
    path = compile_model(model)
    points = np.random.default_rng(1).normal(size=(500, 3))
    expected = path.log_density(points)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(path.log_density, [points] * 200):
            np.testing.assert_array_equal(found, expected)


def test_a_large_graph_has_the_gradient_of_a_small_one():
    """Steps of x <- x + h f(x) that are not a loop, against what they amount to.

    Of x' = a x the steps give x (1 + a h)^n, whose derivatives are known.
    """
    steps, width = MANY_NODES // 8, 1e-3  # of nine nodes each
    a, x = pt.dvector("a"), pt.dvector("x")
    state = x
    for _ in range(steps):
        state = state + width * a * state
    program = compile_with_numpy([a, x], state, *pt.grad(pt.log(state).sum(), [a, x]))
    rates, start = np.array([0.3, -0.2]), np.array([1.0, 2.0])
    value, by_rate, by_start = program(rates, start)
    np.testing.assert_allclose(value, start * (1 + rates * width) ** steps, rtol=1e-10)
    np.testing.assert_allclose(by_rate, steps * width / (1 + rates * width), rtol=1e-10)
    np.testing.assert_allclose(by_start, 1 / start, rtol=1e-10)


def test_sums_of_sums_that_share_summands_are_compiled():
    """Fibonacci's numbers: the last has as many ways to the first as it is large, some 10^12."""
    points = pt.dmatrix("points")
    before, last = points[:, 0], points[:, 1]
    for _ in range(58):
        before, last = last, before + last
    program = compile_with_numpy([points], last)
    exact = np.array([[1, 0], [0, 1], [2, -1]])
    for _ in range(58):
        exact = np.stack([exact[:, 1], exact.sum(axis=1)], axis=1)
    given = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])
    np.testing.assert_array_equal(program(given)[0], exact[:, 1])
