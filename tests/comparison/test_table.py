"""Tables of models: order, probabilities and their intervals, and what is run for them."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import pymc_arm
from pymc_arm.comparison.table import compare, model_probabilities
from pymc_arm.results import Evidence
from pymc_arm.testing import GaussianChain
from tests.comparison.exact_models import beta_binomial, location, regression

OPTIONS = {"draws": 200, "chains": 4, "progressbar": False}


def test_table_is_sorted_and_consistent():
    table = compare(
        {
            "worst": Evidence(-110.0, 0.1, 3),
            "best": Evidence(-100.0, 0.1, 3),
            "close": Evidence(-100.1, 0.1, 3),
        }
    )
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == ["best", "close", "worst"]
    assert table["log_bayes_factor"].tolist() == pytest.approx([0.0, -0.1, -10.0])
    assert table["log_bayes_factor_se"].tolist() == pytest.approx([0.0, 0.02**0.5, 0.02**0.5])
    assert table["settled"].tolist() == [False, True, True]
    assert table["probability"].sum() == pytest.approx(1)
    assert (table["probability_low"] <= table["probability"]).all()
    assert (table["probability"] <= table["probability_high"]).all()
    assert table["probability_low"].iloc[0] < 0.5 < table["probability_high"].iloc[0]
    assert table["verdict"].tolist() == ["", "", ""]


def test_no_column_is_left_out_where_names_are_long():
    """Formulas are names; pandas would show log Z and the verdict alone."""
    names = [f"outcome ~ dose + sex + age + (1|hospital) {number}" for number in range(100)]
    table = compare({name: Evidence(-100.0 - place, 0.1, 3) for place, name in enumerate(names)})
    shown = str(table)
    for column in ("log Z", "log Bayes factor", "probability", "verdict"):
        assert column in shown
    assert "-1.00 ± 0.14" in shown
    assert len(shown.splitlines()) < 20  # of many models the first and the last, as by pandas


def test_probability_intervals_follow_from_two_models():
    """For two models the interval is that of their t-distributed difference, to Monte Carlo."""
    evidences = {"a": Evidence(-1.0, 0.3, 5), "b": Evidence(-1.5, 0.0, 5)}
    _, low, high = model_probabilities(evidences)["a"]
    quantile = stats.t.ppf(0.975, 5) * 0.3
    assert low == pytest.approx(special.expit(0.5 - quantile), abs=0.01)
    assert high == pytest.approx(special.expit(0.5 + quantile), abs=0.01)


def test_prior_odds_by_name_and_by_place():
    models = {"a": Evidence(-1.0, 0.0, 3), "b": Evidence(-1.0, 0.0, 3)}
    for odds in ({"b": 1.0, "a": 3.0}, [3.0, 1.0]):
        assert compare(models, odds).loc["a", "probability"] == pytest.approx(0.75)
    with pytest.raises(ValueError, match="prior_odds names"):
        compare(models, {"a": 1.0})
    with pytest.raises(ValueError, match="prior_odds has 1"):
        compare(models, [1.0])
    with pytest.raises(ValueError, match=r"prior_odds\['a'\]=0"):
        compare(models, {"a": 0.0, "b": 1.0})


def test_models_run_and_results_are_kept():
    model, exact = beta_binomial(1.0)
    result = pymc_arm.sample(beta_binomial(30.0)[0], random_seed=2, **OPTIONS)
    table = compare({"run": model, "done": result}, random_seed=1, **OPTIONS)
    assert table.loc["run", "log_evidence"] == pytest.approx(exact, abs=0.1)
    assert table.loc["done", "log_evidence"] == result.attrs["log_marginal_likelihood"]
    assert (table["seconds"] > 0).all()
    again = compare({"run": model, "done": result}, random_seed=1, **OPTIONS)
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), again.drop(columns="seconds"))


def test_the_log_says_which_model_runs(caplog):
    with caplog.at_level("INFO", logger="pymc"):
        models = {"a": beta_binomial(1.0)[0], "b": beta_binomial(3.0)[0]}
        compare(models, random_seed=1, **OPTIONS)
    said = [record.getMessage() for record in caplog.records]
    assert said[::2] == ["Model 1 of 2: a", "Model 2 of 2: b"]


def test_one_seed_gives_each_model_its_own_stream():
    model, _ = regression(2)
    table = compare({"a": model, "b": model}, random_seed=1, **OPTIONS)
    assert table["log_evidence"].iloc[0] != table["log_evidence"].iloc[1]


def test_target_se_adds_chains():
    model, _ = regression(2)
    options = {**OPTIONS, "draws": 20}
    first = compare({"a": model}, random_seed=1, **options)["standard_error"].iloc[0]
    target = first / 1.5
    table = compare({"a": model}, random_seed=1, target_se=target, **options)
    assert table["standard_error"].iloc[0] <= target


def test_each_model_has_its_own_checkpoint(tmp_path):
    models = {"a": location(False)[0], "b/c": location(False)[0]}
    options = {**OPTIONS, "draws": 20, "random_seed": 1, "checkpoint": tmp_path}
    first = compare(models, **options)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["0-a", "1-b_c"]
    again = compare(models, resume=True, **options)
    assert again["log_evidence"].tolist() == first["log_evidence"].tolist()


def test_verdict_is_read_from_a_result():
    result = pymc_arm.sample_path(GaussianChain([0.1, 0.2]), draws=20, progressbar=False)
    result.attrs["verdict"] = "good"
    assert compare({"a": result})["verdict"].tolist() == ["good"]


def test_zero_evidence():
    nothing = Evidence(-math.inf, math.inf, 1)
    table = compare({"a": Evidence(-1.0, 0.1, 3), "b": nothing})
    assert table["probability"].tolist() == [1.0, 0.0]
    assert table["probability_low"].tolist() == [0.0, 0.0]
    assert table["settled"].tolist() == [False, True]
    with pytest.raises(ValueError, match="No model has positive"):
        compare({"a": nothing, "b": nothing})


def test_errors_name_the_argument():
    one = Evidence(0.0, 0.0, 3)
    with pytest.raises(ValueError, match="models is empty"):
        compare({})
    with pytest.raises(TypeError, match="draws"):
        compare({"a": one}, draws=10)
    with pytest.raises(ValueError, match="target_se=0"):
        compare({"a": location(True)[0]}, target_se=0)


def test_probabilities_with_an_exact_log_evidence():
    exact = Evidence(-1.0, 0.0, math.inf)
    table = compare({"a": exact, "b": Evidence(-1.0, 0.1, math.inf)})
    assert table["probability"].tolist() == pytest.approx([0.5, 0.5])
    assert np.all(np.isfinite(table[["probability_low", "probability_high"]]))
