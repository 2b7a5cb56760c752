"""Functions of draws are those of each draw, with and without a batched form."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_arm.models import functions_of_draws
from pymc_arm.models.functions_of_draws import (
    batched_function,
    function_of_draws,
    with_deterministics,
)

SIZE = 5


class OneByOne(Op):
    """Doubles a vector, and can't be batched."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = 2 * inputs[0]


def draws():
    rng = np.random.default_rng(1)
    return rng.normal(size=(SIZE, 3))


@pytest.mark.parametrize("double", [lambda x: 2 * x, OneByOne()])
def test_a_function_is_that_of_each_draw(double):
    x = pt.tensor("x", shape=(3,))
    function = batched_function([x], [double(x).sum(), x[1], pt.constant(7.0)])
    total, second, constant = function(draws())
    np.testing.assert_allclose(total, 2 * draws().sum(axis=1))
    np.testing.assert_allclose(second, draws()[:, 1])
    np.testing.assert_array_equal(constant, np.full(SIZE, 7.0))


def test_what_has_no_batched_form_is_called_for_each_draw(monkeypatch):
    def refuse(*args, **kwargs):
        raise NotImplementedError

    monkeypatch.setattr(functions_of_draws, "vectorize", refuse)
    x = pt.tensor("x", shape=(3,))
    (total,) = batched_function([x], [pt.exp(x).sum()])(draws())
    np.testing.assert_allclose(total, np.exp(draws()).sum(axis=1))


def test_variables_and_their_parents_are_at_their_draws():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        x = pm.Normal("x", mu, shape=2)
        pm.Deterministic("gap", x - mu)
    rng = np.random.default_rng(2)
    given = {"mu": rng.normal(size=SIZE), "x": rng.normal(size=(SIZE, 2))}
    gap = given["x"] - given["mu"][:, None]
    np.testing.assert_allclose(with_deterministics(model, given)["gap"], gap)
    (square,) = function_of_draws(model, [(x - mu) ** 2])(given)
    np.testing.assert_allclose(square, gap**2)
