"""Programs of graphs that differ in their data alone: rewritten once, and the same values."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_arm.comparison.prior_predictive import PriorPredictive
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph import reuse


@pytest.fixture
def counted(monkeypatch):
    """Forget all programs, and count those that are rewritten."""
    monkeypatch.setattr(reuse, "_known", type(reuse._known)())
    calls = []
    compile_one = reuse.compile_with_numpy

    def count(*arguments, **keywords):
        calls.append(arguments)
        return compile_one(*arguments, **keywords)

    monkeypatch.setattr(reuse, "compile_with_numpy", count)
    return calls


def _line(data):
    x = pt.tensor("x", dtype="float64", shape=(2,))
    rows = pt.tensor("X", dtype="float64", shape=(None, 2))
    graph = x[0] + x[1] * reuse.exchangeable(np.asarray(data))
    return reuse.compile_batched([x], {x: rows}, [graph])


def test_data_are_exchanged_and_the_rest_is_not(counted):
    points = np.array([[1.0, 2.0], [0.5, -1.0]])
    for data in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        (found,) = _line(data)(points)
        np.testing.assert_array_equal(found, points[:, :1] + points[:, 1:] * np.array(data))
    assert len(counted) == 1
    (found,) = _line([1.0, 2.0])(points)  # another shape is another program
    assert found.shape == (2, 2)
    assert len(counted) == 2


def test_other_constants_and_operations_are_other_programs(counted):
    x = pt.tensor("x", dtype="float64", shape=(2,))
    rows = pt.tensor("X", dtype="float64", shape=(None, 2))
    points = np.array([[0.3, 0.4]])
    graphs = [x * np.array([1.0, 2.0]), x * np.array([1.0, 3.0]), x + np.array([1.0, 2.0])]
    for graph in (*graphs, graphs[0]):
        (found,) = reuse.compile_batched([x], {x: rows}, [graph])(points)
        np.testing.assert_array_equal(found[0], graph.eval({x: points[0]}))
    assert len(counted) == 3


def test_no_more_programs_are_kept_than_a_few(counted, monkeypatch):
    monkeypatch.setattr(reuse, "MOST_KEPT", 2)
    for size in (1, 2, 3, 3, 1):
        _line(np.ones(size))
    assert len(reuse._known) == 2
    assert len(counted) == 4


@pytest.mark.parametrize("kind", ["normal", "labels"])
def test_models_with_other_data_have_the_density_of_models_written_so(kind, counted):
    def build(data):
        with pm.Model() as model:
            a = pm.Normal("a", 0, 1, shape=2)
            if kind == "normal":
                pm.Normal("y", a[0], pm.math.exp(a[1]), observed=data)
            else:
                pm.Categorical("y", logit_p=pm.math.stack([a[0], a[1], 0.0]), observed=data)
        return model

    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 6)) if kind == "normal" else rng.integers(0, 3, (2, 6))
    predictive = PriorPredictive("model", build(first))
    points, weights = rng.normal(size=(5, 2)), np.ones(8)

    def evaluate(model):
        density = compile_model(model).density
        assert density.gradient.available()
        return [density.terms(points), *density.gradient(points, weights)]

    evaluate(predictive.with_data({"y": first}))
    counted.clear()
    found = evaluate(predictive.with_data({"y": second}))
    assert not counted
    for one, other in zip(found, evaluate(build(second)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_term_that_depends_on_a_size_alone_is_one_number_for_all_points():
    x = pt.tensor("x", dtype="float64", shape=(3,))
    rows = pt.tensor("X", dtype="float64", shape=(None, 3))
    graphs = [pt.zeros((2,)) + pt.exp(x).shape[0], pt.exp(x)]
    program = reuse.compile_batched([x], {x: rows}, graphs)
    size, values = program(np.zeros((4, 3)))
    assert size.shape == (4, 2)
    assert (size == 3).all()
    assert values.shape == (4, 3)
