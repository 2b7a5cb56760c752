"""Normal variables seen by their innovations, and moves that use them."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_arm.algorithm.arm import run
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.moves import KERNELS, Identity, MoveTarget, Sweep
from pymc_arm.models.moves.decorrelation import Decorrelation


@cache
def nested() -> pm.Model:
    """Two levels of groups, one of them on the log scale, and variables that have no part."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        between = pm.HalfNormal("between", 1)
        group = pm.Normal("group", mean, between, shape=3)
        rate = pm.LogNormal("rate", group[np.array([0, 0, 1, 2])], np.array([0.5, 0.5, 1.0, 2.0]))
        heavy = pm.StudentT("heavy", nu=3, mu=mean, sigma=between)
        walk = pm.GaussianRandomWalk("walk", sigma=between, init_dist=pm.Normal.dist(0, 1), steps=4)
        pm.Normal("y", rate.sum() + heavy + walk.sum(), 1, observed=1.0)
    return model


def names_of(path, coordinates) -> list[str]:
    return [path.plan.layout.label(int(c)) for c in coordinates]


def test_normal_variables_with_unknown_parents_are_found():
    path = compile_model(nested())
    expected = [f"group[{i}]" for i in range(3)] + [f"rate[{i}]" for i in range(4)]
    assert names_of(path, path.innovations.coordinates) == expected


def test_constant_parents_have_no_innovations():
    with pm.Model() as model:
        pm.Normal("x", 1, 2, shape=3)
        pm.Normal("y", 0, 1, observed=0.0)
    assert not len(compile_model(model).innovations.coordinates)


def test_innovations_are_standard_and_lead_back():
    path = compile_model(nested())
    points, _ = path.initialize(np.random.default_rng(0), 2000)
    innovations = path.innovations
    seen, log_scale = innovations.forward(points)
    mean, log_between = points[:, 0], points[:, 1]
    group, rate = points[:, 2:5], points[:, 5:9]
    expected = (group - mean[:, None]) / np.exp(log_between)[:, None]
    np.testing.assert_allclose(seen[:, 2:5], expected, rtol=1e-6, atol=1e-6)
    sigma = np.array([0.5, 0.5, 1.0, 2.0])
    expected = (rate - group[:, [0, 0, 1, 2]]) / sigma
    np.testing.assert_allclose(seen[:, 5:9], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(log_scale, 3 * log_between + np.log(sigma).sum(), rtol=1e-6)
    others = np.setdiff1d(np.arange(points.shape[1]), innovations.coordinates)
    np.testing.assert_array_equal(seen[:, others], points[:, others])
    restored, log_scale_back = innovations.inverse(seen)
    np.testing.assert_allclose(restored, points, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(log_scale_back, log_scale, rtol=1e-8)


def test_some_coordinates_only():
    path = compile_model(nested())
    points, _ = path.initialize(np.random.default_rng(0), 5)
    some = path.innovations.select(np.array([0, 1, 3, 6, 8]))
    assert names_of(path, some.coordinates) == ["group[1]", "rate[1]", "rate[3]"]
    whole, part = path.innovations.forward(points)[0], some.forward(points)[0]
    np.testing.assert_allclose(part[:, some.coordinates], whole[:, some.coordinates], rtol=1e-8)
    np.testing.assert_array_equal(part[:, 2], points[:, 2])


def test_a_scale_that_overflows_moves_nothing():
    path = compile_model(nested())
    points, _ = path.initialize(np.random.default_rng(0), 50)
    points[0, 1], points[1, 1] = 800.0, -800.0
    target = path._target(path.start)
    moved = Sweep(target, KERNELS).run(np.random.default_rng(1), points).particles
    assert np.isfinite(moved[2:]).all()


@pytest.mark.one_version
@pytest.mark.statistical
def test_moves_of_innovations_leave_a_funnel_invariant():
    """Exact draws of a prior stay exact draws: means and variances in standard errors."""
    with pm.Model() as model:
        log_scale = pm.Normal("log_scale", 0, 1.5)
        pm.Normal("x", log_scale, pm.math.exp(log_scale), shape=3)
        pm.Normal("y", 0, 1, observed=0.0)
    path = compile_model(model)
    size, rng = 20_000, np.random.default_rng(5)
    points, _ = path.initialize(rng, size)
    everything = np.ones(path.density.count)
    # Only the innovations, so that nothing else hides an error of theirs.
    target = MoveTarget(
        log_density=lambda points: path.density.sum(points, everything),
        terms=path.density.terms,
        continuous=np.arange(4),
        sets=[],
        discrete_sets=[],
        supports={},
        views=[path.innovations],
    )
    moved, acceptance, _ = Sweep(target, KERNELS).run(rng, points)
    assert acceptance > 0.5
    assert np.mean(moved[:, 0] != points[:, 0]) > 0.9
    seen, _ = path.innovations.forward(moved)
    seen[:, 0] /= 1.5
    z_means = seen.mean(axis=0) * np.sqrt(size)
    z_variances = (seen.var(axis=0) - 1) * np.sqrt(size / 2)
    products = [seen[:, i] * seen[:, j] for i in range(4) for j in range(i)]
    z_products = np.mean(products, axis=1) * np.sqrt(size)
    # The scale and the effects must not be related either: a wrong Jacobian would tilt them.
    tilts = [(seen[:, 0] * (seen[:, j] ** 2 - 1)).mean() * np.sqrt(size / 2) for j in (1, 2, 3)]
    z = np.concatenate([z_means, z_variances, z_products, tilts])
    assert np.abs(z).max() < 4, z


def test_groups_take_few_sweeps(monkeypatch):
    """With three groups of two the scale is a funnel; its innovations decorrelate it."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        between = pm.HalfNormal("between", 1)
        group = pm.Normal("group", mean, between, shape=3)
        pm.Normal("y", group[np.array([0, 0, 1, 1, 2, 2])], 1.0, observed=np.zeros(6))
    path = compile_model(model)
    worst, sweeps = Decorrelation.worst, []

    def count(self, points, log_density):
        sweeps.append(1)
        return worst(self, points, log_density)

    monkeypatch.setattr(Decorrelation, "worst", count)
    run(path, np.random.default_rng(0), 500)
    in_both = len(sweeps)
    monkeypatch.setattr(type(path), "_views", lambda self, continuous: [Identity()])
    path._target.cache_clear()
    run(path, np.random.default_rng(0), 500)
    assert in_both < 0.6 * (len(sweeps) - in_both)
