"""Modes of fields given their parameters, against what is known of normal data."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import halfnorm

from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.fields import conditional as module
from pymc_arm.models.fields.choose import find_field
from pymc_arm.models.fields.conditional import Conditional
from pymc_arm.models.reference.target import SharedTarget
from tests.models.fields.conftest import STEPS, walk_data, walk_evidence


def conditional_of(path, target):
    prior = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(0), 100), 100)
    return Conditional(target.view(), find_field(path, prior), prior)


def test_a_walk_takes_three_gradients(walk_target):
    assert conditional_of(*walk_target).colors == 3


def test_of_normal_data_laplace_is_exact(walk_target):
    found = conditional_of(*walk_target)
    steps = np.array([0.05, 0.5, 2.0])
    modes = found.find_modes(np.log(steps)[:, None], np.zeros((3, STEPS)))
    # The parameter is the logarithm of the step.
    exact = [walk_evidence(s) + halfnorm.logpdf(s) + np.log(s) for s in steps]
    np.testing.assert_allclose(modes.log_marginal, exact, atol=1e-4)
    times, y = np.arange(STEPS), walk_data()
    for step, mode in zip(steps, modes.points, strict=True):
        prior = step**2 * np.minimum.outer(times, times) + 4.0
        mean = prior @ np.linalg.solve(prior + 0.09 * np.eye(STEPS), y)
        np.testing.assert_allclose(mode, mean, atol=1e-5)


def test_common_coefficients_have_colors_of_their_own():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(40), 3)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        slope = pm.Normal("slope", 0, 1, shape=2)
        effect = pm.Normal("effect", 0, scale, shape=40)
        mu = effect[group] + pm.math.dot(rng.normal(size=(120, 2)), slope)
        pm.Poisson("y", pm.math.exp(mu), observed=rng.poisson(1.0, size=120))
    path = compile_model(model)
    assert path.density.gradient.available()
    found = conditional_of(path, SharedTarget(path))
    assert found.colors == 3
    modes = found.find_modes(np.zeros((1, 1)), np.zeros((1, 42)))
    slopes = found.view(found.join(np.zeros((1, 1)), modes.points))[1][:, found.field]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-3)


def crossed_target():
    """Return 30 counts with rows, columns and an intercept, of unknown scales."""
    rng = np.random.default_rng(3)
    row, column = np.divmod(np.arange(30), 5)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1, shape=2)
        level = pm.Normal("level", 0, 2)
        first = pm.Normal("first", 0, scale[0], shape=6)
        second = pm.Normal("second", 0, scale[1], shape=5)
        rate = pm.math.exp(level + first[row] + second[column])
        pm.Poisson("y", rate, observed=rng.poisson(2.0, size=30))
    path = compile_model(model)
    assert path.density.gradient.available()
    return path, SharedTarget(path)


def test_a_precision_serves_for_several_steps(monkeypatch):
    """The same modes, factors and integrals, for fewer gradients."""
    target = crossed_target()
    parameters = np.random.default_rng(4).normal(size=(10, 2))
    found, evaluations = [], []
    for costly in (6, 1000):
        monkeypatch.setattr(module, "COSTLY", costly)
        conditional = conditional_of(*target)
        first = conditional.find_modes(np.zeros((1, 2)), np.zeros((1, 12)))
        before = conditional.evaluations
        known = [np.repeat(part, 10, axis=0) for part in (first.points, first.numbers)]
        found.append(conditional.find_modes(parameters, *known))
        evaluations.append(conditional.evaluations - before)
    for quick, slow in zip(*(vars(modes).values() for modes in found), strict=True):
        np.testing.assert_allclose(quick, slow, atol=2e-4)
    assert evaluations[0] < 0.75 * evaluations[1]


def test_a_budget_ends_what_wanders(walk_target, monkeypatch):
    monkeypatch.setattr(module, "BUDGET", 10)
    with pytest.raises(PathError, match="more than 10 gradients"):
        conditional_of(*walk_target)
