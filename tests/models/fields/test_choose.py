"""Which coordinates are a field is asked of values, not of names."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.fields.choose import find_field


def field_of(model):
    """Return the names of the variables in the field."""
    path = compile_model(model)
    layout = path.plan.layout
    prior = layout.ravel(path.prior.draw(np.random.default_rng(0), 100), 100)
    found = set(find_field(path, prior[np.isfinite(prior).all(axis=1)]).tolist())
    return {slot.name for slot in layout.slots if found.issuperset(slot.coordinates)}


def test_a_walk_and_its_intercept_are_a_field(walk):
    assert field_of(walk) == {"x"}


def test_a_small_variable_is_no_part_of_a_large_field():
    with pm.Model() as model:
        freedom = pm.Exponential("freedom", 0.1)
        scale = pm.HalfNormal("scale", 1)
        x = pm.Normal("x", 0, 100 * scale, shape=200)
        pm.StudentT("y", freedom, mu=x, sigma=1, observed=np.zeros(200))
    assert field_of(model) == {"x"}


def test_coefficients_of_an_autoregression_are_parameters():
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.3)
        x = pm.AR("x", rho=[rho], sigma=0.5, init_dist=pm.Normal.dist(0, 1), steps=29)
        pm.Poisson("y", pm.math.exp(x), observed=np.ones(30))
    assert field_of(model) == {"x"}


def test_priors_that_are_not_normal_are_no_field():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        x = pm.Laplace("x", 0, scale, shape=30)
        pm.Normal("y", x, 1, observed=np.zeros(30))
    assert field_of(model) == set()


def test_many_parameters_are_too_many():
    with pm.Model() as model:
        scales = pm.HalfNormal("scales", 1, shape=20)
        x = pm.Normal("x", 0, scales, shape=20)
        pm.Normal("y", x, 1, observed=np.zeros(20))
    assert field_of(model) == set()


@pytest.mark.parametrize("eps", [0.1, 0.001])
def test_effects_with_a_vague_precision_are_a_field(eps):
    """Draws of Gamma(0.001, 0.001) are smaller than any number, and normal densities infinite."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1000)
        precision = pm.Gamma("precision", eps, eps)
        effect = pm.Normal("effect", mean, 1 / pm.math.sqrt(precision), shape=15)
        pm.Normal("y", effect, 1, observed=np.arange(15.0))
    assert field_of(model) == {"mean", "effect"}
