import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm.comparison.evidence_path import compile_in_data_order, evidence_path
from pymc_arm.testing import GaussianChain

DATA = np.array([0.4, 1.2, -0.3, 2.0, 0.9, 0.1])
OPTIONS = {"draws": 300, "chains": 4, "random_seed": 1, "progressbar": False}


def normal_mean(scale=2.0, data=DATA, name="y"):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, scale)
        pm.Normal(name, mean, 1.0, observed=data)
    return model


def exact_scores(data, scale=2.0):
    """Return the predictive log-densities of unit normals with a normal mean."""
    precision, total, scores = 1 / scale**2, 0.0, []
    for value in data:
        scores.append(stats.norm.logpdf(value, total / precision, np.sqrt(1 + 1 / precision)))
        precision, total = precision + 1, total + value
    return np.array(scores)


@pytest.mark.statistical
def test_scores_are_exact_predictive_densities():
    """False alarms: 6 scores beyond 9 standard errors with 3 degrees of freedom, 2 %, seeded."""
    path = evidence_path(normal_mean(), **OPTIONS)
    error = np.abs(path.log_scores - exact_scores(DATA))
    assert np.all(error < 9 * path.score_errors)
    assert np.all(error < 0.1)
    assert path.per_observation
    assert path.labels == tuple(f"y[{k}]" for k in range(6))
    assert path.log_evidence[-1] == pytest.approx(path.log_scores.sum())


@pytest.mark.statistical
def test_order_changes_the_scores_and_not_their_sum():
    order = [3, 0, 5, 2, 1, 4]
    path = evidence_path(normal_mean(), order_data=order, **OPTIONS)
    assert path.labels == tuple(f"y[{k}]" for k in order)
    assert np.allclose(path.log_scores, exact_scores(DATA[order]), atol=0.15)
    assert path.log_evidence[-1] == pytest.approx(exact_scores(DATA).sum(), abs=0.1)


def test_local_variables_come_with_their_observation():
    with pm.Model() as model:
        center = pm.Normal("center", 0.0, 1.0)
        theta = pm.Normal("theta", center, 1.0, shape=6)
        pm.Normal("y", theta, 1.0, observed=DATA)
    plan = compile_in_data_order(model, [5, 4, 3, 2, 1, 0]).plan
    labels = [step.label for step in plan.steps]
    assert labels == [f"theta[{k}] with y[{k}]" for k in (5, 4, 3, 2, 1, 0)]
    path = evidence_path(model, order_data=[5, 4, 3, 2, 1, 0], **OPTIONS)
    covariance = 2 * np.eye(6) + 1.0
    exact = stats.multivariate_normal.logpdf(DATA, np.zeros(6), covariance)
    assert path.log_evidence[-1] == pytest.approx(exact, abs=0.1)
    assert path.labels == tuple(f"y[{k}]" for k in (5, 4, 3, 2, 1, 0))


def test_several_observed_variables_and_a_potential():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        other = pm.Normal("other", 0.0, 1.0)
        pm.Potential("penalty", -0.5 * (mean - other) ** 2)
        pm.Normal("first", mean, 1.0, observed=DATA[:2])
        pm.Normal("second", other, 1.0, observed=DATA[2])
    path = evidence_path(model, **OPTIONS)
    assert path.labels == ("first[0]", "first[1]", "second")
    expected = pymc_arm.sample(model, **OPTIONS).attrs["log_marginal_likelihood"]
    assert path.log_evidence[-1] == pytest.approx(expected, abs=0.15)
    assert path.log_start + path.log_scores.sum() == pytest.approx(path.log_evidence[-1])
    assert path.log_start < -0.2  # E exp(-(mean - other)^2 / 2) is 1 / sqrt(6)


@pytest.mark.statistical
def test_running_bayes_factor():
    """The tolerance, 0.2, is more than 5 standard errors."""
    wide, narrow = (
        evidence_path(normal_mean(s, name=n), **OPTIONS) for s, n in ((5, "a"), (1, "b"))
    )
    table = wide.against(narrow)
    exact = exact_scores(DATA, 5.0) - exact_scores(DATA, 1.0)
    assert table.index.tolist() == list(wide.labels)
    assert np.allclose(table["contribution"], exact, atol=0.2)
    assert np.allclose(table["log_bayes_factor"], np.cumsum(exact), atol=0.2)
    assert table["standard_error"].iloc[-1] < 0.1


def test_steps_of_an_ordinary_result_are_called_steps():
    result = pymc_arm.sample(normal_mean(), **OPTIONS)
    path = evidence_path(result)
    assert not path.per_observation
    assert "not predictive scores" in path.note
    assert path.log_evidence[-1] == pytest.approx(
        result.attrs.get("explore_log_marginal_likelihood", result.attrs["log_marginal_likelihood"])
    )
    with pytest.raises(ValueError, match="only by observation"):
        path.against(path)


def test_result_whose_observations_came_one_by_one_has_their_scores():
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 1.0, shape=6)
        pm.Normal("y", theta, 1.0, observed=DATA)
    result = pymc_arm.sample(model, **OPTIONS)
    path = evidence_path(result)
    assert path.per_observation
    assert path.labels == tuple(f"y[{k}]" for k in range(6))
    # Each step is an exact integral: its score is the density of N(0, 2), up to the quadrature.
    assert np.allclose(path.log_scores, stats.norm.logpdf(DATA, 0, np.sqrt(2)), atol=1e-3)
    assert path.against(path)["contribution"].tolist() == [0.0] * 6


def test_pieces_of_a_step_are_one_step():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 10.0)
        scale = pm.HalfNormal("scale", 10.0)
        pm.Normal("y", mean, scale, observed=np.linspace(4, 5, 30))
    result = pymc_arm.sample(model, **OPTIONS)
    assert result["arm"].sizes["step"] > 2
    assert len(evidence_path(result).labels) <= 2


def test_table():
    path = evidence_path(pymc_arm.sample_path(GaussianChain(DATA), **OPTIONS))
    table = path.to_frame()
    assert table.index.tolist() == [f"x[{k}]" for k in range(2, 7)]
    assert table["log_evidence"].iloc[-1] == path.log_evidence[-1]
    assert table.index.name == "step"
    assert path.log_start == pytest.approx(GaussianChain(DATA[:1]).exact_log_evidence)


def test_one_chain_has_no_error():
    path = evidence_path(normal_mean(), **{**OPTIONS, "chains": 1})
    assert np.isnan(path.standard_errors).all()


def test_errors_name_the_argument():
    model = normal_mean()
    for order in ([0, 1], [0, 0, 1, 2, 3, 4], [0.5] * 6):
        with pytest.raises(ValueError, match="order_data must have each of the numbers 0 to 5"):
            evidence_path(model, order_data=order)
    result = pymc_arm.sample_path(GaussianChain([0.1, 0.2]), draws=20, progressbar=False)
    with pytest.raises(TypeError, match="order_data"):
        evidence_path(result, order_data=[0])
    first = evidence_path(model, **OPTIONS)
    second = evidence_path(model, order_data=[1, 0, 2, 3, 4, 5], **OPTIONS)
    with pytest.raises(ValueError, match="different observations or orders"):
        first.against(second)
