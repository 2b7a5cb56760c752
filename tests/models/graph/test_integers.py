"""Models whose parameters and data are integers or booleans: terms are those of PyMC."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_arm.models.compiled import compile_model


def integer_rate():
    pm.Exponential("x", 10)


def integer_shape_and_rate():
    pm.Gamma("x", 3, 7)


def negative_power_of_data():
    size = pm.Data("size", np.array([1, 2, 3, 4]))
    x = pm.Normal("x", 0, 1)
    pm.Normal("y", x, size**-1.0, observed=np.array([0.1, 0.5, -0.2, 0.3]))


def small_integers():
    size = np.array([1, 2, 3, 4], dtype="int8")
    x = pm.Normal("x", 0, 2)
    pm.Normal("y", x * size / 2, pm.math.exp(size), observed=np.array([0.1, 0.5, -0.2, 0.3]))


def booleans():
    male, old = np.array([True, True, False]), np.array([True, False, False])
    x = pm.Normal("x", 0, 2)
    groups = pm.Data("male", male) + pm.Data("old", old) + 1
    pm.Poisson("y", pm.math.exp(x) * groups * (1 + male), observed=np.array([3, 1, 0]))


def unsigned():
    count = np.array([3, 1, 4], dtype="uint8")
    p = pm.Beta("p", 1, 2)
    pm.Binomial("y", count * 2, p, observed=np.array([1, 1, 2]))


def discrete_parent():
    n = pm.DiscreteUniform("n", 1, 6)
    x = pm.Normal("x", 0, 1 / n)
    pm.Normal("y", x, n**-2.0, observed=0.3)


@pytest.mark.parametrize(
    "define",
    [
        integer_rate,
        integer_shape_and_rate,
        negative_power_of_data,
        small_integers,
        booleans,
        unsigned,
        discrete_parent,
    ],
)
def test_terms_are_those_of_pymc(define):
    with pm.Model() as model:
        define()
        pm.Potential("no_data", pt.constant(0.0))
    path = compile_model(model)
    assert path.density.backend == "numpy"
    points, _ = path.initialize(np.random.default_rng(1), 5)
    found = path.density.terms(points).sum(axis=1)
    logp = model.compile_logp(mode="FAST_COMPILE")  # numba of PyTensor 3: single precision
    values = path.plan.layout.unravel(points)
    for row in range(len(points)):
        named = {
            model.rvs_to_values[rv].name: value[row].astype(model.rvs_to_values[rv].dtype)
            for rv, value in zip(model.free_RVs, values, strict=True)
        }
        # PyMC keeps logarithms of small integers in single precision; test_precision.py has more.
        np.testing.assert_allclose(found[row], logp(named), rtol=3e-7)
