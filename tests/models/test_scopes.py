"""Which terms depend on which coordinates."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models import scopes
from pymc_arm.models.compiled import compile_model


def groups_with_a_product(rows=120, groups=12):
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=(rows, 3)), np.arange(rows) % groups
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        intercepts = pm.Normal("intercepts", 0, 1, shape=groups)
        eta = pm.math.dot(x, slopes) + intercepts[group]
        pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=rng.integers(2, size=rows))
    return model, group


@pytest.mark.parametrize("rows", [120, 244])
def test_rounding_of_products_is_no_dependence(rows):
    model, group = groups_with_a_product(rows)
    plan = compile_model(model).plan
    data = plan.scopes[-rows:]
    assert data[:, :3].all()
    np.testing.assert_array_equal(data[:, 3:].argmax(axis=1), group)
    assert (data[:, 3:].sum(axis=1) == 1).all()
    assert [step.label for step in plan.steps if step.coordinate is not None][:2] == [
        "intercepts[0]",
        "intercepts[1]",
    ]


def test_switches_and_labels_are_seen():
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.5, shape=2)
        mean = pm.Normal("mean", 0, 1, shape=2)
        pm.Normal("y", mean[label], 1, observed=[0.3, 0.4])
    data = compile_model(model).plan.scopes[-2:]
    np.testing.assert_array_equal(data[:, :2], np.eye(2, dtype=bool))
    assert data[:, 2:].all()


def test_states_that_are_certain_are_tried_with_the_values_of_others():
    with pm.Model() as model:
        before = pm.Bernoulli("before", np.array([1.0, 0.5]), shape=2)
        after = pm.Bernoulli("after", 0.3 + 0.4 * before, shape=2)
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("y", mean + after, 1, observed=[0.3, 0.4])
    scopes = compile_model(model, marginalize=False).plan.scopes
    np.testing.assert_array_equal(scopes[2:4, :2], np.eye(2, dtype=bool))


def test_values_that_are_no_index_are_not_tried():
    with pm.Model() as model:
        label = pm.Categorical("label", np.array([[1.0, 0, 0], [0.2, 0.3, 0.5]]), shape=2)
        short, long = pm.Normal("short", 0, 1, shape=1), pm.Normal("long", 0, 1, shape=3)
        pm.Normal("y", short[label[0]] + long[label[1]], 1, observed=0.3)
    scopes = compile_model(model, marginalize=False).plan.scopes
    np.testing.assert_array_equal(scopes[-1, :2], [False, True])


def test_many_rows_are_tried_less_often(monkeypatch):
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        pm.Normal("y", np.eye(3)[np.arange(300) % 3] @ slopes, 1, observed=np.zeros(300))
    path = compile_model(model)
    draws = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(1), 200), 200)
    tried = []
    terms = path.density.terms
    monkeypatch.setattr(
        path.density, "terms", lambda points: tried.append(len(points)) or terms(points)
    )
    np.testing.assert_array_equal(
        scopes.find_scopes(path.density, path.plan.layout, draws), path.plan.scopes
    )
    monkeypatch.setattr(scopes, "EVALUATIONS", 303 * 4 * 7)
    np.testing.assert_array_equal(
        scopes.find_scopes(path.density, path.plan.layout, draws), path.plan.scopes
    )
    assert tried == [400, 28]
