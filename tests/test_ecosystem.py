"""Results go where those of ``pm.sample`` go, on both majors of PyMC."""

import inspect
import warnings
from functools import cache

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm._compat import get_group, has_group, load
from pymc_arm.comparison import read_evidence
from pymc_arm.comparison.averaging import average_models

SCORES = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = list("ABCDEFGH")
OPTIONS = {"draws": 200, "chains": 4, "random_seed": 1, "progressbar": False}


@cache
def make_model():
    with pm.Model(coords={"school": SCHOOLS}) as model:
        center = pm.Normal("center", 0.0, 10.0)
        spread = pm.HalfNormal("spread", 10.0)
        effect = pm.Normal("effect", 0.0, 1.0, dims="school")
        theta = pm.Deterministic("theta", center + spread * effect, dims="school")
        pm.Normal("score", theta, ERRORS, observed=SCORES, dims="school")
    return model


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def result(model):
    return pymc_arm.sample(model, idata_kwargs={"log_likelihood": True}, **OPTIONS)


def test_summary(result):
    table = az.summary(result)
    assert {"center", "spread", "theta[A]", "effect[H]"} <= set(table.index)
    center = float(table.loc["center", "mean"])
    assert center == pytest.approx(6.5, abs=2.0)


def test_arguments_of_pm_sample(model):
    """The same call, but for what is about tuning, with whatever PyMC takes for a seed."""
    shared = {
        "draws": 100,
        "chains": 2,
        "cores": 1,
        "random_seed": [1, 2],
        "progressbar": False,
        "return_inferencedata": True,
        "idata_kwargs": {"log_likelihood": True},
    }
    assert set(shared) <= set(inspect.signature(pm.sample).parameters)
    with model:
        result = pymc_arm.sample(**shared)
    assert get_group(result, "posterior").sizes["draw"] == 100
    assert get_group(result, "log_likelihood")["score"].sizes["chain"] == 2


def test_plot_trace(result):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    with warnings.catch_warnings():
        # What libraries of plots are going to change among themselves.
        warnings.simplefilter("ignore")
        drawn = az.plot_trace(result, var_names=["center", "spread"])
    assert drawn is not None
    assert plt.get_fignums()
    plt.close("all")


def test_other_functions_of_arviz(result):
    """Of both majors: convergence, and a copy of a part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r_hat, effective = az.rhat(result), az.ess(result)
        chosen = az.extract(result, var_names=["center"])
    r_hat, effective = (x.get("posterior", x) for x in (r_hat, effective))
    assert float(r_hat["center"]) < 1.1
    assert 50 < float(effective["center"]) < 2000
    assert chosen.sizes["sample"] == 800


def test_loo(result):
    with warnings.catch_warnings():
        # A high Pareto k for one school is a property of the data.
        warnings.simplefilter("ignore", UserWarning)
        loo = az.loo(result)
    elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
    assert elpd == pytest.approx(-31.0, abs=1.5)


def test_compute_log_likelihood_afterwards(model):
    result = pymc_arm.sample(model, **OPTIONS)
    assert not has_group(result, "log_likelihood")
    pm.compute_log_likelihood(result, model=model, progressbar=False)
    assert get_group(result, "log_likelihood")["score"].shape == (4, 200, 8)


def test_posterior_predictive(result):
    # PyMC 5 appends the observed variables to the model's own list of them, so it gets its own.
    predictive = pm.sample_posterior_predictive(
        result, model=make_model(), random_seed=1, progressbar=False
    )
    drawn = get_group(predictive, "posterior_predictive")["score"]
    assert drawn.shape == (4, 200, 8)
    assert drawn.dims == ("chain", "draw", "school")
    # New scores scatter about the effects with the known errors.
    assert float(drawn.mean()) == pytest.approx(float(result["posterior"]["theta"].mean()), abs=2.0)


def test_predictions_can_be_averaged_over_models():
    with pm.Model(coords={"school": SCHOOLS}) as pooled:
        center = pm.Normal("center", 0.0, 10.0)
        pm.Normal("score", center, ERRORS, observed=SCORES, dims="school")
    results = {}
    for name, one in {"partial": make_model(), "complete": pooled}.items():
        results[name] = pymc_arm.sample(one, **OPTIONS)
        pm.sample_posterior_predictive(
            results[name],
            model=one,
            extend_inferencedata=True,
            random_seed=1,
            progressbar=False,
        )
    averaged = average_models(results, random_seed=1)
    assert list(get_group(averaged, "posterior").data_vars) == ["center"]
    assert get_group(averaged, "posterior_predictive")["score"].dims == ("chain", "draw", "school")


def test_netcdf(result, tmp_path):
    result.to_netcdf(str(tmp_path / "result.nc"))
    back = load(str(tmp_path / "result.nc"))
    for group in ("posterior", "sample_stats", "log_likelihood", "observed_data"):
        assert get_group(back, group).equals(get_group(result, group))
    assert back.attrs["log_marginal_likelihood"] == result.attrs["log_marginal_likelihood"]
    assert get_group(back, "posterior")["school"].values.astype(str).tolist() == SCHOOLS


@pytest.mark.statistical
def test_bambi():
    """Bambi centers predictors; with a known error the answer is normal. False alarms: 1e-4."""
    bambi = pytest.importorskip("bambi")
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=20)})
    data["y"] = 0.5 * data["x"] + rng.normal(size=20)
    slope = bambi.Prior("Normal", mu=0, sigma=2)
    intercept = bambi.Prior("Normal", mu=0, sigma=1)
    model = bambi.Model("y ~ x", data, priors={"x": slope, "Intercept": intercept, "sigma": 1})
    model.build()
    result = pymc_arm.sample(model.backend.model, **OPTIONS)
    centered = (data["x"] - data["x"].mean()).to_numpy()
    covariance = np.eye(20) + 1 + 4 * np.outer(centered, centered)
    exact = stats.multivariate_normal.logpdf(data["y"], np.zeros(20), covariance)
    low, high = read_evidence(result).interval(0.9999)
    assert low <= exact <= high


def test_marginalized_by_pymc_extras():
    """Both are exact: one sum over two values, here or there."""
    extras = pytest.importorskip("pymc_extras")
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.3)
        pm.Normal("y", pm.math.switch(label, 2.0, -1.0), 1.0, observed=0.7)
    marginal = extras.marginalize(model, ["label"])
    exact = np.log(0.3 * stats.norm.pdf(0.7, 2.0) + 0.7 * stats.norm.pdf(0.7, -1.0))
    for one in (model, marginal):
        result = pymc_arm.sample(one, **OPTIONS)
        assert result.attrs["log_marginal_likelihood"] == pytest.approx(exact, abs=1e-6)
