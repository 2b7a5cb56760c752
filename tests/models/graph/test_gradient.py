"""Gradients of models, the fits that use them, and the moves they drive."""

import dataclasses
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.refine import refine_chains
from pymc_arm.estimation.spaces import FullSpace
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph import gradient as module
from pymc_arm.models.graph.gradient import Looped
from pymc_arm.models.moves import KERNELS, MoveTarget, Sweep
from pymc_arm.models.moves.student import Student


@cache
def hierarchy() -> pm.Model:
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 2.0)
        weights = pm.Dirichlet("weights", np.ones(3))
        slope = pm.StudentT("slope", nu=4, mu=0, sigma=tau, shape=4)
        mean = pm.math.dot(rng.normal(size=(20, 4)), slope) + weights[0]
        pm.Normal("y", mean, pm.math.exp(weights[1]), observed=rng.normal(size=20))
    return model


def test_gradient_is_that_of_pymc():
    model = hierarchy()
    path = compile_model(model)
    assert path.density.gradient.available()
    points, _ = path.initialize(np.random.default_rng(0), 5)
    values, gradients = path.density.gradient(points, np.ones(path.density.count))
    logp, dlogp = (
        compile_one(mode="FAST_COMPILE")
        for compile_one in (model.compile_logp, model.compile_dlogp)
    )
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    for row, point in enumerate(points):
        parts = path.plan.layout.unravel(point[None])
        named = {name: part[0] for name, part in zip(names, parts, strict=True)}
        np.testing.assert_allclose(values[row], logp(named), rtol=1e-10)
        np.testing.assert_allclose(gradients[row], dlogp(named), rtol=1e-8, atol=1e-10)


def test_inactive_terms_have_no_part_in_the_gradient():
    path = compile_model(hierarchy())
    assert path.density.gradient.available()
    points, _ = path.initialize(np.random.default_rng(1), 4)
    weights = np.zeros(path.density.count)
    weights[:3] = 0.5
    values, _ = path.density.gradient(points, weights)
    np.testing.assert_allclose(values, path.density.sum(points, weights), rtol=1e-12)


def correlated_normal(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(dimension)
    root = rng.normal(size=(dimension, dimension)) / np.sqrt(dimension) + np.eye(dimension)
    return rng.normal(size=dimension), root @ root.T


@pytest.mark.one_version
@pytest.mark.parametrize("dimension", [3, 40])
def test_scores_of_a_gaussian_give_its_covariance_exactly(dimension):
    mean, covariance = correlated_normal(dimension)
    rng = np.random.default_rng(0)
    points = rng.multivariate_normal(mean, covariance, size=3 * dimension)
    scores = -np.linalg.solve(covariance, (points - mean).T).T
    fitted = Student.fit(points, scores)
    scale = fitted.freedom / (fitted.freedom - 2)
    np.testing.assert_allclose(scale * fitted.factor @ fitted.factor.T, covariance, rtol=1e-5)
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-6)


@pytest.mark.one_version
def test_scores_follow_the_bend_of_a_skewed_marginal():
    """log-gamma(2): a score fit in the bent space is as good as a moment fit, or better."""
    rng = np.random.default_rng(4)
    points = np.log(rng.gamma(2.0, size=(3000, 5)))
    scores = 2.0 - np.exp(points)
    log_density = (2.0 * points - np.exp(points)).sum(axis=1)
    for fitted in (SinhArcsinhStudent.fit(points), SinhArcsinhStudent.fit(points, scores)):
        assert np.std(log_density - fitted.log_density(points)) < 0.35


@pytest.mark.one_version
def test_refine_holds_in_a_hundred_dimensions():
    """The bridge is within 4 of its standard errors, 0.02 at most (chance of a failure 1e-4)."""
    mean, covariance = correlated_normal(100)
    precision = np.linalg.inv(covariance)
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)

    def log_density(points):
        centered = points - mean
        return -0.5 * np.einsum("si,ij,sj->s", centered, precision, centered)

    rng = np.random.default_rng(5)
    clouds = [rng.multivariate_normal(mean, covariance, size=500) for _ in range(4)]
    plain = SimpleNamespace(
        continuous=lambda points: points, log_density=log_density, score=lambda points: None
    )
    scored = SimpleNamespace(**vars(plain) | {"score": lambda points: -(points - mean) @ precision})
    alone = [np.arange(500)] * 4
    with_scores = refine_chains([FullSpace(scored)], clouds, rng.spawn(4), alone)
    without = refine_chains([FullSpace(plain)], clouds, rng.spawn(4), alone)
    assert min(b.overlap for b in with_scores) > 0.5 > max(b.overlap for b in without)
    values = np.array([b.log_evidence for b in with_scores])
    error = values.std(ddof=1) / 2
    assert error < 0.02
    assert abs(values.mean() - 0.5 * log_determinant) < 4 * max(error, 0.004)


