"""Vectors of which some elements are missing are counted once, from either start."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_arm
from pymc_arm.comparison.prior_predictive import PriorPredictive
from pymc_arm.models.graph_sampler import GraphSampler
from pymc_arm.models.partly_missing import StandIn, find_stand_ins
from pymc_arm.models.prior import PriorSampler

pytestmark = pytest.mark.filterwarnings("ignore:Data in .* contains missing values")

ROWS = np.array([[0.3, np.nan, 1.2, np.nan], [1.0, 0.4, -0.2, 0.9], [np.nan, 2.0, 1.1, 0.2]])
COVARIANCE = np.array(
    [[2, 0.8, 0.3, 0.1], [0.8, 1.5, 0.4, 0.2], [0.3, 0.4, 1, 0.5], [0.1, 0.2, 0.5, 1.2]]
)
WALK = np.array([0.1, 0.5, np.nan, 0.8, 1.2, np.nan, np.nan, 0.6])


def _observed_part(values: np.ndarray, covariance: np.ndarray) -> float:
    """Return the log density of the elements that are there, of a normal with mean zero."""
    there = np.flatnonzero(~np.isnan(values))
    part = covariance[np.ix_(there, there)]
    return float(stats.multivariate_normal.logpdf(values[there], np.zeros(len(there)), part))


def _over_scale(covariance: Callable[[float], np.ndarray]) -> float:
    """Return log Z of a vector whose scale is half-normal."""
    integral, _ = integrate.quad(
        lambda s: np.exp(_observed_part(WALK, covariance(s)) + stats.halfnorm.logpdf(s)), 0, 20
    )
    return float(np.log(integral))


def _one_vector() -> tuple[pm.Model, float]:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        data = np.ma.masked_invalid(ROWS[0])
        pm.MvNormal("x", mu=mean * np.ones(4), cov=COVARIANCE, observed=data)
    return model, _observed_part(ROWS[0], COVARIANCE + 1)


def _several_vectors() -> tuple[pm.Model, float]:
    # The rows share a mean: one vector of twelve elements.
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        data = np.ma.masked_invalid(ROWS)
        pm.MvNormal("x", mu=mean * np.ones(4), cov=COVARIANCE, observed=data)
    return model, _observed_part(ROWS.ravel(), np.kron(np.eye(3), COVARIANCE) + 1)


def _walk() -> tuple[pm.Model, float]:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        start = pm.Normal.dist(0, 1)
        data = np.ma.masked_invalid(WALK)
        pm.GaussianRandomWalk("x", sigma=scale, init_dist=start, observed=data)
    times = np.arange(len(WALK))
    return model, _over_scale(lambda s: 1 + s**2 * np.minimum(times[:, None], times))


def _autoregression() -> tuple[pm.Model, float]:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        start = pm.Normal.dist(0, 1)
        data = np.ma.masked_invalid(WALK)
        pm.AR("x", rho=[0.7], sigma=scale, init_dist=start, observed=data)

    def covariance(scale: float) -> np.ndarray:
        inverse = np.linalg.inv(np.eye(len(WALK)) - 0.7 * np.eye(len(WALK), k=-1))
        return inverse @ np.diag([1.0] + [scale**2] * (len(WALK) - 1)) @ inverse.T

    return model, _over_scale(covariance)


def _counts() -> tuple[pm.Model, float]:
    # Two of four counts are there; the rest of ten draws are in one category then.
    with pm.Model() as model:
        data = np.ma.masked_equal([3, -1, 2, -1], -1)
        pm.Multinomial("x", n=10, p=[0.2, 0.3, 0.1, 0.4], observed=data)
    exact = stats.multinomial.logpmf([3, 2, 5], 10, [0.2, 0.1, 0.7])
    return model, float(exact)


def _child_of_missing() -> tuple[pm.Model, float]:
    # What is measured of the whole vector belongs to the same normal vector.
    with pm.Model() as model:
        x = pm.MvNormal("x", mu=np.zeros(4), cov=COVARIANCE, observed=np.ma.masked_invalid(ROWS[0]))
        latent = pm.Normal("latent", x, 0.5, shape=4)
        pm.Normal("y", latent.sum(), 1, observed=2.0)
    whole = np.append(ROWS[0], 2.0)
    joint = np.zeros((5, 5))
    joint[:4, :4] = COVARIANCE
    joint[4, :4] = joint[:4, 4] = COVARIANCE.sum(axis=0)
    joint[4, 4] = COVARIANCE.sum() + 4 * 0.25 + 1
    return model, _observed_part(whole, joint)


MODELS = [_one_vector, _several_vectors, _walk, _autoregression, _child_of_missing]


@pytest.mark.parametrize("write", MODELS, ids=lambda write: write.__name__[1:])
@pytest.mark.parametrize("start", ["prior", "reference"])
def test_log_z_is_exact(write: Callable[[], tuple[pm.Model, float]], start: str) -> None:
    # Five standard errors and a thousandth: a false alarm in a million.
    model, exact = write()
    options = {"draws": 400, "chains": 4, "random_seed": 1, "progressbar": False}
    attrs = pymc_arm.sample(model, start=start, **options).attrs
    error = attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 5 * attrs["log_marginal_likelihood_se"] + 0.001
    assert attrs["verdict"] == "ok"


def test_missing_counts_are_right() -> None:
    # They have a fixed sum, so that no move of one of them is possible: the verdict says so.
    model, exact = _counts()
    with pytest.warns(pymc_arm.TrustWarning, match="Moves were accepted in only"):
        idata = pymc_arm.sample(model, draws=400, chains=4, random_seed=1, progressbar=False)
    error = idata.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 5 * idata.attrs["log_marginal_likelihood_se"] + 0.001


@pytest.mark.parametrize("discrete", [False, True])
def test_stand_ins_have_the_density_of_their_draws(discrete: bool) -> None:
    # 4000 draws of a known density: beyond 2.2 / sqrt(n) in one of 8000 trials of Kolmogorov's.
    stand_in = StandIn(np.array([1.0, -20.0]), np.array([0.4, 5.0]), discrete)
    draw, random = stand_in.draw()
    draws = GraphSampler([draw], random).draw_graphs(np.random.default_rng(1), 4000)[0]
    step = 1.0 if discrete else 0.02
    grid = np.arange(-400, 400, step)
    value = pt.matrix("value")
    log_density = pytensor.function([value], stand_in.log_density(value))
    below = np.cumsum(np.exp(log_density(np.repeat(grid[:, None], 2, axis=1))), axis=0) * step
    assert np.all(np.abs(below[-1] - 1) < 1e-3)
    for column in range(2):
        found = np.searchsorted(np.sort(draws[:, column]), grid, side="right") / len(draws)
        assert (
            np.abs(found - below[:, column]).max()
            < 2.2 / np.sqrt(len(draws)) + (not discrete) * 0.02
        )


def test_what_depends_on_data_is_drawn_given_them() -> None:
    data = np.array([3.0, -5.0])
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, observed=data)
        z = pm.MvNormal("z", mu=x, cov=np.eye(2))
        pm.Normal("y", z.sum(), 1, observed=0.0)
    draws = PriorSampler(model).draw(np.random.default_rng(1), 1000)[0]
    # Four standard errors of the mean of 1000 draws.
    assert np.all(np.abs(draws.mean(axis=0) - data) < 4 / np.sqrt(1000))
    assert find_stand_ins(model) == {}


def test_missing_elements_of_car_are_refused() -> None:
    # PyMC's density of a CAR vector lacks a constant.
    neighbours = np.eye(4, k=1) + np.eye(4, k=-1)
    with pm.Model() as model:
        data = np.ma.masked_invalid([0.3, np.nan, 0.2, 0.1])
        pm.CAR("x", mu=np.zeros(4), W=neighbours, alpha=0.5, tau=2.0, observed=data)
    with pytest.raises(pymc_arm.ModelError, match="lacks a factor"):
        pymc_arm.plan(model)


def test_simulations_that_depend_on_data_are_refused() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, observed=1.0)
        z = pm.Normal("z", x, 1)
        pm.Normal("y", z, 1, observed=0.0)
    with pytest.raises(pymc_arm.ModelError, match="depend on 'x'"):
        PriorPredictive("regression", model)
