"""Indices beside slices are batched on NumPy, values and gradients."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.density import LogDensity
from pymc_arm.models.graph.first_axes import index_first_axes
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.terms import Layout, build_terms

FAR, NEAR = np.array([0, 2]), np.array([0, 1, 1, 3, 2])
# An index of an array (3, 4, 5) each.
PLACES: dict[str, Callable[[TensorVariable], TensorVariable]] = {
    "last": lambda b: b[:, :, NEAR],
    "middle": lambda b: b[:, NEAR],
    "two_last": lambda b: b[:, NEAR, NEAR],
    "apart": lambda b: b[FAR, :, FAR],
    "with_a_number": lambda b: b[FAR, :, 1],
    "sliced": lambda b: b[1:, NEAR, ::2],
    "sliced_and_apart": lambda b: b[FAR, 1:, FAR],
    "matrix": lambda b: b[:, NEAR.reshape(5, 1), NEAR],
    "negative": lambda b: b[:, -NEAR],
}


def _rewritten(x: TensorVariable, graph: TensorVariable) -> TensorVariable:
    fgraph = FunctionGraph([x], [graph], clone=True)
    index_first_axes(fgraph)
    return pytensor.function(fgraph.inputs, fgraph.outputs, mode="FAST_COMPILE")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", ["look_up", "set", "add", "set_number"])
def test_the_same_elements(place: str, what: str) -> None:
    x = pt.tensor("x", dtype="float64", shape=(3, 4, 5))
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    part = PLACES[place](x)
    shape = PLACES[place](values).shape
    new = np.arange(np.prod(shape), dtype=float).reshape(shape)
    if what == "set" and len(np.unique(NEAR)) < len(NEAR) and place != "apart":
        new = np.full(shape, 7.0)  # places that come twice
    graph = {
        "look_up": part,
        "set": pt.set_subtensor(part, new),
        "add": pt.inc_subtensor(part, new),
        "set_number": pt.set_subtensor(part, 3.0),
    }[what]
    expected = pytensor.function([x], graph, mode="FAST_COMPILE")(values)
    np.testing.assert_array_equal(_rewritten(x, graph)(values)[0], expected)


def _slopes() -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=(3, 4))
        pm.Normal("y", b[:, NEAR].sum(axis=0), 1, observed=np.arange(5.0))
    return model


def _far_indices() -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=(3, 4, 3))
        pm.Normal("y", b[FAR, :, FAR], 1, observed=np.ones((2, 4)))
    return model


def _labels() -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=(3, 4))
        label = pm.Categorical("label", p=np.ones(4) / 4, shape=5)
        pm.Normal("y", b[:, label].sum(axis=0), 1, observed=np.arange(5.0))
    return model


def _rows_of_normals() -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=3)
        factor, _, _ = pm.LKJCholeskyCov("factor", n=3, eta=2, sd_dist=pm.Exponential.dist(1.0))
        rows = np.random.default_rng(1).normal(size=(6, 3))
        pm.MvNormal("y", mean, chol=factor, observed=rows)
    return model


def _a_matrix_each() -> pm.Model:
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1, shape=(2, 3))
        covariances = pt.eye(3) * sd[:, :, None]
        pm.MvNormal("y", np.zeros(3), cov=covariances, observed=np.ones((2, 3)))
    return model


@pytest.mark.parametrize(
    "build", [_slopes, _far_indices, _labels, _rows_of_normals, _a_matrix_each]
)
def test_gradients_need_no_compiler(build: Callable[[], pm.Model]) -> None:
    # Value and gradient are compared with PyTensor's own before a back end is chosen.
    model = build()
    prior = PriorSampler(model)
    values = prior.draw(np.random.default_rng(2), 20)
    layout = Layout.of(model, values)
    density = LogDensity(*build_terms(model, layout), layout.ravel(values, 20), None)
    assert density.backend == "numpy"
    assert density.gradient.available()
    assert density.gradient.backend == "numpy"
