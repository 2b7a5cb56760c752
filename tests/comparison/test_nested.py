"""Nested models: two ways to their Bayes factor, in tables and on pages."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import BayesFactor
from pymc_arm.comparison.nested import Agreement, check_nested, nested_columns
from pymc_arm.comparison.savage_dickey import SavageDickey
from pymc_arm.results import Evidence

DATA = np.array([0.9, 0.1, 1.4, -0.3, 1.1, 0.8])
OPTIONS = {"draws": 250, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
NESTED = {"null": ("effect", {"delta": 0.0})}


@cache
def null(scale=2.0):
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", scale)
        pm.Normal("y", 0.0, sigma, observed=DATA)
    return model


@cache
def effect():
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2.0)
        delta = pm.Normal("delta", 0.0, 1.0)
        pm.Normal("y", delta * sigma, sigma, observed=DATA)
    return model


@pytest.fixture(scope="module")
def models():
    return {"null": null(), "effect": effect()}


def test_the_table_has_a_row_that_says_whether_they_agree(models):
    table = pymc_arm.compare(models, nested=NESTED, **OPTIONS)
    row = table.loc["null"]
    assert row["nested_in"] == "effect"
    assert row["agreement"] == "agrees"
    by_log_z = row["log_evidence"] - table["log_evidence"]["effect"]
    error = np.hypot(row["savage_dickey_se"], np.hypot(*table["standard_error"]))
    assert abs(row["savage_dickey"] - by_log_z) < 4 * error
    assert table["agreement"]["effect"] == ""
    shown = table._repr_html_()
    assert "Savage-Dickey" in shown
    assert "against effect" in shown


def test_the_page_has_it_too(models, tmp_path):
    file = pymc_arm.report(
        models, tmp_path / "report.html", observations=False, nested=NESTED, **OPTIONS
    )
    page = file.read_text(encoding="utf-8")
    assert "Does another method agree?" in page
    assert "agrees" in page
    assert "does not agree" not in page


def test_an_error_of_log_z_is_seen(models):
    result = pymc_arm.sample(models["effect"], **OPTIONS)
    right = pymc_arm.sample(models["null"], **OPTIONS).attrs
    log_z = float(right["log_marginal_likelihood"])
    wrong = {"effect": result, "null": Evidence(log_z + 0.2, 0.005, 10)}
    found = check_nested(models, wrong, NESTED)["null"]
    assert found.agrees is False
    assert "null against effect: Savage-Dickey gives" in str(found)
    assert nested_columns({"null": found}, ["effect", "null"])["agreement"] == [
        "",
        "does not agree",
    ]


def test_an_unknown_error_tells_nothing():
    unsure = Agreement(BayesFactor(0.0, np.inf, 1), SavageDickey(0.0, 0.1, 10))
    assert unsure.word == "unknown"
    poor = Agreement(BayesFactor(0.0, 0.1, 3), SavageDickey(0.0, 0.1, 10, effective_draws=2.0))
    assert poor.agrees is None


def test_models_that_were_left_out_are_skipped(models):
    assert check_nested(models, {"effect": None, "null": Evidence(0.0, 0.1, 3)}, NESTED) == {}


@pytest.mark.parametrize(
    ("nested", "error", "words"),
    [
        ({"null": {"delta": 0.0}}, TypeError, "must be the name of the larger model"),
        ({"nobody": ("effect", {"delta": 0.0})}, ValueError, "nested names 'nobody'"),
        ({"null": ("nobody", {"delta": 0.0})}, ValueError, "nested names 'nobody'"),
        ({"null": ("effect", {"delta": 1.0})}, ValueError, "'null' is not 'effect' with"),
        ({"null": ("effect", {"sigma": 1.0})}, ValueError, "free variables"),
        ({"null": ("effect", {"beta": 0.0})}, ValueError, r"fixes \['beta'\]; 'effect' has"),
        ({"wider": ("effect", {"delta": 0.0})}, ValueError, "log densities"),
    ],
)
def test_what_is_not_nested_is_refused_before_anything_runs(models, nested, error, words):
    with pytest.raises(error, match=words):
        pymc_arm.compare({**models, "wider": null(3.0)}, nested=nested)


def test_a_larger_model_without_its_model_is_refused():
    given = {"null": null(), "effect": Evidence(0.0, 0.1, 3)}
    with pytest.raises(TypeError, match="there is only its result"):
        pymc_arm.compare(given, nested=NESTED)
