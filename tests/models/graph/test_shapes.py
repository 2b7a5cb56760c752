"""Shapes are numbers before a graph is batched."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph.shapes import fix_shapes
from pymc_arm.models.graph_sampler import INTERPRETED


def shapes_in(graphs):
    nodes = {v.owner for v in ancestors(graphs) if v.owner is not None}
    return [node for node in nodes if isinstance(node.op, Shape | Shape_i)]


def test_no_shape_is_left_and_values_are_the_same():
    x = pt.tensor("x", dtype="float64", shape=(6,))
    matrix = pt.reshape(x, (2, 3))
    total = pt.sum(pt.dot(matrix, matrix.T) * matrix.shape[1])
    graphs = [total, pytensor.grad(total, x)]
    assert shapes_in(graphs)
    fixed = fix_shapes([x], graphs)
    assert not shapes_in(fixed)
    point = np.arange(6.0)
    before = pytensor.function([x], graphs, mode=INTERPRETED)(point)
    after = pytensor.function([x], fixed, mode=INTERPRETED)(point)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_the_gradient_of_a_covariance_is_small():
    """The number of operations does not depend on how many shapes are in the graph."""
    with pm.Model() as model:
        scale = pm.Exponential.dist(1.0, shape=3)
        factor, _, _ = pm.LKJCholeskyCov("factor", eta=2.0, n=3, sd_dist=scale)
        pm.MvNormal("y", np.zeros(3), chol=factor, observed=np.eye(3))
    gradient = compile_model(model).density.gradient
    assert gradient.available()
    assert gradient.backend == "numpy"


def test_functions_of_small_integers_are_left_alone():
    """PyTensor would take the logarithm in single precision, and NumPy does not."""
    x = pt.tensor("x", dtype="float64", shape=(2,))
    number = pt.log(pt.constant(3, dtype="int8"))
    (graph,) = fix_shapes([x], [x.shape[0] * number + x])
    assert any(v.owner is not None and v.owner.op == number.owner.op for v in ancestors([graph]))
