import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_arm
from pymc_arm._compat import get_group, has_group, load, make_tree
from pymc_arm.comparison.averaging import average_models, average_predictions

PREDICTIVE = "posterior_predictive"


def result(log_evidence, mean, chains=4, draws=100, name="x", predictive=False, width=3):
    """Return a result whose draws are around a mean."""
    rng = np.random.default_rng(int(10 * mean))
    shape = (chains, draws, width)
    dims = ("chain", "draw", f"{name}_dim_0")
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    values = mean + 0.01 * rng.normal(size=shape)
    groups = {"posterior": xr.Dataset({name: (dims, values), "own": (dims[:2], values[..., 0])})}
    if predictive:
        groups[PREDICTIVE] = xr.Dataset({"y": (dims[:2], values[..., 0])})
    groups = {key: dataset.assign_coords(coords) for key, dataset in groups.items()}
    attributes = {
        "log_marginal_likelihood": log_evidence,
        "log_marginal_likelihood_se": 0.0,
        "log_marginal_likelihood_df": 3.0,
    }
    return make_tree(groups, attributes)


def test_shares_are_the_model_probabilities():
    models = {"a": result(np.log(0.75), 0.0), "b": result(np.log(0.25), 5.0)}
    pooled = average_models(models, random_seed=1)
    draws = get_group(pooled, "posterior")
    assert draws["x"].shape == (1, 400, 3)
    assert (draws["model"] == "a").sum() == 300
    # Each draw is from the model that it says.
    assert np.allclose(
        draws["x"].mean("x_dim_0").values[0], 5.0 * (draws["model"] == "b"), atol=0.1
    )
    assert pooled.attrs["models"] == ["a", "b"]
    assert pooled.attrs["probabilities"] == pytest.approx([0.75, 0.25])


def test_prior_odds_count():
    models = {"a": result(0.0, 0.0), "b": result(0.0, 5.0)}
    draws = get_group(average_models(models, {"a": 3.0, "b": 1.0}, random_seed=1), "posterior")
    assert (draws["model"] == "a").sum() == 300


def test_rounding_has_no_bias():
    """False alarms: 4 standard deviations of 200 binomials."""
    models = {"a": result(np.log(0.1), 0.0), "b": result(np.log(0.9), 5.0)}
    counts = [
        int(
            (
                get_group(average_models(models, draws=5, random_seed=k), "posterior")["model"]
                == "a"
            ).sum()
        )
        for k in range(200)
    ]
    assert set(counts) == {0, 1}
    assert abs(np.mean(counts) - 0.5) < 4 * 0.5 / np.sqrt(200)


def test_more_draws_than_a_model_has():
    models = {"a": result(0.0, 0.0, draws=10), "b": result(-50.0, 5.0)}
    draws = get_group(average_models(models, draws=100, random_seed=1), "posterior")
    assert draws.sizes["draw"] == 100
    assert (draws["model"] == "a").all()


def test_predictions_go_with_their_parameters():
    models = {k: result(0.0, m, predictive=True) for k, m in {"a": 0.0, "b": 5.0}.items()}
    pooled = average_models(models, random_seed=1)
    parameter = get_group(pooled, "posterior")["own"].values
    assert np.array_equal(parameter, get_group(pooled, PREDICTIVE)["y"].values)


def test_only_what_all_models_have_is_pooled():
    models = {"a": result(0.0, 0.0), "b": result(0.0, 1.0, name="z"), "c": result(0.0, 1.0)}
    assert list(get_group(average_models(models, random_seed=1), "posterior").data_vars) == ["own"]
    models = {"a": result(0.0, 0.0, predictive=True), "b": result(0.0, 1.0)}
    assert not has_group(average_models(models, random_seed=1), PREDICTIVE)
    models = {"a": result(0.0, 0.0), "b": result(0.0, 1.0, width=2)}
    assert list(get_group(average_models(models, random_seed=1), "posterior").data_vars) == ["own"]


