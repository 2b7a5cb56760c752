"""Digests of a model change with its variables, data and density, and with nothing else."""

from functools import cache

import numpy as np
import pymc as pm

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.identity import model_identity


@cache
def identity(name="mean", scale=1.0, last=0.3):
    with pm.Model() as model:
        x = pm.Data("x", np.array([1.0, 2.0]))
        mean = pm.Normal(name, 0.0, scale)
        pm.Normal("y", mean * x, 1.0, observed=np.array([0.1, last]))
    return model_identity(model, compile_model(model))


def changed(**changes):
    before, after = identity(), identity(**changes)
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_it_names_what_it_is_made_of():
    assert set(identity()) == {"model's variables", "data y", "data x", "model's log-density"}
    assert all(len(digest) == 64 for digest in identity().values())


def test_the_same_model_built_again_is_the_same():
    before = identity()
    identity.cache_clear()
    assert identity() == before


def test_what_changed_is_named():
    assert changed(name="location") == {"model's variables"}
    assert changed(scale=2.0) == {"model's log-density"}
    assert changed(last=0.4) == {"data y", "model's log-density"}
