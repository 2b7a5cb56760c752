"""Models for other numbers of observations, by dimensions and by data."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.comparison.prior_predictive import PriorPredictive
from pymc_arm.comparison.resizing import find_size, resize_model

X = np.array([-1.0, 0.0, 1.0])


def by_dimension(slope=True):
    with pm.Model(coords={"row": ["a", "b", "c"], "other": range(2)}) as model:
        x = pm.Data("x", X, dims="row")
        pm.Data("unused", np.zeros(2), dims="other")
        b = pm.Normal("b", 0, 1) if slope else 0.0
        pm.Normal("y", b * x, 1, observed=np.ones(3), dims="row")
    return model


def by_implied_dimension(slope=True):
    """The dimension has the length of the data that name it first, and no labels."""
    with pm.Model() as model:
        x = pm.Data("x", X, dims="row")
        b = pm.Normal("b", 0, 1) if slope else 0.0
        pm.Normal("y", b * x, 1, observed=np.ones(3), dims="row")
    return model


def by_data(slope=True):
    with pm.Model() as model:
        x = pm.Data("x", X)
        y = pm.Data("outcome", np.ones(3))
        b = pm.Normal("b", 0, 1) if slope else 0.0
        pm.Normal("y", b * x, 1, observed=y, shape=x.shape[0])
    return model


def by_function(slope=True):
    def build(n):
        with pm.Model() as model:
            b = pm.Normal("b", 0, 1) if slope else 0.0
            pm.Normal("y", b * X[np.arange(n) % 3], 1, observed=np.zeros(n))
        return model

    return build


@pytest.mark.parametrize(
    ("model", "size"),
    [(by_dimension(), "row"), (by_implied_dimension(), "row"), (by_data(), ["x", "outcome"])],
)
@pytest.mark.parametrize("n", [2, 7])
def test_rows_are_repeated_in_their_order_and_the_model_is_left_alone(model, size, n):
    copy = resize_model("line", model, n, find_size("line", model, size))
    np.testing.assert_array_equal(copy["x"].get_value(), X[np.arange(n) % 3])
    assert PriorPredictive("line", copy).shapes == {"y": (n,)}
    assert copy.compile_logp(mode="FAST_COMPILE")({"b": 0.5}) == pytest.approx(
        by_function()(n).compile_logp(mode="FAST_COMPILE")({"b": 0.5})
    )
    np.testing.assert_array_equal(model["x"].get_value(), X)


def test_the_size_of_what_is_observed_is_found():
    assert find_size("line", by_dimension(), None) == "row"
    assert find_size("line", by_dimension(), "row") == "row"
    assert find_size("line", by_data(), "x") == ["x"]
    with pytest.raises(ValueError, match="Which size of model 'line' is the sample size"):
        find_size("line", by_data(), None)
    with pytest.raises(ValueError, match=r"no dimension or pm.Data \['z'\]"):
        find_size("line", by_data(), ["x", "z"])


def test_what_keeps_its_shape_is_refused():
    with pm.Model() as model:
        pm.Data("x", X)
        pm.Normal("y", pm.Normal("b"), 1, observed=np.zeros(3))
    with pytest.raises(ValueError, match=r"'y' of model 'fixed' keeps its shape \(3,\)"):
        resize_model("fixed", model, 5, ["x"])


@pytest.mark.parametrize(
    ("make", "size"), [(by_dimension, None), (by_data, ["x", "outcome"])], ids=["dims", "data"]
)
def test_a_design_is_the_same_however_models_are_resized(make, size):
    """The same data sets, and log Z of the same densities."""
    options = {"simulations": 4, "draws": 100, "chains": 2, "cores": 1, "random_seed": 2}
    options |= {"progressbar": False}
    built = {"flat": by_function(False), "line": by_function()}
    expected = pymc_arm.design(built, [4], **options)
    found = pymc_arm.design({"flat": make(False), "line": make()}, [4], size=size, **options)
    pd.testing.assert_frame_equal(found.factors, expected.factors, atol=0.05)
