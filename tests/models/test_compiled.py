"""A model keeps its path for as long as it stays the same."""

import gc
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_arm import ArmWarning
from pymc_arm.models import compiled
from pymc_arm.models.compiled import compile_model


def build() -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", np.arange(4.0))
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=np.ones(4))
    return model


def test_a_model_is_compiled_once():
    model = build()
    path = compile_model(model)
    assert compile_model(model) is path
    assert compile_model(model, order=["slope"]) is not path
    assert compile_model(build()) is not path


def test_a_model_that_changed_is_compiled_again():
    model = build()
    path = compile_model(model)
    with model:
        pm.set_data({"x": np.zeros(4)})
    flat = compile_model(model)
    points = np.zeros((1, 1)), np.ones((1, 1))
    assert path.log_density(points[0]) - path.log_density(points[1]) != pytest.approx(0.5)
    assert flat.log_density(points[0]) - flat.log_density(points[1]) == pytest.approx(0.5)
    with model:
        pm.Potential("more", 2.0 * model["slope"])
    assert compile_model(model).density.count == flat.density.count + 1


def test_arrays_that_were_changed_in_place_are_noticed():
    x = np.array([1.0, 2.0, 3.0])
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=x)
    path = compile_model(model)
    x *= -2
    assert compile_model(model) is not path


def test_data_of_another_shape_is_noticed():
    with pm.Model() as model:
        table = pm.Data("table", np.arange(6.0).reshape(2, 3))
        pm.Normal("y", table.shape[0] * pm.Normal("x"), 1.0, observed=1.0)
    path = compile_model(model)
    with model:
        pm.set_data({"table": np.arange(6.0).reshape(3, 2)})
    assert compile_model(model) is not path


def test_paths_go_with_their_models():
    model = build()
    compile_model(model)
    before = len(compiled._compiled)
    del model
    gc.collect()
    assert len(compiled._compiled) < before


def test_warnings_are_given_each_time():
    with pm.Model() as model:
        pm.CustomDist(
            "x",
            logp=lambda value: 3.0 - 0.5 * value**2,
            random=lambda rng=None, size=None: rng.normal(size=size),
        )
        pm.Potential("no_data", pt.constant(0.0))
    for _ in range(2):
        with pytest.warns(ArmWarning, match="'x', a CustomDist, is not normalised") as caught:
            path = compile_model(model)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ArmWarning)
        assert compile_model(model) is path
    with (
        pytest.warns(ArmWarning, match="not normalised"),
        pytest.raises(ValueError, match="nonsense"),
    ):
        compile_model(model, order=["nonsense"])