def test_errors_say_what_is_missing():
    first, second = result(0.0, 0.0), result(0.0, 1.0, name="z")
    second = make_tree(
        {"posterior": get_group(second, "posterior").drop_vars("own")}, dict(second.attrs)
    )
    with pytest.raises(ValueError, match="No variable of 'posterior' is in all models"):
        average_models({"a": first, "b": second})
    with pytest.raises(ValueError, match="draws=0"):
        average_models({"a": first}, draws=0)
    empty = make_tree({"observed_data": xr.Dataset()}, dict(first.attrs))
    with pytest.raises(ValueError, match=r"\['b'\] have no group 'posterior'"):
        average_models({"a": first, "b": empty})


def test_same_seed_same_draws_and_a_file(tmp_path):
    models = {"a": result(0.0, 0.0), "b": result(0.0, 5.0)}
    one, two = (average_models(models, random_seed=3) for _ in range(2))
    assert get_group(one, "posterior").equals(get_group(two, "posterior"))
    one.to_netcdf(str(tmp_path / "pooled.nc"))
    back = get_group(load(str(tmp_path / "pooled.nc")), "posterior")
    assert np.array_equal(back["model"].values.astype(str), get_group(one, "posterior")["model"])


def line(slope, rows=12):
    """A line through the origin, or none: noise of one, so that all is known exactly."""
    x = np.linspace(-1, 1, rows)
    with pm.Model(coords={"row": range(rows)}) as model:
        data = pm.Data("x", x, dims="row")
        # Data above a parameter that do not change are no reason to draw it anew.
        b = pm.Normal("b", 0, pm.Data("scale", 1.0)) if slope else 0.0
        pm.Deterministic("mean", b * data, dims="row")
        pm.Normal("y", b * data, 1.0, observed=0.5 * x + LINE_NOISE[:rows], dims="row")
    return model


LINE_NOISE = np.random.default_rng(4).normal(size=12)


@pytest.fixture(scope="module")
def lines():
    models = {"line": line(True), "flat": line(False)}
    options = {"draws": 1000, "random_seed": 1, "progressbar": False, "cores": 1}
    return models, {name: pymc_arm.sample(model, **options) for name, model in models.items()}


def test_predictions_at_new_inputs_are_the_exact_mixture(lines):
    """Means and second moments within 4 standard errors (false alarms: 3e-4)."""
    models, results = lines
    new = np.array([2.0, -3.0])
    found = average_predictions(
        models, results, {"x": new}, coords={"row": [0, 1]}, draws=4000, random_seed=1
    )
    draws = get_group(found, "predictions")["y"].values[0]
    x = np.linspace(-1, 1, 12)
    y = 0.5 * x + LINE_NOISE
    precision, total = 1 + x @ x, x @ y
    log_factor = 0.5 * total**2 / precision - 0.5 * np.log(precision)
    share = 1 / (1 + np.exp(-log_factor))
    mean = share * new * total / precision
    square = 1 + share * new**2 * (1 / precision + (total / precision) ** 2)
    for power, exact in ((1, mean), (2, square)):
        values = draws**power
        error = values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - exact) < 4 * error).all()
    assert found.attrs["probabilities"] == pytest.approx([share, 1 - share], abs=0.01)
    # Models have the data that they had.
    assert models["line"]["x"].get_value().shape == (12,)
    assert len(models["line"].coords["row"]) == 12


def test_predictions_without_new_data_and_by_seed(lines):
    models, results = lines
    one, two = (average_predictions(models, results, random_seed=3, draws=20) for _ in range(2))
    assert get_group(one, "predictions")["y"].shape == (1, 20, 12)
    assert get_group(one, "predictions").equals(get_group(two, "predictions"))


def test_wrong_predictions_are_refused(lines):
    models, results = lines
    with pytest.raises(ValueError, match=r"No model has the pm.Data 'z'; there are"):
        average_predictions(models, results, {"z": [1.0]})
    with pytest.raises(ValueError, match="models has"):
        average_predictions({"line": models["line"]}, results)
    with pm.Model() as fixed:
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(12))
    others = {"line": models["line"], "flat": fixed}
    with pytest.raises(ValueError, match="No variable of 'predictions' is in all models"):
        average_predictions(others, results, {"x": [1.0]}, coords={"row": [0]})