def test_hamiltonian_moves_leave_a_hard_density_invariant():
    """A curved ridge in 30 dimensions that a fitted covariance can't follow: moments stay.

    x_0 ~ N(0, 1), x_i | x_0 ~ N(x_0^2, 0.1^2). Each check is at 4.5 standard errors.
    """
    dimension = 30

    def gradient(points):
        first, others = points[:, :1], points[:, 1:]
        gap = (others - first**2) / 0.01
        value = -0.5 * first[:, 0] ** 2 - 0.005 * (gap**2).sum(axis=1)
        slopes = -first + 2 * first * gap.sum(axis=1, keepdims=True)
        return value, np.concatenate([slopes, -gap], axis=1)

    rng = np.random.default_rng(6)
    size = 4000
    first = rng.normal(size=(size, 1))
    points = np.concatenate([first, first**2 + 0.1 * rng.normal(size=(size, dimension - 1))], 1)
    target = MoveTarget(
        log_density=lambda p: gradient(p)[0],
        terms=lambda p, selection: gradient(p)[0][:, None],
        continuous=np.arange(dimension),
        sets=[],
        discrete_sets=[],
        supports={},
        gradient=gradient,
    )
    moved, rate, _ = Sweep(target, KERNELS).run(rng, points)
    assert rate > 0.05
    assert np.mean(moved[:, 1] != points[:, 1]) > 0.5
    gaps = (moved[:, 1:] - moved[:, :1] ** 2) / 0.1
    limit = 4.5 / np.sqrt(size)
    assert abs(moved[:, 0].mean()) < limit
    assert abs(moved[:, 0].var() - 1) < limit * np.sqrt(2)
    assert abs(gaps.mean()) < limit / np.sqrt(dimension - 1)
    assert abs((gaps**2).mean() - 1) < limit * np.sqrt(2 / (dimension - 1))


def test_a_singular_matrix_has_no_density_and_stops_nothing():
    # Compiled for one point at a time, an inverse raises where NumPy's batches have NaN.
    def value_and_gradient(point: np.ndarray, weights: np.ndarray) -> tuple:
        if point[0] == 0:
            raise np.linalg.LinAlgError("Matrix is singular to machine precision.")
        return np.array(point.sum()), np.ones_like(point)

    values, gradients = Looped(value_and_gradient).bind(np.ones(1))(np.array([[1.0, 2], [0, 1]]))
    assert values[0] == 3
    assert np.isnan(values[1])
    np.testing.assert_array_equal(gradients, [[1, 1], [0, 0]])


def recursion(steps: int) -> tuple[pm.Model, np.ndarray]:
    """Return a state that is written out step by step, with noise of a known scale."""
    data = np.random.default_rng(1).normal(size=steps)
    with pm.Model() as model:
        rate, drift = pm.Normal("rate", 0, 0.3), pm.Normal("drift")
        shocks = pm.Normal("shocks", shape=steps)
        state, states = 0.0, []
        for step in range(steps):
            state = rate * state + drift * shocks[step]
            states.append(state)
        pm.Normal("y", pm.math.stack(states), 0.8, observed=data)
    return model, data


@pytest.mark.parametrize("by_row", [False, True])
def test_the_gradient_of_a_recursion_in_hundreds_of_steps_is_exact(by_row):
    """The graph is batched before it is differentiated; the exact gradient is its adjoint."""
    model, data = recursion(250)
    path = compile_model(model)
    gradient = path.density.gradient.by_row() if by_row else path.density.gradient
    assert gradient.available()
    assert gradient.backend == "numpy"
    points, _ = path.initialize(np.random.default_rng(2), 3)
    weights = np.ones(path.density.count)
    weights = np.tile(weights, (3, 1)) if by_row else weights
    values, slopes = gradient(points, weights)
    np.testing.assert_allclose(values, path.log_density(points), rtol=1e-10)
    for point, slope in zip(points, slopes, strict=True):
        rate, drift, shocks = point[0], point[1], point[2:]
        states = np.zeros(251)
        for step in range(250):
            states[step + 1] = rate * states[step] + drift * shocks[step]
        adjoint = 0.0
        exact = np.concatenate([[-rate / 0.09, -drift], -shocks])
        for step in range(249, -1, -1):
            adjoint = rate * adjoint + (data[step] - states[step + 1]) / 0.64
            exact[0] += adjoint * states[step]
            exact[1] += adjoint * shocks[step]
            exact[2 + step] += adjoint * drift
        np.testing.assert_allclose(slope, exact, rtol=1e-7, atol=1e-7)


def test_a_large_gradient_that_is_wrong_is_not_used(monkeypatch):
    """Then PyTensor's own is derived, and that is compared in turn."""
    model, _ = recursion(250)
    path = compile_model(model)
    right = module.compile_gradient

    def wrong(*arguments):
        program = right(*arguments)
        last = program.instructions[-1]
        spoiled = dataclasses.replace(last, execute=lambda *a: [1.01 * x for x in last.execute(*a)])
        program._load(len(program.values), program.constants, [*program.instructions[:-1], spoiled])
        return program

    monkeypatch.setattr(module, "compile_gradient", wrong)
    gradient = path.density.gradient
    assert gradient._compile_large() is None
