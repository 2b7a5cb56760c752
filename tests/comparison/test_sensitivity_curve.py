"""Bayes factors over scales of a prior, against exact ones."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import optimize, stats

import pymc_arm
from pymc_arm.comparison.sensitivity_curve import scale_prior
from pymc_arm.results import Evidence

DATA = np.array([1.5, 1.0, 2.0])
SCALES = np.geomspace(0.05, 500, 9)
NULL = Evidence(float(stats.norm.logpdf(DATA).sum()), 0.0, np.inf)


def normal_model(center=0.0):
    with pm.Model() as model:
        mu = pm.Normal("mu", center, 1)
        pm.Normal("y", mu, 1, observed=DATA)
    return model


def exact(scale, center=0.0):
    covariance = np.eye(3) + scale**2
    found = stats.multivariate_normal(np.full(3, center), covariance).logpdf(DATA)
    return float(found - NULL.log_evidence)


def test_the_curve_is_the_exact_one_and_flips_where_it_does():
    """Each of nine values is within 4 of its standard errors (false alarms: 6e-4)."""
    curve = pymc_arm.sensitivity_curve(
        normal_model(), NULL, {"mu": SCALES}, draws=250, random_seed=1, progressbar=False
    )
    truth = np.array([exact(scale) for scale in SCALES])
    error = np.abs(curve.table["log_bayes_factor"] - truth)
    assert (error < 4 * curve.table["standard_error"] + 1e-9).all()
    assert error.max() < 0.15
    assert len(curve.runs) < len(SCALES)
    flip = optimize.brentq(exact, 2, 500)
    assert curve.flips == [pytest.approx(flip, rel=0.2)]
    assert "beyond a scale of" in str(curve)
    assert "by reweighting" not in str(curve)
    assert "factor on the scale" in curve._repr_html_()


@pytest.mark.parametrize("kind", ["normal", "uniform", "positive", "hierarchy"])
def test_a_scaled_prior_is_the_prior_that_is_written(kind):
    """The density of the scaled model is that of one with the prior written out."""

    def build(scale):
        with pm.Model() as model:
            if kind == "normal":
                x = pm.Normal("x", 2.0, 1.5 * scale)
            elif kind == "uniform":
                x = pm.Uniform("x", 1 - scale, 1 + scale)
            elif kind == "positive":
                x = pm.HalfNormal("x", scale)
            else:
                x = pm.Normal("x", pm.Normal("mean"), scale)
            pm.Normal("y", pm.Deterministic("twice", 2 * x), 1, observed=0.7)
        return model

    rng = np.random.default_rng(1)
    factor = 3.0
    scaled, written = scale_prior(build(1.0), "x", factor), build(factor)
    for _ in range(3):
        value = rng.uniform(0.2, 1.8)
        mean = rng.normal() if kind == "hierarchy" else 0.0
        center = {"normal": 2.0, "uniform": 1.0, "positive": 0.0, "hierarchy": mean}[kind]
        point = {"x": center + (value - center) / factor}
        there = {"x": value}
        logs = []
        for model, values in ((scaled, point), (written, there)):
            names = {rv.name: rv for rv in model.free_RVs}
            graph = [model.logp(jacobian=False)]
            inputs = {}
            for name, rv in names.items():
                raw = {"x": values["x"], "mean": mean}[name]
                transform = model.rvs_to_transforms.get(rv)
                value_var = model.rvs_to_values[rv]
                if transform is not None:
                    raw = transform.forward(pm.math.constant(raw), *rv.owner.inputs).eval(
                        mode="FAST_COMPILE"
                    )
                inputs[value_var] = np.asarray(raw, dtype=value_var.type.dtype)
            logs.append(float(graph[0].eval(inputs, mode="FAST_COMPILE")))
        assert logs[0] - np.log(factor) == pytest.approx(logs[1])


def test_conclusions_in_words():
    table = pd.DataFrame(
        {
            "scale": [0.5, 1.0],
            "log_bayes_factor": [2.0, 1.0],
            "standard_error": [0.1, 0.1],
            "degrees_of_freedom": [10.0, 10.0],
            "run_at": [1.0, 1.0],
        }
    )
    curve = pymc_arm.SensitivityCurve("mu", table, "effect", "null")
    assert "The data favour effect wherever" in str(curve)
    noisy = pymc_arm.SensitivityCurve("mu", table.assign(standard_error=9.0), "effect", "null")
    assert "not settled at any" in str(noisy)
    assert noisy.flips == []


@pytest.mark.parametrize(
    ("scales", "error", "message"),
    [
        ({"nu": [1]}, ValueError, r"'nu', which is not a free variable. Those are \['mu'\]"),
        ({"mu": [0.0, 1.0]}, ValueError, "must be positive factors"),
        ({"mu": "wide"}, ValueError, "must be positive factors"),
        ({}, TypeError, "must name one variable"),
    ],
)
def test_wrong_scales_are_refused(scales, error, message):
    with pytest.raises(error, match=message):
        pymc_arm.sensitivity_curve(normal_model(), NULL, scales)
