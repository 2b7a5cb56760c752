"""Draws of any sampler become points of the unbounded space, or are refused by name and value."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_arm.errors import DrawsError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.given_draws import read_draws

RNG = np.random.default_rng(1)
SCALE, MEANS = RNG.gamma(2.0, size=(2, 5)), RNG.normal(size=(2, 5, 3))


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        scale = pm.HalfNormal("scale")
        means = pm.Normal("means", 0.0, scale, dims="group")
        pm.Normal("y", means, 1.0, observed=[0.1, 0.2, 0.3], dims="group")
    return model


def posterior(scale=SCALE, means=MEANS, labels=("a", "b", "c"), **others):
    variables = {
        "scale": (("chain", "draw"), scale),
        "means": (("chain", "draw", "group"), means),
        **others,
    }
    return xr.Dataset(variables, {"group": list(labels)})


def read(model, draws):
    return read_draws(draws, model, compile_model(model))


def test_points_are_the_transformed_draws(model):
    extra = {"derived": (("chain", "draw"), np.zeros((2, 5)))}
    points = read(model, posterior(**extra))
    np.testing.assert_allclose(points[..., 0], np.log(SCALE))
    np.testing.assert_array_equal(points[..., 1:], MEANS)


def test_labels_are_put_in_the_order_of_the_model(model):
    turned = posterior(means=MEANS[..., ::-1], labels=("c", "b", "a"))
    np.testing.assert_array_equal(read(model, turned), read(model, posterior()))


def with_value(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (posterior().drop_vars("means"), "no draws of 'means'"),
        (posterior().rename(chain="run"), "no dimension 'chain'"),
        (
            posterior(with_value(SCALE, (1, 2), -3.0)),
            "scale is -3 in chain 1, draw 2, outside of the support",
        ),
        (posterior(with_value(SCALE, (0, 1), np.nan)), "scale is nan in chain 0, draw 1"),
        (posterior(labels=("a", "b", "z")), "'means'"),
    ],
    ids=["missing", "dimension", "support", "nan", "labels"],
)
def test_what_does_not_fit_is_named(model, draws, message):
    with pytest.raises(DrawsError, match=message):
        read(model, draws)
