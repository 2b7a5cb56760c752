"""Covariance factors by standard deviations and partial correlations."""

import numpy as np
import pymc as pm
import pytest
import scipy

from pymc_arm._compat import PYMC_MAJOR
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.triangular import TriangularRows, find_triangular_rows


def rows_of(model):
    path = compile_model(model, marginalize=False)
    return path, find_triangular_rows(path, np.arange(path.plan.layout.dimension))


def lkj(size, eta=2.0):
    with pm.Model() as model:
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", eta=eta, n=size, sd_dist=pm.Exponential.dist(1.0, shape=size)
        )
        pm.MvNormal("y", np.zeros(size), chol=factor, observed=np.ones((2, size)))
    return model


def test_there_and_back_with_gradient_and_jacobian():
    rows = TriangularRows((np.array([1, 2]), np.array([3, 4, 5])))
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(5, 6))
    points, log_volume = rows.to_model(seen)
    back, same = rows.from_model(points)
    np.testing.assert_allclose(back, seen, rtol=1e-10)
    np.testing.assert_allclose(log_volume, same, rtol=1e-10)
    steps = 1e-6 * np.eye(6)
    columns = (rows.to_model(seen[0] + steps)[0] - rows.to_model(seen[0] - steps)[0]) / 2e-6
    assert np.linalg.slogdet(columns)[1] == pytest.approx(log_volume[0], abs=1e-6)
    weights = rng.normal(size=6)

    def value(seen):
        points, log_volume = rows.to_model(seen)
        return np.sin(points) @ weights + log_volume

    gradient = np.cos(points) * weights
    rows.pull_back(seen, points, gradient)
    for column, step in enumerate(steps):
        slope = (value(seen + step) - value(seen - step)) / 2e-6
        np.testing.assert_allclose(gradient[:, column], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(
    PYMC_MAJOR > 5,
    reason="PyMC 6.3 draws LKJ factors of three dimensions and more from another distribution",
)
def test_partial_correlations_of_an_lkj_prior_are_independent():
    """They are 2 B - 1 with B of a beta distribution; a false alarm in one of 1000 seeds each."""
    path, rows = rows_of(lkj(3))
    assert [len(row) for row in rows.rows] == [2, 3]
    draws = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(1), 4000), 4000)
    seen = rows.from_model(draws)[0]
    for column, shape in ((1, 2.5), (3, 2.5), (4, 2.0)):
        uniform = scipy.stats.beta(shape, shape).cdf(0.5 + 0.5 * np.tanh(seen[:, column]))
        assert scipy.stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert scipy.stats.kstest(np.exp(seen[:, 5]), "expon").pvalue > 1e-3
    correlation = np.corrcoef(seen.T)
    assert np.abs(correlation[1, 3]) < 3.3 / np.sqrt(4000)


def test_other_vectors_of_that_length_are_left():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=6)
        pm.Normal("y", x, 1.0, observed=np.ones(6))
    assert rows_of(model)[1] is None
