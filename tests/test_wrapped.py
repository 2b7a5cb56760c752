"""Models that another package builds on PyMC are taken as they are: Bambi's, and a stand-in."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_arm
from pymc_arm._compat import get_group

OPTIONS = {"draws": 200, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
DATA = np.array([0.3, -1.2, 0.8, 1.9])


class Backend:
    def __init__(self, scale):
        with pm.Model() as self.model:
            center = pm.Normal("center", 0.0, scale)
            pm.Normal("y", center, 1.0, observed=DATA)


class Wrapper:
    """What is asked of a Bambi model: ``build``, ``built`` and ``backend.model``."""

    def __init__(self, scale=1.0):
        self.scale, self.built, self.backend, self.builds = scale, False, None, 0

    def build(self):
        self.backend, self.built = Backend(self.scale), True
        self.builds += 1


def test_a_model_is_built_once_and_run_as_its_own():
    wrapper = Wrapper()
    plan = pymc_arm.plan(wrapper)
    result = pymc_arm.sample(wrapper, **OPTIONS)
    inside = pymc_arm.sample(wrapper.backend.model, **OPTIONS)
    assert wrapper.builds == 1
    assert str(plan) == str(pymc_arm.plan(wrapper.backend.model))
    assert result.attrs["log_marginal_likelihood"] == inside.attrs["log_marginal_likelihood"]
    assert list(get_group(result, "posterior").data_vars) == ["center"]


def test_comparisons_take_wrappers():
    wrappers = {"narrow": Wrapper(1.0), "wide": Wrapper(10.0)}
    table = pymc_arm.compare(wrappers, **OPTIONS)
    inside = {name: wrapper.backend.model for name, wrapper in wrappers.items()}
    columns = ["log_evidence", "probability"]
    pd.testing.assert_frame_equal(table[columns], pymc_arm.compare(inside, **OPTIONS)[columns])
    factor = pymc_arm.bayes_factor(*wrappers.values(), **OPTIONS)
    assert (factor.first, factor.second) == ("first", "second")
    assert factor.log > 0
    path = pymc_arm.evidence_path(Wrapper(), **OPTIONS)
    assert path.labels == ("y[0]", "y[1]", "y[2]", "y[3]")


def test_a_report_takes_wrappers(tmp_path):
    page = pymc_arm.report({"one": Wrapper()}, tmp_path / "report.html", **OPTIONS).read_text()
    assert "center ~ Normal(0, 1)" in page
    assert "log Z by observation" in page


def test_different_data_are_noticed(monkeypatch):
    changed = Wrapper()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "DATA", DATA + 1.0)
        changed.build()
    with pytest.warns(pymc_arm.DataWarning, match="different observed data"):
        pymc_arm.compare({"a": Wrapper(), "b": changed}, **OPTIONS)


def test_a_warning_where_centering_can_not_be_undone():
    wrapper = Wrapper()
    wrapper.center_predictors = True
    with pytest.warns(pymc_arm.ArmWarning, match="Wrapper centres predictors"):
        pymc_arm.sample(wrapper, **OPTIONS)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    groups = pd.Categorical(np.repeat(list("abcd"), 4))
    table = pd.DataFrame({"x": rng.normal(5.0, 1.0, size=16), "group": groups})
    table["y"] = 2.0 + 0.6 * table["x"] + rng.normal(0.0, 0.2, size=16)
    return table


def test_bambi_from_formula_to_bayes_factor(data):
    bambi = pytest.importorskip("bambi", reason="bambi is not installed")
    models = [bambi.Model(formula, data) for formula in ("y ~ x", "y ~ 1")]
    factor = pymc_arm.bayes_factor(*models, **OPTIONS)
    assert (factor.first, factor.second) == ("y ~ x", "y ~ 1")
    # Four chains of 1000 draws give 2.667 with an error of 0.0005.
    assert factor.log == pytest.approx(2.667, abs=0.1)
    assert pymc_arm.plan(models[0]).steps


# Few draws are enough to see what they are called and where they are.
@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_bambi_gets_draws_as_it_gives_them(data):
    """Its intercept is that of predictors as they are in the data, about two and not five."""
    bambi = pytest.importorskip("bambi", reason="bambi is not installed")
    model = bambi.Model("y ~ x + (1|group)", data)
    few = {**OPTIONS, "draws": 50, "start": "reference"}
    result = pymc_arm.sample(model, **few)
    posterior = get_group(result, "posterior")
    assert set(posterior.data_vars) == {"Intercept", "x", "sigma", "1|group", "1|group_sigma"}
    assert posterior["1|group"].dims == ("chain", "draw", "group__factor_dim")
    assert posterior["group__factor_dim"].values.tolist() == list("abcd")
    inside = pymc_arm.sample(model.backend.model, **few)
    names = ("log_marginal_likelihood", "log_marginal_likelihood_se", "verdict")
    assert [result.attrs[name] for name in names] == [inside.attrs[name] for name in names]
    centered = get_group(inside, "posterior")
    expected = centered["Intercept"] - data["x"].mean() * centered["x"]
    np.testing.assert_allclose(posterior["Intercept"], expected)
    # Its predictions are those of the draws: of a point of the data, its mean.
    predicted = model.predict(result, data=data.head(1), inplace=False)
    mean = get_group(predicted, "posterior")["mu"].values[..., 0]
    np.testing.assert_allclose(mean, centered["mu"].values[..., 0], rtol=1e-5)


def test_bambi_draws_are_refused_where_those_of_the_model_inside_are_meant(data):
    bambi = pytest.importorskip("bambi", reason="bambi is not installed")
    model = bambi.Model("y ~ x", data)
    with pytest.raises(ValueError, match=r"pymc_arm.sample\(model.backend.model\)"):
        pymc_arm.sensitivity(pymc_arm.sample(model, **OPTIONS), model, {"x": 2.0})
    inside = pymc_arm.sample(model.backend.model, **OPTIONS)
    assert len(pymc_arm.sensitivity(inside, model, {"x": 2.0})) == 1
