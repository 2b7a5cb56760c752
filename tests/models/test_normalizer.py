"""A CustomDist that lacks a constant is named; a proper one is not."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.models.compiled import compile_model


def laplace(mu: object, rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.laplace(mu, size=size)


def die(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.integers(1, 7, size=size)


def build(constant: float) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        x = pm.CustomDist(
            "x", mu, logp=lambda value, mu: constant - pm.math.abs(value - mu), random=laplace
        )
        pm.Normal("y", x, 1, observed=0.3)
    return model


def build_die(log_probability: float) -> pm.Model:
    def logp(value):
        possible = pm.math.and_(pm.math.ge(value, 1), pm.math.le(value, 6))
        return pm.math.switch(possible, log_probability, -np.inf)

    with pm.Model() as model:
        face = pm.CustomDist("face", logp=logp, random=die, dtype="int64", initval=1)
        pm.Normal("y", face, 1, observed=3.2)
    return model


def test_a_missing_constant_is_named_with_its_size():
    with pytest.warns(pymc_arm.ArmWarning, match=r"'x', a CustomDist.*exp\(0\.(6|7)"):
        compile_model(build(0.0))


def test_a_missing_constant_of_a_discrete_one():
    with pytest.warns(pymc_arm.ArmWarning, match=r"'face', a CustomDist.*exp\(1\.79\)"):
        compile_model(build_die(0.0))


@pytest.mark.parametrize("model", [build(-np.log(2)), build_die(-np.log(6))])
def test_proper_ones_pass(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error", pymc_arm.ArmWarning)
        assert compile_model(model).corrections == ()
