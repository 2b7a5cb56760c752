"""In which order variables and data come in."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.plan import FamilyPlan


@cache
def groups():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", 0, scale, shape=6)
        pm.Normal("y", effect, 1, observed=np.linspace(-1, 1, 6))
    return model


def test_every_term_comes_in_once():
    path = compile_model(groups())
    plan = path.plan
    terms = [plan.initial_terms, *(s.prior_terms for s in plan.steps)]
    terms += [step.data_terms for step in plan.steps]
    np.testing.assert_array_equal(np.sort(np.concatenate(terms)), np.arange(path.density.count))


def test_group_effects_come_in_with_their_data():
    plan = compile_model(groups()).plan
    assert [step.label for step in plan.steps] == [f"effect[{k}]" for k in range(6)]
    assert [step.data_labels for step in plan.steps] == [(f"y[{k}]",) for k in range(6)]
    assert {step.method for step in plan.steps} == {"quadrature"}


def test_a_given_order_is_taken():
    plan = compile_model(groups(), order=[("effect", 4), ("effect", 1)]).plan
    assert [step.label for step in plan.steps][:2] == ["effect[4]", "effect[1]"]
    with pytest.raises(ValueError, match="order names 'nothing'"):
        compile_model(groups(), order=["nothing"])


def test_the_plan_of_a_family_says_which_and_why():
    with pm.Model() as model:
        pymc_arm.RBM("x", W=np.zeros((3, 2)))
    plan = pymc_arm.plan(model)
    assert isinstance(plan, FamilyPlan)
    assert plan.family == "rbm"
    assert str(plan).startswith("family: rbm, because x is a restricted")
