"""The reference path: views and gradients, fits, and log Z with exact truths.

Statistical tests allow four standard errors, plus 0.005 for what adapting to the particles costs:
a false alarm in about one of 10,000 runs, and seeds are fixed.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import scipy
from scipy.stats import multivariate_normal, norm

import pymc_arm
from pymc_arm import run, sample_path
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference import ReferencePath, choose_path, fit_reference
from pymc_arm.models.reference.density import Chart, Component, StudentMixture
from pymc_arm.models.reference.hamiltonian import move
from pymc_arm.models.reference.mixture import Fit, combine
from pymc_arm.models.reference.noise import is_noise
from pymc_arm.models.reference.optimize import maximize
from pymc_arm.models.reference.target import SharedTarget
from tests.replicates import first_with_every_version

SETTINGS = {"resample_threshold": 1.0}


@cache
def gaussian(dimension=8):
    rng = np.random.default_rng(0)
    design = rng.normal(size=(dimension, dimension))
    data = 3 * rng.normal(size=dimension)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=dimension)
        pm.Normal("y", pm.math.dot(design, x), 1.0, observed=data)
    covariance = 9 * design @ design.T + np.eye(dimension)
    truth = multivariate_normal(np.zeros(dimension), covariance).logpdf(data)
    gain = 9 * design.T @ np.linalg.inv(covariance)
    return model, truth, gain @ data, np.sqrt(np.diag(9 * np.eye(dimension) - 9 * gain @ design))


@cache
def schools():
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, error, observed=effect)
    # The effects are integrated in closed form, mu too; tau on a grid of log tau.
    log_tau = np.linspace(-12, 8, 4001)
    values = []
    for tau_value in np.exp(log_tau):
        covariance = np.diag(error**2 + tau_value**2) + 25.0
        likelihood = multivariate_normal(np.zeros(8), covariance).logpdf(effect)
        prior = np.log(2 / (np.pi * 5 * (1 + (tau_value / 5) ** 2)))
        values.append(likelihood + prior + np.log(tau_value))
    truth = np.logaddexp.reduce(values) + np.log(log_tau[1] - log_tau[0])
    return model, truth


def funnel():
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
        pm.Normal("y", v, 1, observed=1.0)
    return model, float(norm(0, np.sqrt(10)).logpdf(1.0))


def estimate(model, seed, size=500):
    path = compile_model(model)
    path.density.gradient.available()
    reference = fit_reference(path)
    done = run(
        ReferencePath(path, reference), np.random.default_rng(seed), particles=size, **SETTINGS
    )
    error = np.sqrt(sum(info.predicted_variance for info in done.history))
    return done, error, reference


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_gradient_of_a_view_agrees_with_differences(share):
    path = compile_model(schools()[0])
    path.density.gradient.available()
    target = SharedTarget(path)
    assert len(target.coordinates) == 8
    noncentering = np.zeros(target.dimension)
    noncentering[target.coordinates] = share
    view = target.view(noncentering)
    rng = np.random.default_rng(1)
    points = rng.normal(size=(5, target.dimension))
    inside, _ = view.to_model(points)
    np.testing.assert_allclose(view.from_model(inside)[0], points, rtol=1e-9, atol=1e-9)
    values, gradients = view(points)
    np.testing.assert_allclose(values, view.log_density(points), rtol=1e-9)
    step = 1e-5 * rng.normal(size=points.shape)
    difference = 0.5 * (view(points + step)[0] - view(points - step)[0])
    np.testing.assert_allclose((gradients * step).sum(axis=1), difference, rtol=1e-4, atol=1e-9)


def test_climbs_end_at_the_mode_of_a_gaussian():
    precision = np.diag([1.0, 100.0, 0.01])

    def density(points):
        return -0.5 * np.einsum("ni,ij,nj->n", points, precision, points), -points @ precision

    starts = 5 * np.random.default_rng(0).normal(size=(6, 3))
    ended = maximize(density, starts, np.ones(3))
    np.testing.assert_allclose(ended.values, 0.0, atol=1e-3)


@pytest.mark.one_version
def test_rounding_errors_are_no_modes():
    """The groups are integrated exactly, and q fits, though far out nothing but noise is left."""
    hits = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 9])
    with pm.Model() as model:
        share = pm.Uniform("share", 0, 1)
        size = pm.math.exp(pm.Exponential("log_size", 1.5))
        skill = pm.Beta("skill", share * size, (1 - share) * size, shape=12)
        pm.Binomial("hits", 45, skill, observed=hits)
    path = compile_model(model)
    assert path.density.gradient.available()
    view = SharedTarget(path).view()
    points = np.zeros((2, view.target.dimension))
    points[1, 1] = 4.5  # a size of e^90
    noise = is_noise(view.log_density, points, view.log_density(points), np.ones(points.shape[1]))
    np.testing.assert_array_equal(noise, [False, True])
    # The widest draws of q come to where nothing but noise is left, with any seed.
    for seed in range(4):
        reference = choose_path(path, np.random.default_rng(seed)).reference
        assert len(reference.collapsed) == 12
        assert reference.overlap > 0.7

    def log_integrand(log_size, share):
        a, b = share * np.exp(log_size), (1 - share) * np.exp(log_size)
        counts = scipy.stats.betabinom.logpmf(hits, 45, a, b).sum()
        return np.exp(counts + 45 + np.log(1.5) - 1.5 * log_size)

    exact = np.log(scipy.integrate.dblquad(log_integrand, 0.05, 0.7, 0, 16, epsrel=1e-8)[0]) - 45
    estimate, error = weighed(path, reference)
    assert abs(estimate - exact) < 4 * error < 0.05


def weighed(path, reference):
    """Return log Z by 4000 draws of q, and its standard error."""
    target = reference.target(path)
    chart = Chart(reference.view(target), reference.center, reference.factor)
    draws = reference.mixture.draw(np.random.default_rng(1), 4000)
    ratio = chart.log_density(draws) - reference.mixture(draws)[0]
    weights = np.exp(ratio - ratio.max())
    spread = weights.std() / weights.mean() / np.sqrt(len(draws))
    return ratio.max() + np.log(weights.mean()), spread


def test_score_of_a_mixture_agrees_with_differences():
    rng = np.random.default_rng(0)
    parts = (
        Component(np.log(0.3), np.zeros(3), None, 5.0),
        Component(np.log(0.7), np.full(3, 2.0), np.diag([1.0, 0.5, 2.0]), 9.0),
    )
    mixture = StudentMixture(parts)
    points, step = rng.normal(size=(4, 3)), 1e-6 * rng.normal(size=(4, 3))
    difference = 0.5 * (mixture(points + step)[0] - mixture(points - step)[0])
    np.testing.assert_allclose((mixture(points)[1] * step).sum(axis=1), difference, rtol=1e-4)


@pytest.mark.one_version
def test_moves_leave_a_student_invariant():
    component = Component(0.0, np.zeros(5), None, 6.0)
    rng = np.random.default_rng(0)
    swept = move(rng, component, component.draw(rng, 4000))
    # The variance of a coordinate is 6 / 4; that of 4000 draws varies by 0.053 (kurtosis 6).
    assert np.all(np.abs(swept.points.var(axis=0) - 1.5) < 0.35)
    assert np.all(np.abs(swept.points.mean(axis=0)) < 4 * np.sqrt(1.5 / 4000))
    assert swept.acceptance_rate > 0.6


def test_gaussian_is_one_step_and_exact():
    model, truth, mean, deviation = gaussian()
    done, error, reference = estimate(model, 1)
    assert reference.overlap > 0.9
    assert len(done.history) == 1
    assert abs(done.log_evidence - truth) < 4 * error + 0.005
    path = compile_model(model)
    result = sample_path(
        ReferencePath(path, reference),
        draws=400,
        chains=2,
        random_seed=1,
        progressbar=False,
        **SETTINGS,
    )
    se = result.attrs["log_marginal_likelihood_se"]
    assert abs(result.attrs["log_marginal_likelihood"] - truth) < 4 * se + 0.005
    draws = np.asarray(result["posterior"]["x"]).reshape(-1, len(mean))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * deviation / np.sqrt(800))
    assert np.all(np.abs(draws.std(axis=0) / deviation - 1) < 5 / np.sqrt(2 * 800))


@pytest.mark.parametrize("problem", first_with_every_version([schools, funnel]))
def test_hierarchies_are_right_in_standard_errors(problem):
    model, truth = problem()
    found = [estimate(model, seed)[:2] for seed in range(3)]
    mean = np.logaddexp.reduce([done.log_evidence for done, _ in found]) - np.log(3)
    error = np.sqrt(sum(error**2 for _, error in found)) / 3
    assert abs(mean - truth) < 4 * error + 0.02
    assert error < 0.1


def test_same_seed_same_result():
    model = gaussian()[0]
    first, second = (estimate(model, 3)[0] for _ in range(2))
    assert first.log_evidence == second.log_evidence


def test_choice_gives_its_reason():
    with pm.Model() as discrete:
        k = pm.Poisson("k", 3.0)
        pm.Normal("y", k, 1.0, observed=2.0)
    choice = choose_path(compile_model(discrete))
    assert "k is discrete" in choice.reason
    small = choose_path(compile_model(gaussian(2)[0]))
    assert "starts at the prior" in small.reason
    large = choose_path(compile_model(gaussian(40)[0]))
    assert isinstance(large.path, ReferencePath)
    assert "starts at a reference" in large.reason


@pytest.mark.parametrize(
    "case",
    first_with_every_version([(2, 0.1, "reference"), (8, 0.1, "prior"), (8, 0.0, "reference")]),
)
def test_every_mode_counts_however_many_there_are(case):
    """Each square has two roots: 4 modes are four components, 256 are left to the prior.

    Unless they are images of each other, as they are where nothing tells signs apart.
    """
    squares, shift, start = case
    centers = shift * np.arange(1, squares + 1)
    with pm.Model() as model:
        root = pm.Normal("root", centers, 1, shape=squares)
        pm.Normal("y", root[None, :] ** 2, 0.3, observed=np.full((40, squares), 3.0))

    def density(x, center):
        return np.exp(-0.5 * (x - center) ** 2 - 40 * (3 - x**2) ** 2 / (2 * 0.09))

    roots = np.sqrt(3) * np.array([-1, 1])
    each = [scipy.integrate.quad(density, -6, 6, args=(c,), points=roots)[0] for c in centers]
    constant = -0.5 * np.log(2 * np.pi) - 40 * np.log(0.3 * np.sqrt(2 * np.pi))
    truth = np.log(each).sum() + squares * constant
    for seed in (1, 2):
        found = pymc_arm.sample(model, draws=500, random_seed=seed, progressbar=False).attrs
        assert found["start"] == start
        assert ("symmetries" in found) == (shift == 0)
        error = found["log_marginal_likelihood"] - truth
        assert abs(error) < 4 * found["log_marginal_likelihood_se"] + 1e-3
        assert found["log_marginal_likelihood_se"] < 0.2
        assert found["verdict"] == "ok"


def test_components_whose_centers_the_support_leaves_out_are_equal():
    """The density at the centers says nothing of their weights where it is zero."""

    class Outside:
        def __call__(self, points):
            return np.full(len(points), -np.inf), np.zeros_like(points)

    view = Outside()
    none = np.zeros((0, 1))
    fits = [
        Fit(Chart(view, np.array([center]), np.eye(1)), 10.0, none, none, 1.0, 0)
        for center in (0.0, 3.0)
    ]
    _, mixture = combine(view, fits)
    weights = [part.log_weight for part in mixture.components]
    assert weights[0] == weights[1]
    assert np.isfinite(mixture.draw(np.random.default_rng(1), 10)).all()
