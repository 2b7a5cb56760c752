"""Draws from the prior: batched ones are those that one draw at a time gives."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors

from pymc_arm.models.graph.batching import batch_draws
from pymc_arm.models.graph.interpret import read_graph
from pymc_arm.models.graph.operations import looped
from pymc_arm.models.prior import PriorSampler

SIZE = 25


def only_a_later_parameter():
    scale = pm.HalfCauchy("scale", 2)
    pm.Normal("x", 0, scale, shape=3)


def symbolic():
    scale = pm.HalfNormal("scale", 2)
    pm.ZeroSumNormal("x", scale, shape=4)


def index():
    state = pm.Bernoulli("first", 0.4)
    for name in "abc":
        state = pm.Bernoulli(name, pt.constant([0.2, 0.9])[state])


def walk_with_a_fixed_start():
    drift = pm.Normal("drift", 0, 1)
    step = pm.Normal.dist(drift, 1)
    pm.RandomWalk("x", init_dist=pm.StudentT.dist(4, mu=0, sigma=1), innovation_dist=step, steps=3)


@pytest.mark.parametrize(
    "define", [only_a_later_parameter, symbolic, index, walk_with_a_fixed_start]
)
def test_batched_draws_are_those_of_one_at_a_time(define):
    with pm.Model() as model:
        define()
    one = PriorSampler(model)._draw_one_by_one(np.random.default_rng(1), SIZE)
    sampler = PriorSampler(model)
    many = sampler._draw_batched(np.random.default_rng(1), SIZE)
    for left, right in zip(one, many, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-12)
        assert len(np.unique(right.reshape(SIZE, -1)[:, 0])) == (2 if left.dtype == int else SIZE)


def drawing(variable, *parameters):
    rng = pytensor.shared(np.random.default_rng())
    node = variable.make_node(rng, pt.as_tensor([2, SIZE]), *map(pt.as_tensor, parameters))
    return read_graph(FunctionGraph([rng], [node.outputs[1]], clone=True))


@pytest.mark.parametrize(
    ("variable", "parameters"),
    [
        (pt.random.bernoulli, (0.3,)),
        (pt.random.cauchy, (1.0, 2.0)),
        (pt.random.halfnormal, (1.0, 2.0)),
        (pt.random.negative_binomial, (3, 0.3)),
        (pt.random.t, (4.0, 1.0, 2.0)),
    ],
)
def test_draws_are_those_of_scipy(variable, parameters):
    program = drawing(variable, *parameters)
    arrays = [np.asarray(parameter) for parameter in parameters]
    expected = variable.rng_fn(np.random.default_rng(1), *arrays, (2, SIZE))
    np.testing.assert_allclose(program(np.random.default_rng(1))[0], expected, rtol=1e-12)


def test_a_negative_scale_is_refused():
    program = drawing(pt.random.halfnormal, 0.0, -1.0)
    with pytest.raises(ValueError, match="negative scale"):
        program(np.random.default_rng(1))


def test_draws_in_an_order_are_made_for_all_at_once():
    """An order is seen in an array that is allocated; one by one, a million draws take minutes."""
    transform = pm.distributions.transforms.ordered
    with pm.Model() as model:
        pm.Normal("x", [0.0, 1.0], 1, shape=2, transform=transform, initval=[0.0, 1.0])
    sampler = PriorSampler(model)
    sampler.draw(np.random.default_rng(1), SIZE)
    graphs = batch_draws(sampler._values, sampler._random, sampler._size)
    shared = [v for v in ancestors(graphs) if isinstance(v, SharedVariable)]
    program = read_graph(FunctionGraph([sampler._size, *shared], graphs, clone=True))
    assert not any(isinstance(i.execute, type(looped_example())) for i in program.instructions)


def looped_example():
    """Return an operation that runs one element of a batch after another."""
    matrix = pt.tensor(shape=(None, 3, 3), dtype="float64")
    return looped(pt.linalg.expm(matrix).owner)
