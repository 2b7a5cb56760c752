"""What is rounded to an index stays within its table, also at the end of a support."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.rounding import inner_range

TABLE = np.array([0.0, 1.0, 3.0, -2.0, 5.0])
Y = 5.5


def _beta() -> pt.TensorVariable:
    # 2 % of the mass is within 1e-16 of each end.
    p = pm.Beta("x", 0.1, 0.1)
    return pt.cast(pt.floor(5 * p), "int64")


def _interval() -> pt.TensorVariable:
    return pt.cast(pm.Uniform("x", 1000, 1020) - 1000, "int8") // 4


def _from_above() -> pt.TensorVariable:
    return pt.cast(pt.ceil(pm.Uniform("x", 0, 5)), "int64") - 1


def _angle() -> pt.TensorVariable:
    angle = pm.VonMises("x", np.pi, 1e-9)
    return pt.cast(5 * (angle + np.pi) / (2 * np.pi), "int32")


WEIGHTS = {
    _beta: np.diff(stats.beta.cdf(np.arange(6) / 5, 0.1, 0.1)),
    _interval: np.full(5, 0.2),
    _from_above: np.full(5, 0.2),
    _angle: np.full(5, 0.2),
}


def _model(index: Callable[[], pt.TensorVariable]) -> pm.Model:
    with pm.Model() as model:
        mean = pm.Deterministic("mean", pt.constant(TABLE)[index()])
        pm.Normal("y", mean, 1, observed=Y)
    return model


@pytest.mark.parametrize("index", WEIGHTS, ids=lambda index: index.__name__[1:])
def test_log_z_is_exact(index: Callable[[], pt.TensorVariable]) -> None:
    # Five standard errors and a thousandth: a false alarm in a million.
    exact = logsumexp(np.log(WEIGHTS[index]) + stats.norm.logpdf(Y, TABLE, 1))
    options = {"draws": 400, "chains": 2, "random_seed": 1, "progressbar": False}
    idata = pymc_arm.sample(_model(index), **options)
    error = idata.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 5 * idata.attrs["log_marginal_likelihood_se"] + 0.001
    assert np.isin(idata.posterior["mean"].values, TABLE).all()


@pytest.mark.parametrize("index", WEIGHTS, ids=lambda index: index.__name__[1:])
@pytest.mark.parametrize("end", [-800.0, -40.0, 40.0, 800.0])
def test_the_ends_are_in_the_table(index: Callable[[], pt.TensorVariable], end: float) -> None:
    path = compile_model(_model(index))
    point = np.array([[np.clip(end, -np.pi, np.pi) if index is _angle else end]])
    likelihood = path.density.terms(point)[0, path.density.offsets[1] :]
    expected = stats.norm.logpdf(Y, TABLE[-1 if end > 0 else 0], 1)
    np.testing.assert_allclose(likelihood, expected)
    mean = path.posterior(np.random.default_rng(1), point)["mean"]
    assert mean[0] == TABLE[-1 if end > 0 else 0]


def test_without_a_transform_there_is_no_end() -> None:
    assert inner_range(None) == (-np.inf, np.inf)
