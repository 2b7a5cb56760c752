"""Modes of fields given their parameters, against what is known of normal data."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import halfnorm, multivariate_normal

from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.fields import conditional as module
from pymc_arm.models.fields import target as target_module
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
    monkeypatch.setattr(target_module, "BUDGET", 10)
    with pytest.raises(PathError, match="more than 10 gradients"):
        conditional_of(*walk_target)


def dense_field(steps=40):
    """A walk by its shocks: all second derivatives of the data differ from zero."""
    data = np.cumsum(np.random.default_rng(3).normal(0, 0.4, steps))
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        shocks = pm.Normal("shocks", 0, 1, shape=steps)
        pm.Normal("y", scale * shocks.cumsum(), 0.3, observed=data)
    path = compile_model(model)
    assert path.density.gradient.available()
    return path, data


def test_a_dense_field_of_normal_data_takes_one_matrix_for_each_mode():
    path, data = dense_field()
    found = conditional_of(path, SharedTarget(path))
    assert found.colors == 40
    before, scales = found.evaluations, np.array([0.1, 0.5, 2.0])
    modes = found.find_modes(np.log(scales)[:, None], np.zeros((3, 40)))
    # The start, a matrix, and a step; a second one would make it more than 80 for each.
    assert found.evaluations - before < 3 * 50
    sums = np.tril(np.ones((40, 40)))
    for scale, mode, value in zip(scales, modes.points, modes.log_marginal, strict=True):
        covariance = scale**2 * sums @ sums.T + 0.09 * np.eye(40)
        mean = scale * sums.T @ np.linalg.solve(covariance, data)
        np.testing.assert_allclose(mode, mean, atol=1e-5)
        exact = multivariate_normal.logpdf(data, np.zeros(40), covariance)
        exact += halfnorm.logpdf(scale) + np.log(scale)
        np.testing.assert_allclose(value, exact, atol=1e-4)


def test_a_dense_field_with_heavy_tails_ends_at_its_mode_with_the_matrix_there():
    data = np.cumsum(np.random.default_rng(3).normal(0, 0.4, 40))
    data[[7, 22]] += 9.0
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        shocks = pm.Normal("shocks", 0, 1, shape=40)
        pm.StudentT("y", nu=5, mu=scale * shocks.cumsum(), sigma=0.3, observed=data)
    path = compile_model(model)
    assert path.density.gradient.available()
    found = conditional_of(path, SharedTarget(path))
    parameters = np.log([[0.3], [0.6]])
    modes = found.find_modes(parameters, np.zeros((2, 40)))
    assert np.isfinite(modes.log_marginal).all()
    points = found.join(parameters, modes.points)
    slopes = found.view(points)[1]
    np.testing.assert_allclose(slopes[:, found.field], 0.0, atol=1e-3)
    sums = np.tril(np.ones((40, 40)))
    for log_scale, point, value in zip(parameters[:, 0], points, modes.log_marginal, strict=True):
        mean = np.exp(log_scale) * sums @ point[found.field]
        square = ((data - mean) / 0.3) ** 2
        curvature = 6 * (5 - square) / (5 + square) ** 2 / 0.09
        precision = np.eye(40) + np.exp(2 * log_scale) * sums.T @ (curvature[:, None] * sums)
        exact = path.log_density(point[None])[0] + 20 * np.log(2 * np.pi)
        exact -= 0.5 * np.linalg.slogdet(precision)[1]
        np.testing.assert_allclose(value, exact, atol=1e-4)
