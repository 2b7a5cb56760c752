"""Coordinates seen by the quantiles of their priors, and vague priors that need it."""

import numpy as np
import pymc as pm
import pytest
import scipy
from scipy.special import gammaln

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.quantiles import find_quantiles
from pymc_arm.models.reference.target import SharedTarget
from tests.replicates import first_with_every_version

Z = np.linspace(-5, 5, 21)[:, None]


def quantiles_of(model):
    path = compile_model(model, marginalize=False)
    return find_quantiles(path, np.arange(path.plan.layout.dimension))


@pytest.mark.parametrize(
    ("prior", "distribution", "positive"),
    [
        (lambda: pm.Gamma("x", 0.01, 0.01), scipy.stats.gamma(0.01, scale=100), True),
        (lambda: pm.Gamma("x", 0.001, 0.001), scipy.stats.gamma(0.001, scale=1000), True),
        (lambda: pm.InverseGamma("x", 0.01, 0.01), scipy.stats.invgamma(0.01, scale=0.01), True),
        (lambda: pm.Cauchy("x", 3, 10), scipy.stats.cauchy(3, 10), False),
        (lambda: pm.StudentT("x", nu=1, mu=-1, sigma=4), scipy.stats.t(1, -1, 4), False),
    ],
)
def test_z_is_normal_under_the_prior(prior, distribution, positive):
    with pm.Model() as model:
        x = prior()
        pm.Potential("data", -0.1 * x**2 / (1 + x**2))
    found = quantiles_of(model)
    values, log_slope, curvature = found(Z)
    x = np.exp(np.minimum(values, 700)) if positive else values
    below, above = distribution.logcdf(x), distribution.logsf(x)
    usable = np.minimum(below, above) > -700
    if positive:
        usable &= (values < 690) & (values > -690)
    expected = np.where(
        below < above, scipy.special.ndtri_exp(below), -scipy.special.ndtri_exp(above)
    )
    assert usable.sum() > 8
    assert np.abs(expected - Z)[usable].max() < 0.02
    assert np.abs(found.inverse(values) - Z).max() < 1e-8
    up, down = found(Z + 1e-5), found(Z - 1e-5)
    np.testing.assert_allclose((up[0] - down[0]) / 2e-5, np.exp(log_slope), rtol=1e-6)
    np.testing.assert_allclose((up[1] - down[1]) / 2e-5, curvature, atol=1e-3)


def test_round_priors_stay_as_they_are():
    with pm.Model() as model:
        a = pm.Normal("a", 3, 100)
        b = pm.HalfNormal("b", 2)
        c = pm.Uniform("c", 0, 10)
        pm.Normal("y", a, b + c, observed=[1.0, 2.0])
    assert quantiles_of(model) is None


def test_the_gradient_of_a_view_with_quantiles():
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        precision = pm.Gamma("precision", 0.01, 0.01)
        center = pm.Cauchy("center", 0, 5)
        group = pm.Normal("group", center, precision**-0.5, shape=3)
        pm.Normal("y", group, 1, observed=[1.0, 2.0, 4.0])
    path = compile_model(model)
    assert path.density.gradient.available()
    target = SharedTarget(path)
    assert len(target.quantiles.coordinates) == 2
    noncentering = np.zeros(5)
    noncentering[target.coordinates] = 0.7
    view = target.view(noncentering)
    points = np.column_stack([rng.uniform(1.2, 2.0, 20), rng.normal(size=(20, 4))])
    values, gradients = view(points)
    np.testing.assert_allclose(values, view.log_density(points), rtol=1e-9)
    there, log_jacobian = view.to_model(points)
    back, same = view.from_model(there)
    np.testing.assert_allclose(back, points, atol=1e-7)
    np.testing.assert_allclose(log_jacobian, same, atol=1e-6)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        slope = (view.log_density(points + step) - view.log_density(points - step)) / 2e-5
        np.testing.assert_allclose(gradients[:, k], slope, rtol=1e-3, atol=1e-3)


def hazards(epsilon, intervals=20, persons=15):
    """Piecewise constant hazards with vague priors, and a common effect; log Z by quadrature."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 2, persons)
    exposure = rng.uniform(0.2, 1.0, (persons, intervals))
    deaths = rng.poisson(0.1 * exposure * np.exp(0.7 * group[:, None]))
    with pm.Model() as model:
        hazard = pm.Gamma("hazard", epsilon, epsilon, shape=intervals)
        effect = pm.Normal("effect", 0, 3)
        rate = pm.math.exp(effect * group)[:, None] * hazard * exposure
        pm.Poisson("deaths", rate, observed=deaths)
    grid = np.linspace(-8, 8, 2001)
    at_risk = np.exp(grid[:, None] * group) @ exposure
    count = deaths.sum(axis=0)
    log_gammas = epsilon * np.log(epsilon) - gammaln(epsilon) + gammaln(epsilon + count)
    values = (log_gammas - (epsilon + count) * np.log(epsilon + at_risk)).sum(axis=1)
    values += grid * (deaths * group[:, None]).sum()
    values += (deaths * np.log(exposure) - gammaln(deaths + 1)).sum()
    values += scipy.stats.norm(0, 3).logpdf(grid)
    return model, float(np.logaddexp.reduce(values) + np.log(grid[1] - grid[0]))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", first_with_every_version([0.001, 0.01, 0.1]))
def test_vague_hazards(epsilon):
    model, truth = hazards(epsilon)
    idata = pymc_arm.sample(model, draws=500, chains=4, random_seed=1, progressbar=False)
    error = idata.attrs["log_marginal_likelihood_se"]
    assert abs(idata.attrs["log_marginal_likelihood"] - truth) < 4 * error
    assert error < 0.15
    assert idata.attrs["verdict"] == "ok"
