"""What evaluates a model is compared with PyTensor's own function, and never trusted blindly."""

import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.scalar.basic import Exp
from pytensor.tensor.elemwise import Elemwise

from pymc_arm import ModelError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph import interpret
from pymc_arm.models.graph.verification import Reference, agrees_with_differences
from pymc_arm.models.terms import Layout, build_terms


def model_with_exp():
    with pm.Model() as model:
        pm.Normal("other")
        x = pm.Normal("x")
        pm.Normal("y", pm.math.exp(x), 0.5, observed=np.array([0.5, 1.0]))
    return model


def break_exp(patch):
    """Make the table's entry for exp off by a thousandth."""
    right = interpret.array_function

    def entry(operation, node):
        function = right(operation, node)
        if isinstance(operation, Elemwise) and isinstance(operation.scalar_op, Exp):
            return lambda *arrays: (1.001 * function(*arrays)[0],)
        return function

    patch.setattr(interpret, "array_function", entry)


def test_a_wrong_entry_chooses_another_back_end_and_says_so(monkeypatch):
    break_exp(monkeypatch)
    path = compile_model(model_with_exp())
    assert path.density.backend == "numba"
    (note,) = path.plan.notes
    assert "evaluated with numba" in note
    assert "'y'" in note
    x = 0.3
    expected = -0.5 * ((np.array([0.5, 1.0]) - np.exp(x)) / 0.5) ** 2
    found = path.density.terms(np.array([[0.0, x]]))[0, -2:]
    np.testing.assert_allclose(found[1] - found[0], expected[1] - expected[0])


def test_a_model_without_a_right_back_end_is_refused_by_name(monkeypatch):
    break_exp(monkeypatch)
    with pytest.raises(ModelError, match="'y'"):
        compile_model(model_with_exp(), backend="numpy")


def test_a_wrong_gradient_is_not_used(monkeypatch):
    path = compile_model(model_with_exp())
    break_exp(monkeypatch)  # after the terms were compared
    assert path.density.gradient.available()
    assert path.density.gradient.backend == "numba"
    assert any("no gradient with numpy: the value is" in note for note in path.density.notes)


def graphs_of(model):
    values = [np.zeros((1, *rv.type.shape)) for rv in model.free_RVs]
    x, blocks = build_terms(model, Layout.of(model, values))
    return x, [piece for block in blocks for piece in block.pieces]


def test_the_comparison_is_cheap():
    x, pieces = graphs_of(model_with_exp())
    points = np.random.default_rng(0).normal(size=(20, 2))
    Reference(x, pieces, points)
    start = time.perf_counter()
    Reference(x, pieces, points)
    assert time.perf_counter() - start < 0.3


def test_rewrites_have_the_last_word_where_the_plain_graph_overflows():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1000)
        pm.Bernoulli("y", logit_p=x, observed=1)
        pm.Potential("tail", -pt.log1p(pt.exp(x)))
    reference = Reference(*graphs_of(model), np.array([[-900.0], [2.0], [900.0]]))
    assert np.isneginf(reference.values[2]).any()
    path = compile_model(model)
    assert reference.compare(path.density.terms) is None
    shift = np.array([0, 0, 0.1])
    off = reference.compare(lambda points: path.density.terms(points) + shift)
    assert off is not None
    assert off.place == 2


def test_differences_tell_right_gradients_from_wrong_ones():
    points = np.random.default_rng(0).normal(size=(5, 3))

    def evaluate(at, factor=1.0):
        value, slope = np.sin(at).sum(axis=1), np.cos(at)
        slope[:, 1] *= factor
        return np.concatenate([value[:, None], slope], axis=1)

    assert agrees_with_differences(evaluate, points)
    assert not agrees_with_differences(lambda at: evaluate(at, 1.01), points)
    # Where nothing is finite, nothing is known.
    assert not agrees_with_differences(lambda at: np.nan * evaluate(at), points)
