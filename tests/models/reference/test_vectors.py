"""Normal vectors of unknown covariance: the map, what the data say, and log Z."""

import numpy as np
import pymc as pm
import pytest
import scipy

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.fit import fit_reference
from pymc_arm.models.reference.information import find_information
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.models.reference.vector_program import compile_vectors
from pymc_arm.models.reference.vectors import Information
from pymc_arm.models.reference.views import see_as_fitted

SEEN, NOISE = np.array([0.8, -0.5]), np.array([0.2, 0.3])


def one_vector():
    """Return a vector of two that is seen with noise."""
    with pm.Model() as model:
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", eta=2.0, n=2, sd_dist=pm.Exponential.dist(1.0, shape=2)
        )
        x = pm.MvNormal("x", 0, chol=factor, shape=2)
        pm.Normal("y", x, NOISE, observed=SEEN)
    return model


def groups():
    """Return intercepts and slopes of five groups with a common unknown mean, and their data."""
    rng = np.random.default_rng(1)
    design = np.stack([np.ones((5, 6)), rng.normal(size=(5, 6))], axis=2)
    y = rng.normal(size=(5, 6))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", eta=2.0, n=2, sd_dist=pm.HalfNormal.dist(1.0, shape=2)
        )
        noise = pm.HalfNormal("noise", 1.0)
        x = pm.MvNormal("x", mean, chol=factor, shape=(5, 2))
        pm.Normal("y", (design * x[:, None, :]).sum(axis=2), noise, observed=y)
    return model, design, y


def autoregression():
    """Return an autoregression of five steps, written as a matrix."""
    lags = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    with pm.Model() as model:
        memory, scale = pm.Beta("memory", 2, 2), pm.Exponential("scale", 1.0)
        x = pm.MvNormal("x", np.zeros(5), scale**2 * memory**lags, shape=5)
        pm.Poisson("y", pm.math.exp(x), observed=[1, 0, 2, 3, 1])
    return model


def target_of(model):
    path = compile_model(model, marginalize=False)
    assert path.density.gradient.available()
    return path, SharedTarget(path)


def prior_draws(path, size, seed=0):
    return path.plan.layout.ravel(path.prior.draw(np.random.default_rng(seed), size), size)


@pytest.mark.parametrize("make", [one_vector, lambda: groups()[0], autoregression])
def test_the_map_is_exact(make):
    """Any information will do: there and back, the gradient, and the Jacobian by differences."""
    path, target = target_of(make())
    (level,) = target.vectors
    points, rng = prior_draws(path, 12), np.random.default_rng(2)
    root = rng.normal(size=(*level.blocks.shape, level.order))
    slope = np.zeros(target.dimension)
    slope[np.setdiff1d(np.arange(target.dimension), level.coordinates)] = 0.3
    data = Information(
        root @ np.swapaxes(root, 1, 2), rng.normal(size=level.blocks.shape), slope, points[0]
    )
    for information in ((level.nothing(),), (data,)):
        view = target.view(target.noncentered().noncentering, information)
        seen, log_volume = view.from_model(points)
        back, same = view.to_model(seen)
        np.testing.assert_allclose(back, points, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(log_volume, same, rtol=1e-6, atol=1e-6)
        values, gradients = view(seen)
        np.testing.assert_allclose(values, view.log_density(seen), rtol=1e-8)
        shift = 1e-5 * rng.normal(size=seen.shape)
        rise = 0.5 * (view.log_density(seen + shift) - view.log_density(seen - shift))
        slopes = (gradients * shift).sum(axis=1)
        assert np.median(np.abs(rise - slopes) / (1e-9 + np.abs(slopes))) < 1e-5
        steps = 1e-5 * np.eye(target.dimension)
        columns = (view.to_model(seen[0] + steps)[0] - view.to_model(seen[0] - steps)[0]) / 2e-5
        assert np.linalg.slogdet(columns)[1] == pytest.approx(same[0], abs=1e-5)


def test_precision_and_mean_are_those_of_the_prior():
    path, target = target_of(groups()[0])
    (level,) = target.vectors
    assert level.blocks.shape == (5, 2)
    assert level.representatives == 1
    points = prior_draws(path, 6)
    precision, linear = level.prior(points)
    mean, a, b, c = points[:, :2], *points[:, 2:5].T
    factor = np.zeros((6, 2, 2))
    factor[:, 0, 0], factor[:, 1, 0], factor[:, 1, 1] = np.exp(a), b, np.exp(c)
    expected = np.linalg.inv(factor @ np.swapaxes(factor, 1, 2))
    size = np.abs(expected).max(axis=(1, 2), keepdims=True)
    assert np.abs((precision - expected[:, None]) / size[:, None]).max() < 1e-6
    tilt = np.einsum("pij,pj->pi", expected, mean)
    assert np.abs((linear - tilt[:, None]) / size).max() < 1e-6


def test_normal_data_are_known_exactly():
    """J is X'X / noise^2 and so on, so that vectors are standard normal whatever the parameters."""
    model, design, y = groups()
    path, target = target_of(model)
    points = prior_draws(path, 1)
    (level,), noise = target.vectors, path.plan.layout.slots[2].start
    (data,) = find_information(target, points, np.random.default_rng(0))
    variance = np.exp(2 * points[0, noise])
    gram = np.einsum("gri,grj->gij", design, design) / variance
    np.testing.assert_allclose(data.precision, gram, rtol=1e-3, atol=1e-4 / variance)
    tilt = np.einsum("gri,gr->gi", design, y) / variance
    np.testing.assert_allclose(data.linear, tilt, rtol=1e-3, atol=1e-3 / variance)
    assert data.slope[noise] == pytest.approx(-2.0, abs=0.02)
    assert np.abs(np.delete(data.slope, noise)).max() < 0.02
    view = target.view(target.noncentered().noncentering, (data,))
    seen = np.tile(view.from_model(points)[0], (40, 1))
    seen[20:, noise] += 0.5
    own = np.random.default_rng(1).normal(size=(40, level.coordinates.size))
    seen[:, level.coordinates] = own
    rest = view.log_density(seen) + 0.5 * (own**2).sum(axis=1)
    assert max(np.ptp(rest[:20]), np.ptp(rest[20:])) < 0.05


def exact_log_z():
    """Return log Z of one vector by quadrature over two scales and a correlation."""
    logs, (nodes, weights) = np.linspace(-9, 3, 121), np.polynomial.legendre.leggauss(60)
    scales, step = np.exp(logs), logs[1] - logs[0]
    one, other, correlation = np.meshgrid(scales, scales, nodes, indexing="ij")
    covariance = np.empty((*one.shape, 2, 2))
    covariance[..., 0, 0], covariance[..., 1, 1] = one**2 + NOISE[0] ** 2, other**2 + NOISE[1] ** 2
    covariance[..., 0, 1] = covariance[..., 1, 0] = correlation * one * other
    form = (SEEN * np.linalg.solve(covariance, SEEN[:, None])[..., 0]).sum(axis=-1)
    values = np.exp(-0.5 * form) / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))
    # LKJ with eta = 2: 3 / 4 (1 - c^2).
    prior = np.exp(-one - other) * one * other * 0.75 * (1 - correlation**2)
    return float(np.log((values * prior * weights).sum() * step**2))


