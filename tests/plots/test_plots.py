import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import plots
from pymc_arm._compat import make_tree
from pymc_arm.comparison import compare
from pymc_arm.comparison.evidence_path import EvidencePath
from pymc_arm.plots.run import MOST_HARD_LABELS
from pymc_arm.results import Evidence, summarize
from pymc_arm.testing import GaussianChain, TiltedNormals

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

OPTIONS = {"draws": 30, "chains": 3, "random_seed": 1, "progressbar": False}
MODELS = {
    "a": Evidence(-10.0, 0.1, 3),
    "b": Evidence(-12.0, 0.2, 3),
    "unknown": Evidence(-12.5, np.inf, 1),
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def few():
    return pymc_arm.sample_path(GaussianChain([0.5, -1.0, 2.0, 0.1]), **OPTIONS)


@pytest.fixture(scope="module")
def many():
    tilts = np.full(3000, 0.1)
    tilts[[500, 2000]] = 2.5
    with warnings.catch_warnings():
        # Two hard steps that the run can't take well are what is to be seen.
        warnings.simplefilter("ignore", pymc_arm.TrustWarning)
        return pymc_arm.sample_path(TiltedNormals(tilts.tolist()), **OPTIONS)


def texts(axis):
    return [text.get_text() for text in axis.texts]


def draw(axis):
    """Draw for real: a layout that does not fit warns, and a warning is an error."""
    axis.figure.canvas.draw()


def test_run_with_few_steps_names_them(few):
    axes = plots.plot_run(few)
    draw(axes[0])
    assert len(axes) == 4
    assert [label.get_text() for label in axes[3].get_xticklabels()] == ["x[2]", "x[3]", "x[4]"]
    assert len(axes[1].lines) == 3
    assert "3 chains" in axes[0].get_title(loc="left")


def test_run_with_many_steps_is_a_band(many):
    axes = plots.plot_run(many)
    draw(axes[0])
    assert axes[3].get_xlabel() == "step"
    assert len(axes[1].lines) == 0
    assert len(axes[1].patches) == 2
    # The hard steps are named by their variable, and no more than asked for.
    assert {"x[502]", "x[2002]"} <= set(texts(axes[0]))
    assert len(texts(axes[0])) <= MOST_HARD_LABELS


def test_hard_steps_can_be_left_out(many):
    assert texts(plots.plot_run(many, hard_steps=0)[0]) == []


# A few particles are enough for a picture, and honestly not enough for log Z.
@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_run_of_a_pymc_model_with_chains_of_different_length():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 10.0)
        scale = pm.HalfNormal("scale", 10.0)
        pm.Normal("y", mean, scale, observed=np.linspace(4, 5, 30))
    result = pymc_arm.sample(model, **OPTIONS)
    axes = plots.plot_run(result)
    draw(axes[0])
    steps = result["arm"]["particles"].notnull().sum("step").values
    lines = axes[1].lines[: len(steps)]
    assert [np.isfinite(line.get_ydata()).sum() for line in lines] == steps.tolist()


def test_one_step_and_one_chain():
    result = pymc_arm.sample_path(GaussianChain([0.5, 1.0]), **{**OPTIONS, "chains": 1})
    axes = plots.plot_run(result)
    draw(axes[0])
    assert len(axes[1].lines) == 1
    assert [label.get_text() for label in axes[3].get_xticklabels()] == ["x[2]"]
    axis = plots.plot_estimates(result)
    draw(axis)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0"]


def test_comparison_from_results_and_from_a_table():
    for models in (MODELS, compare(MODELS)):
        axis = plots.plot_comparison(models)
        draw(axis)
        assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b", "unknown"]
        assert texts(axis) == ["-10.00 ± 0.1", "-12.00 ± 0.2", "-12.50"]


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (3.0, "-176.27 ± 3"),
        (0.1, "-176.27 ± 0.1"),
        (0.0009, "-176.2701 ± 0.0009"),
        (0.00125, "-176.2701 ± 0.0013"),
        (1e-9, "-176.27013 ± 1e-09"),
        (np.inf, "-176.27"),
    ],
)
def test_labels_have_the_digits_that_the_error_allows(error, label):
    assert summarize(Evidence(-176.270125, error, 3)) == label


def test_comparison_with_zero_evidence():
    axis = plots.plot_comparison({"a": Evidence(-1.0, 0.1, 3), "b": Evidence(-np.inf, np.inf, 1)})
    draw(axis)
    assert "log Z is -inf" in texts(axis)


def test_model_probabilities():
    known = {name: MODELS[name] for name in ("a", "b")}
    axis = plots.plot_model_probabilities(known, prior_odds=[1.0, np.exp(2.0)])
    draw(axis)
    assert axis.patches[0].get_width() == pytest.approx(0.5)
    draw(plots.plot_model_probabilities(compare(MODELS)))
    with pytest.raises(TypeError, match="prior_odds"):
        plots.plot_model_probabilities(compare(MODELS), prior_odds=[1, 1, 1])


def path(scores, per_observation=True):
    scores = np.asarray(scores, dtype=float)
    errors = np.full(len(scores), 0.05)
    labels = tuple(f"y[{k}]" for k in range(len(scores)))
    return EvidencePath(labels, scores, errors, np.cumsum(scores), errors, per_observation, "note.")


