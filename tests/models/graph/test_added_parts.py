"""Gradients of arrays of which parts were used are added to one array."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer

from pymc_arm.models.graph.added_parts import AddedParts, add_parts
from pymc_arm.models.graph.interpret import read_graph

RNG = np.random.default_rng(0)


def gradient_of(graph, x):
    """Return the merged graph of a gradient, and the same with parts added to one array."""
    plain = FunctionGraph([x], [pytensor.grad(graph, x)], clone=True)
    MergeOptimizer().rewrite(plain)
    other = plain.clone()
    add_parts(other)
    return plain, other


def count(fgraph, kind):
    return sum(isinstance(node.op, kind) for node in fgraph.apply_nodes)


def test_a_recursion_over_rows_has_the_same_gradient_from_one_array():
    x = pt.tensor("x", dtype="float64", shape=(30, 4))
    state = x[0]
    for number in range(1, 30):
        state = pt.tanh(state * x[number] + x[number, 1:2])
    plain, other = gradient_of(state.sum() + (x**2).sum(), x)
    point = RNG.normal(size=(30, 4))
    expected, found = (read_graph(fgraph)(point)[0] for fgraph in (plain, other))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert count(other, AddedParts) == 1
    assert len(other.apply_nodes) < len(plain.apply_nodes)


def test_a_part_that_is_used_twice_counts_twice():
    x = pt.tensor("x", dtype="float64", shape=(5,))
    graph = x[1] ** 2 + x[1] * x[2] + x[1:4].sum() * x[0] + x[::2].prod()
    other = gradient_of(graph, x)[1]
    assert count(other, AddedParts) == 1
    a, b, c, d, e = point = RNG.normal(size=5)
    exact = np.array([b + c + d, 2 * b + c + a, b + a, a, 0.0])
    exact += [c * e, 0, a * e, 0, a * c]
    np.testing.assert_allclose(read_graph(other)(point)[0], exact, rtol=1e-12)


def test_two_gradients_with_other_places_are_no_one_operation():
    x = pt.tensor("x", dtype="float64", shape=(6,))
    first, second = (
        sum(x[number] ** 2 * number for number in numbers) for numbers in ((0, 1, 2), (3, 4, 5))
    )
    gradients = [pytensor.grad(graph, x) for graph in (first, second)]
    fgraph = FunctionGraph([x], gradients, clone=True)
    MergeOptimizer().rewrite(fgraph)
    add_parts(fgraph)
    MergeOptimizer().rewrite(fgraph)
    point = RNG.normal(size=6)
    found = read_graph(fgraph)(point)
    np.testing.assert_allclose(found[0], 2 * point * [0, 1, 2, 0, 0, 0])
    np.testing.assert_allclose(found[1], 2 * point * [0, 0, 0, 3, 4, 5])
