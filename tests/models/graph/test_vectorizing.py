"""Graphs with more axes: those of PyTensor's own function, and chains of any length."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.random.op import RandomVariable

from pymc_arm.models.graph.batching import batch_draws
from pymc_arm.models.graph.vectorizing import put_in_place, vectorize

SIZE = 6


def evaluate(graphs, inputs, values):
    function = pytensor.function(inputs, graphs, mode=Mode("py", None), on_unused_input="ignore")
    return function(*values)


def chain(x):
    """Steps that each look at the axes of the one before."""
    for _ in range(5):
        x = pt.concatenate([x[1:], pt.alloc(x[0], x.shape[0] - 1)])[: x.shape[0]] + pt.ones_like(x)
    return x


@pytest.mark.parametrize("build", [chain, lambda x: x.sum() + pt.zeros(3), lambda x: pt.diag(x)])
def test_as_pytensor_does(build):
    x, rows = pt.tensor("x", shape=(3,)), pt.tensor("rows", shape=(None, 3))
    graphs, values = [build(x), x], np.random.default_rng(1).normal(size=(SIZE, 3))
    expected = evaluate(vectorize_graph(graphs, {x: rows}), [rows], [values])
    found = vectorize(graphs, {x: rows})
    assert [one.type for one in found] == [one.type for one in vectorize_graph(graphs, {x: rows})]
    for one, other in zip(evaluate(found, [rows], [values]), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_depends_on_nothing_replaced_is_left():
    x, y = pt.vector("x"), pt.vector("y")
    graph = pt.exp(y)
    assert vectorize([graph], {x: pt.matrix("rows")}) == [graph]


def test_chains_of_draws_are_chains():
    """A walk of steps of scale 0.1 that are declared one by one."""
    x = [pm.Normal.dist(5.0, 0.1)]
    for _ in range(30):
        x.append(pm.Normal.dist(x[-1], 0.1))
    size = pt.scalar("size", dtype="int64")
    drawn = batch_draws([pt.stack(x)], x, size)
    (values,) = evaluate(drawn, [size], [400])
    steps = np.diff(values, axis=1)
    assert values.shape == (400, 31)
    # 12,000 steps: their standard deviation is known to 0.65 %, correlations to 0.009.
    assert abs(steps.std() / 0.1 - 1) < 0.03
    assert abs(np.corrcoef(steps[:, :-1].ravel(), steps[:, 1:].ravel())[0, 1]) < 0.04


def test_replaced_variables_are_not_copied():
    x, draw = pt.vector("x"), pm.Normal.dist(shape=3)
    (graph,) = put_in_place([pt.exp(x) + 1], {x: draw})
    (exponential, _) = graph.owner.inputs
    assert exponential.owner.inputs[0] is draw
    assert isinstance(draw.owner.op, RandomVariable)
