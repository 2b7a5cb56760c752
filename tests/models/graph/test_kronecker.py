"""Gaussian processes on a grid: their covariance is a Kronecker product, by its eigenvalues."""

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_arm
from pymc_arm.models.compiled import compile_model

TIMES, PLACES = np.linspace(0, 1, 5)[:, None], np.linspace(0, 1, 4)[:, None]


def covariance(points, scale):
    return np.exp(-0.5 * (points - points.T) ** 2 / scale**2)


@pytest.mark.filterwarnings("ignore")
def test_the_noise_of_a_process_on_a_grid():
    """Within 4 standard errors of a quadrature: one false alarm in 16,000."""
    whole = np.kron(covariance(TIMES, 0.4), covariance(PLACES, 0.6))
    rng = np.random.default_rng(4)
    noise = 0.3 * rng.normal(size=20)
    rows = np.linalg.cholesky(whole + 1e-9 * np.eye(20)) @ rng.normal(size=20) + noise
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1)
        covariances = [pm.gp.cov.ExpQuad(1, 0.4), pm.gp.cov.ExpQuad(1, 0.6)]
        process = pm.gp.MarginalKron(cov_funcs=covariances)
        process.marginal_likelihood("y", [TIMES, PLACES], rows, sigma=sigma)
    path = compile_model(model)
    assert path.density.backend == "numpy"
    assert path.density.gradient.available()

    def at(sigma):
        log_density = stats.multivariate_normal.logpdf(rows, cov=whole + sigma**2 * np.eye(20))
        return np.exp(log_density + stats.halfnorm.logpdf(sigma) + 10)

    exact = np.log(integrate.quad(at, 1e-3, 5, points=[0.2, 0.4], epsabs=1e-12)[0]) - 10
    idata = pymc_arm.sample(model, random_seed=2, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 4 * idata.attrs["log_marginal_likelihood_se"] + 1e-4
    assert idata.attrs["verdict"] == "ok"
