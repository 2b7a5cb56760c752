"""Densities for a few evaluations are those of the whole path; what is unusual is left to it."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_arm.models import quick_path as module
from pymc_arm.models.appended import Rows, find_terms
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.quick_path import quick_path
from pymc_arm.models.update_path import path_from_rows

ROWS, OLD = 40, 30
RNG = np.random.default_rng(1)
X, GROUP = RNG.normal(size=(ROWS, 2)), RNG.integers(0, 4, ROWS)
COUNTS = RNG.poisson(2.0, ROWS)


def logistic():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 3.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ b, observed=(COUNTS > 2).astype(int))
    return model


def groups():
    with pm.Model() as model:
        width = pm.HalfNormal("width", 1.0)
        effect = pm.Normal("effect", 0.0, width, shape=4)
        pm.Deterministic("rate", pm.math.exp(effect[GROUP]))
        pm.Poisson("y", pm.math.exp(effect[GROUP]), observed=COUNTS)
    return model


def mixture():
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(2))
        mean = pm.Normal("mean", 0.0, 2.0, shape=2)
        parts = [pm.Normal.dist(mean[k], 1.0) for k in range(2)]
        pm.Mixture("y", weights, parts, observed=X[:, 0])
    return model


def counts():
    with pm.Model() as model:
        alpha, mu = pm.Exponential("alpha", 1.0), pm.Uniform("mu", 0.0, 20.0)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=COUNTS)
    return model


MODELS = {model.__name__: model for model in (logistic, groups, mixture, counts)}


def prior_draws(model, size=50):
    with model:
        drawn = pm.draw(model.free_RVs, size, random_seed=1)
    names = [rv.name for rv in model.free_RVs]
    return xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}{k}" for k in range(v.ndim - 1))), v[None])
            for name, v in zip(names, drawn, strict=True)
        }
    )


@pytest.mark.parametrize("many_rows", [0, 1000])
@pytest.mark.parametrize("name", MODELS)
def test_densities_are_those_of_the_whole_path(name, many_rows, monkeypatch):
    monkeypatch.setattr(module, "MANY_ROWS", many_rows)
    model, rows = MODELS[name](), {"y": Rows(OLD, ROWS)}
    quick = quick_path(model, prior_draws(model), rows)
    compiled = compile_model(model)
    whole = path_from_rows(compiled, find_terms(compiled.density, rows))
    assert quick is not None
    assert quick.layout == whole.layout
    points = whole.initialize(np.random.default_rng(2), 30)[0]
    for method in ("log_density", "old_log_density", "log_ratio"):
        found, expected = (getattr(path, method)(points) for path in (quick, whole))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    found, expected = (path.posterior(np.random.default_rng(3), points) for path in (quick, whole))
    assert found.keys() == expected.keys()
    for key in found:
        np.testing.assert_allclose(found[key], expected[key])


def test_unusual_priors_and_other_shapes_are_left_to_the_whole_path():
    with pm.Model() as ordered:
        pm.Normal("a", 0, 1, shape=2, transform=pm.distributions.transforms.ordered)
        pm.Normal("y", 0, 1, observed=np.zeros(ROWS))
    with pm.Model() as correlated:
        pm.LKJCorr("c", n=3, eta=1.0)
        pm.Normal("y", 0, 1, observed=np.zeros(ROWS))
    rows = {"y": Rows(OLD, ROWS)}
    assert quick_path(ordered, prior_draws(ordered), rows) is None
    assert quick_path(correlated, prior_draws(correlated), rows) is None
    draws = prior_draws(logistic())
    assert quick_path(logistic(), draws.rename({"b": "c"}), rows) is None
    assert quick_path(logistic(), draws.isel(b0=slice(1)), rows) is None