def test_log_z_is_that_of_quadrature():
    """A false alarm in one of 16,000 seeds: four standard errors."""
    path, target = target_of(one_vector())
    reference = fit_reference(path, target=target)
    assert reference.information is not None
    assert reference.overlap > 0.3
    chart = Chart(reference.view(target), reference.center, reference.factor)
    draws = reference.mixture.draw(np.random.default_rng(4), 4000)
    ratio = chart.log_density(draws) - reference.mixture(draws)[0]
    found = scipy.special.logsumexp(ratio) - np.log(len(ratio))
    error = np.exp(ratio - found).std() / np.sqrt(len(ratio))
    assert abs(found - exact_log_z()) < 4 * error < 0.2


def test_what_is_not_normal_is_left():
    with pm.Model() as model:
        scale = pm.Exponential("scale", 1.0)
        x = pm.MvStudentT("x", nu=4, mu=np.zeros(3), scale=scale * np.eye(3), shape=3)
        pm.Normal("y", x, 1.0, observed=[1.0, 2.0, 3.0])
    assert target_of(model)[1].vectors == []


def test_a_vector_that_hangs_on_nothing_is_left():
    with pm.Model() as model:
        x = pm.MvNormal("x", np.zeros(3), np.eye(3) + 0.5, shape=3)
        scale = pm.Exponential("scale", 1.0)
        pm.Normal("y", x, scale, observed=[1.0, 2.0, 3.0])
    assert target_of(model)[1].vectors == []


def test_nodes_are_evaluated_as_the_density_does():
    path, target = target_of(autoregression())
    (level,), nodes = target.vectors, np.random.default_rng(0).normal(size=(3, 5))
    points = prior_draws(path, 4)
    program = compile_vectors(path.density, level.terms, level.coordinates, nodes, points)
    tiled = np.repeat(points, 3, axis=0)
    tiled[:, level.coordinates] = np.tile(nodes, (4, 1))
    expected = path.density.terms(tiled, level.terms).reshape(4, 3, -1)
    np.testing.assert_allclose(program.values(points), expected, rtol=1e-8)


def test_particles_tell_the_same_as_draws():
    """The view that a fit suggests knows normal data as exactly as one point does."""
    path, target = target_of(one_vector())
    reference = fit_reference(path, target=target)
    chart = Chart(target.noncentered(), np.zeros(target.dimension), np.eye(target.dimension))
    points = chart.view.from_model(prior_draws(path, 30))[0]

    class Fitted:
        pass

    fit = Fitted()
    fit.chart, fit.points = chart, points
    (data,) = see_as_fitted(np.random.default_rng(0), target, fit).information
    np.testing.assert_allclose(data.precision[0], np.diag(NOISE**-2.0), atol=0.3)
    (same,) = reference.information
    np.testing.assert_allclose(same.precision, data.precision, atol=0.3)