@pytest.mark.parametrize("count", [3, 3000])
def test_evidence_path_of_models(count):
    rng = np.random.default_rng(1)
    first, second = rng.normal(-1, 0.2, count), rng.normal(-1, 0.2, count)
    second[count // 2] += 5
    axis = plots.plot_evidence_path({"a": path(first), "b": path(second)})
    draw(axis)
    assert "against\na" in axis.get_ylabel()
    running = axis.lines[-1].get_ydata()
    assert np.allclose(running, np.cumsum(second - first))
    assert texts(axis)[0].startswith(f"y[{count // 2}]: +")
    assert len(texts(axis)) <= 3


def test_evidence_path_of_one_result(few):
    axis = plots.plot_evidence_path(few)
    draw(axis)
    assert axis.get_xlabel() == "steps of the run"
    assert axis.get_legend() is None


def test_evidence_path_with_dates():
    axis = plots.plot_evidence_path({"a": path([1, 2]), "b": path([1, 9])}, x=[1850, 1851])
    assert texts(axis)[0] == "1851: +7.0"
    with pytest.raises(ValueError, match="x has 3 values for 2"):
        plots.plot_evidence_path(path([1, 2]), x=[1, 2, 3])
    with pytest.raises(ValueError, match="note"):
        plots.plot_evidence_path({"a": path([1.0], False), "b": path([1.0], False)})


def test_estimates_without_a_refine_stage():
    # As sample_path returns them, without estimates of any other stage.
    result = make_result({"log_marginal_likelihood": [-1.0, -1.1, -0.9]}, {})
    axis = plots.plot_estimates(result)
    draw(axis)
    assert axis.lines[0].get_ydata().tolist() == [-1.0, -1.1, -0.9]
    assert axis.get_legend() is None


def test_estimates_of_both_stages():
    stages = {"explore_log_marginal_likelihood": -1.0, "refine_log_marginal_likelihood": -1.05}
    errors = {f"{name}_se": 0.01 for name in stages}
    result = make_result(
        {
            "log_marginal_likelihood": [-1.05, -1.06, -1.04],
            "explore_log_marginal_likelihood": [-1.0, -1.1, -0.9],
            "refined_log_marginal_likelihood": [-1.05, -1.06, -1.04],
        },
        {**stages, **errors, "estimate": "refine"},
    )
    axis = plots.plot_estimates(result)
    draw(axis)
    legend = axis.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["exploring", "refined"]
    assert legend.get_title().get_text() == "the estimate: refined"


def make_result(columns, attributes):
    import xarray as xr

    statistics = xr.Dataset(
        {name: ("chain", column) for name, column in columns.items()}, coords={"chain": [0, 1, 2]}
    )
    attributes = {
        "log_marginal_likelihood": -1.0,
        "log_marginal_likelihood_se": 0.05,
        "log_marginal_likelihood_df": 2.0,
        **attributes,
    }
    return make_tree({"sample_stats": statistics}, attributes)


def test_axes_that_are_given_are_used(few):
    _, axes = plt.subplots(4)
    assert list(plots.plot_run(few, ax=axes)) == list(axes)
    _, axis = plt.subplots()
    assert plots.plot_comparison(MODELS, ax=axis) is axis
    assert plots.plot_model_probabilities(MODELS, ax=axis) is axis
    assert plots.plot_evidence_path(few, ax=axis) is axis
    assert plots.plot_estimates(few, ax=axis) is axis
    with pytest.raises(ValueError, match="ax has 1 axes"):
        plots.plot_run(few, ax=[axis])


def test_no_history_no_plot():
    with pytest.raises(ValueError, match="no group 'arm'"):
        plots.plot_run(make_tree({}, {}))


def test_sensitivity_marks_what_is_not_reliable():
    table = pd.DataFrame(
        {
            "variable": ["tau", "tau", "mu", "mu"],
            "scale": [0.5, 2.0, 0.5, 2.0],
            "log_evidence": [-3.0, -3.2, -3.1, -3.0],
            "standard_error": [0.1, np.inf, 0.1, 0.1],
            "reliable": [True, False, True, True],
        }
    )
    axis = plots.plot_sensitivity(table)
    draw(axis)
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == ["tau", "mu", "not reliable"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.5", "2"]
    with pytest.raises(ValueError, match="no column"):
        plots.plot_sensitivity(table.drop(columns="scale"))


def test_a_plan_is_drawn_with_its_edges():
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", 0, tau, shape=3)
        pm.Normal("y", theta, 1, observed=[0.1, 0.2, 0.3])
    axis = pymc_arm.plots.plot_plan(pymc_arm.plan(model))
    assert [label.get_text() for label in axis.get_yticklabels()] == ["tau", "theta", "y"]
    arrows = [text for text in axis.texts if text.arrow_patch is not None]
    assert len(arrows) == 2  # tau to theta, theta to y
    plt.close(axis.figure)


def test_a_plan_of_another_family_has_nothing_to_draw():
    with pytest.raises(TypeError, match="plan is of type str: give what"):
        pymc_arm.plots.plot_plan("family: gpc")


def test_a_run_without_steps_is_refused_in_words():
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=0.5)
    result = pymc_arm.sample(model, draws=20, chains=2, cores=1, random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="no steps: its model has no parameters"):
        plots.plot_run(result)
