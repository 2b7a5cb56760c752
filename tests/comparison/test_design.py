"""Design analyses against exact curves for the mean of normal data."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm.comparison import simulated

SIZES = [10, 40, 160]
THRESHOLD = 10.0


def null(n):
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=np.zeros(n))
    return model


def effect(n):
    with pm.Model() as model:
        delta = pm.Normal("delta", 0, 1)
        pm.Normal("y", delta, 1, observed=np.zeros(n))
    return model


MODELS = {"null": null, "effect": effect}


def exact_log_evidence(model):
    """Up to what both models have in common."""
    (rv,) = model.observed_RVs
    y = model.rvs_to_values[rv].data
    n, mean = len(y), y.mean()
    if not model.free_RVs:
        return 0.0
    return -0.5 * np.log(1 + n) + 0.5 * n**2 * mean**2 / (n + 1)


def exact_probabilities(n, truth):
    """Return the probabilities of strong and of misleading evidence."""
    scale = np.sqrt(1 / n + (truth == "effect"))

    def beyond(log_factor):
        """Return the probability that the effect has a log Bayes factor above a number."""
        square = 2 * (n + 1) / n**2 * (log_factor + 0.5 * np.log(1 + n))
        return 2 * stats.norm.sf(np.sqrt(max(square, 0.0)) / scale)

    above, below = beyond(np.log(THRESHOLD)), 1 - beyond(-np.log(THRESHOLD))
    return (above, below) if truth == "effect" else (below, above)


def run_exactly(model, **options):
    evidence = {"log_marginal_likelihood": exact_log_evidence(model)}
    return SimpleNamespace(
        attrs={
            **evidence,
            "log_marginal_likelihood_se": 0.0,
            "log_marginal_likelihood_df": 3,
            "verdict": "ok",
        }
    )


def test_curves_are_the_exact_ones(monkeypatch):
    """Each of twelve probabilities is within 4 standard errors (false alarms: 1e-3)."""
    monkeypatch.setattr(simulated, "sample", run_exactly)
    found = pymc_arm.design(
        MODELS, SIZES, simulations=400, threshold=THRESHOLD, random_seed=1, progressbar=False
    )
    made = found.table
    assert made["simulations"].tolist() == [200] * 6
    for _, row in made.iterrows():
        strong, misleading = exact_probabilities(row["n"], row["truth"])
        for name, exact in (("strong", strong), ("misleading", misleading)):
            error = np.sqrt(exact * (1 - exact) / 200)
            assert abs(row[name] - exact) <= 4 * error + 1e-12, (row["n"], row["truth"], name)
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            assert low <= row[name] + 1e-12
            assert row[name] <= high + 1e-12
    wanted = next(n for n in SIZES if exact_probabilities(n, "effect")[0] > 0.7)
    assert found.smallest_n(0.7, "effect") == wanted
    assert found.smallest_n(0.99, "effect") is None
    # With a mean of exactly zero, 10 for the null needs more than a hundred observations.
    assert found.smallest_n(0.5, "null") == 160


def test_it_runs_the_models(tmp_path):
    options = {"simulations": 2, "draws": 100, "chains": 2, "cores": 1, "progressbar": False}
    first = pymc_arm.design(MODELS, 10, checkpoint=tmp_path, random_seed=3, **options)
    again = pymc_arm.design(MODELS, 10, checkpoint=tmp_path, resume=True, **options)
    assert (tmp_path / "n-10" / "simulation-00001.json").exists()
    pd.testing.assert_frame_equal(first.factors, again.factors)
    assert first.factors["truth"].tolist() == ["null", "effect"]
    # What the null can win with ten observations is known: sqrt(11).
    assert first.factors["log_bayes_factor"][0] < 0.5 * np.log(11) + 0.01


def table(rows):
    return pd.DataFrame(rows, columns=["n", "truth", "log_bayes_factor"])


def test_words_and_html():
    rows = [(20, "a", 0.0), (20, "b", 3.0), (50, "a", 3.0), (50, "b", 3.0), (90, "b", -3.0)]
    found = pymc_arm.Design(table([*rows, (90, "a", 3.0)]), failed=2)
    assert found.smallest_n() is None
    assert found.smallest_n(truth="a") == 50
    text = str(found)
    assert "If a is true, n = 50 is enough for strong evidence" in text
    assert "If b is true, none of the sample sizes" in text
    assert "Misleading evidence is most probable with n = 90: 1.00" in text
    assert "2 simulations failed" in text
    assert "strong evidence" in found._repr_html_()
    with pytest.raises(ValueError, match="truth='c' is not one of the models"):
        found.smallest_n(truth="c")
    with pytest.raises(ValueError, match="probability=2 must be between"):
        found.smallest_n(2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({"null": null}, [10]), ValueError, "give two or more"),
        (({"null": null(3), "effect": effect}, [10]), ValueError, "Which size of model 'null'"),
        (({"null": 3, "effect": effect}, [10]), TypeError, "give a model, or a function of the"),
        ((MODELS, []), ValueError, "n is empty"),
        ((MODELS, [2.5]), ValueError, "n=2.5 must be a whole number"),
        (({"null": null, "none": lambda n: n}, [10]), TypeError, "returned int, not a model"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        pymc_arm.design(*arguments)


def test_a_threshold_is_above_one():
    with pytest.raises(ValueError, match="threshold=1 must be"):
        pymc_arm.design(MODELS, [10], threshold=1)
