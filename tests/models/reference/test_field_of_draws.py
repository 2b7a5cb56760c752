"""Draws in the coordinates of a Gaussian field, against groups whose log Z is known.

Comparisons are in standard errors, with a false alarm of a fixed seed once in a thousand or less.
"""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import pymc_arm
from pymc_arm._compat import make_tree
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.from_draws import find_field_path

GROUPS = 15
MEANS = np.random.default_rng(1).normal(0.0, 1.1, GROUPS)
LOG_SCALES = np.linspace(-8.0, 3.0, 4001)


def groups():
    """Group means whose scale may be zero: a funnel, as the model is written."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        effect = pm.Normal("effect", 0.0, scale, shape=GROUPS)
        pm.Normal("y", effect, 1.0, observed=MEANS)
    return model


def log_scale_density():
    """Return the log-density of the log-scale and of the data, on a grid."""
    scales = np.exp(LOG_SCALES)
    values = stats.halfnorm.logpdf(scales) + LOG_SCALES
    return values + stats.norm.logpdf(MEANS, 0.0, np.sqrt(1 + scales[:, None] ** 2)).sum(axis=1)


def exact_log_evidence():
    return float(special.logsumexp(log_scale_density()) + np.log(np.diff(LOG_SCALES)[0]))


def exact_draws(seed, chains=4, draws=500):
    rng, values = np.random.default_rng(seed), log_scale_density()
    weights = np.exp(values - special.logsumexp(values))
    scale = np.exp(LOG_SCALES[rng.choice(len(weights), (chains, draws), p=weights)])
    shrinkage = scale[..., None] ** 2 / (1 + scale[..., None] ** 2)
    effect = shrinkage * MEANS + np.sqrt(shrinkage) * rng.normal(size=(chains, draws, GROUPS))
    return {
        "posterior": xr.Dataset(
            {"scale": (("chain", "draw"), scale), "effect": (("chain", "draw", "group"), effect)}
        )
    }


def test_draws_are_about_standard_normal_in_the_field():
    model = groups()
    path = compile_model(model)
    field = find_field_path(path)
    assert field is not None
    posterior = exact_draws(1)["posterior"]
    points = np.column_stack(
        [
            np.log(posterior["scale"].values.reshape(-1, 1)),
            posterior["effect"].values.reshape(-1, GROUPS),
        ]
    )
    inside = field.chart_points(points)
    error = 4.5 / np.sqrt(len(points))
    assert np.abs(inside[:, 1:].mean(axis=0)).max() < error
    assert np.abs(inside[:, 1:].std(axis=0) - 1).max() < error
    # The map and its inverse, and the volume: densities differ by the Jacobian alone.
    np.testing.assert_allclose(
        field.model_points(np.random.default_rng(0), inside), points, atol=1e-8
    )


@pytest.mark.statistical
def test_log_evidence_and_its_error():
    """Twelve sets of draws: each within 4 errors, and their spread that of the errors."""
    model, exact, z = groups(), exact_log_evidence(), []
    for seed in range(12):
        found = pymc_arm.evidence(
            make_tree(exact_draws([2, seed]), {}), model, random_seed=seed, cores=1
        ).attrs
        assert found["verdict"] == "ok"
        assert found["refine_overlap"] > 0.5
        z.append((found["log_marginal_likelihood"] - exact) / found["log_marginal_likelihood_se"])
    assert np.abs(z).max() < 4
    assert 0.45 < np.std(z, ddof=1) < 1.65


def test_draws_that_lack_the_narrow_part_are_refuted():
    """The half of the draws with the smaller scales is left out."""
    tree = exact_draws(3, draws=2000)
    posterior = tree["posterior"]
    wide = posterior["scale"].values.reshape(-1) > np.median(posterior["scale"].values)
    kept = {
        name: array.values.reshape(-1, *array.shape[2:])[wide][:3600]
        for name, array in posterior.data_vars.items()
    }
    cut = xr.Dataset(
        {
            "scale": (("chain", "draw"), kept["scale"].reshape(4, -1)),
            "effect": (("chain", "draw", "group"), kept["effect"].reshape(4, -1, GROUPS)),
        }
    )
    with pytest.warns(pymc_arm.TrustWarning):
        found = pymc_arm.evidence(
            make_tree({"posterior": cut}, {}), groups(), random_seed=1, cores=1
        ).attrs
    assert found["verdict"] != "ok"


def test_other_models_have_no_field():
    with pm.Model() as model:
        pm.Gamma("rate", 2.0, 1.0, shape=20)
        pm.Normal("y", 0.0, 1.0, observed=0.0)
    assert find_field_path(compile_model(model)) is None
