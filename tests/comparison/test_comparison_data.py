"""Models that are compared must have the same data."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm._compat import make_tree
from pymc_arm.comparison.data import warn_of_different_data
from pymc_arm.results import Evidence

DATA = np.array([0.5, -1.0, 2.0, 0.25])


def normal(*observed):
    with pm.Model() as model:
        mean = pm.Normal("mean")
        for place, values in enumerate(observed):
            pm.Normal(f"y{place}", mean, 1.0, observed=values)
    return model


def potential():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Potential("likelihood", pm.logp(pm.Normal.dist(mean, 1.0), DATA).sum())
    return model


def with_data():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=pm.Data("data", DATA))
    return model


@pytest.mark.parametrize(
    "other",
    [
        normal(DATA[:2], DATA[2:]),
        normal(DATA[::-1].astype("float32")),
        normal(DATA[:, None]),
        potential(),
        with_data(),
        Evidence(-1.0, 0.1, 3),
    ],
    ids=["split", "float32", "matrix", "potential", "pm.Data", "evidence"],
)
def test_the_same_data_written_in_another_way(other, recwarn):
    warn_of_different_data({"a": normal(DATA), "b": other})
    assert not recwarn


@pytest.mark.parametrize(
    "data", [DATA[:3], np.exp(DATA), np.append(DATA, 0.0)], ids=["fewer", "scale", "more"]
)
def test_other_data(data):
    with pytest.warns(pymc_arm.DataWarning, match=rf"'b' and 'a' have .* {len(data)} values and 4"):
        warn_of_different_data({"a": normal(DATA), "b": normal(data)})


def test_missing_values_are_no_data(recwarn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        model = normal(np.append(DATA, np.nan))
    warn_of_different_data({"a": normal(DATA), "b": model})
    assert not recwarn


def test_data_that_changed_between_two_runs():
    model = with_data()
    options = {"draws": 50, "chains": 2, "random_seed": 1, "progressbar": False}
    before = pymc_arm.sample(model, **options)
    pm.set_data({"data": DATA + 1.0}, model=model)
    with pytest.warns(pymc_arm.DataWarning, match="in the same unit"):
        pymc_arm.bayes_factor(before, pymc_arm.sample(model, **options))


def test_a_result_without_log_z_is_refused_before_models_run(monkeypatch):
    monkeypatch.setattr("pymc_arm.comparison.running.ModelCall.run", pytest.fail)
    with pytest.raises(ValueError, match="no log_marginal_likelihood"):
        pymc_arm.bayes_factor(make_tree({}, {}), normal(DATA))
