"""The frame of the comparison with other libraries; none of them is needed."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import ordered
from scipy import stats
from scipy.special import gammaln

from benchmarks.peers import PEER_MODELS
from benchmarks.peers.bridge import warp3_bridge
from benchmarks.peers.cube import compile_prior_transform
from benchmarks.peers.target import Target
from benchmarks.records import read_records
from benchmarks.suite import PROBLEMS
from benchmarks.suite.regression import data_tables
from benchmarks.suite_plot import draw
from benchmarks.suite_run import SMALLEST_ERROR, Call, efficiency, write_calls
from benchmarks.workers import OURS, Worker
from pymc_arm.models.prior import INTERPRETED

CALLS = [
    Call("coin", OURS, 0, 3.0, -1.0, -1.01, 0.01, "ok"),
    Call("coin", OURS, 1, 0.5, -1.0, -0.99, 0.01, "ok"),
    Call("coin", OURS, 2, 0.7, -1.0, -1.02, 0.01, "ok"),
    Call("coin", "slow", 0, 9.0, -1.0, failure="more than 9 s"),
    Call("coin", "wrong", 0, 1.0, -1.0, -2.0),
    Call("coin", "wrong", 1, 1.0, -1.0, -0.9),
]


def test_calls_survive_a_file(tmp_path):
    file = tmp_path / "results" / "calls.csv"
    write_calls(file, CALLS[:2])
    write_calls(file, CALLS[2:])
    found = read_records(Call, file)
    assert [repr(call) for call in found] == [repr(call) for call in CALLS]


def test_efficiency():
    ours = CALLS[:3]
    assert efficiency(ours) == pytest.approx(np.mean([1e-4, 1e-4, 4e-4]) * 0.6)
    exact = [replace(call, log_evidence=call.truth) for call in ours]
    assert efficiency(exact) == pytest.approx(SMALLEST_ERROR**2 * 0.6)
    assert efficiency(exact, smallest=1e-3) == pytest.approx(1e-6 * 0.6)
    assert efficiency(CALLS[3:4]) == np.inf
    assert efficiency([*ours, replace(ours[0], failure="late")]) == np.inf


def test_picture_shows_every_method():
    figure = draw(CALLS)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [OURS, "slow", "wrong"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["coin"]


def test_worker_stops_what_takes_too_long():
    worker = Worker("sample_smc", 100)
    try:
        answer = worker.call("beta_binomial_coin", 0, time_limit=0.01)
    finally:
        worker.stop()
    assert answer.failure == "more than 0 s"
    assert np.isnan(answer.result)


def test_bridge_is_exact_for_gaussians():
    """The warped posterior is the proposal but for the error of the fit, which is second order."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    normal = stats.multivariate_normal(np.arange(4.0), root @ root.T + np.eye(4))
    draws = normal.rvs((4, 1000), rng)
    found = warp3_bridge(draws, lambda x: normal.logpdf(x) - 123.0, rng)
    assert found == pytest.approx(-123.0, abs=0.005)


@pytest.mark.statistical
def test_bridge_of_a_skewed_density():
    """Log-gamma variables, whose Z is known; false alarms: 1e-4 (t, 29 degrees of freedom)."""
    shapes = np.array([0.7, 2.0, 5.0])
    rng = np.random.default_rng(2)

    def log_density(x):
        return (shapes * x - np.exp(x)).sum(axis=-1)

    errors = [
        warp3_bridge(np.log(rng.gamma(shapes, size=(2, 400, 3))), log_density, rng)
        - gammaln(shapes).sum()
        for _ in range(30)
    ]
    assert np.std(errors) < 0.05
    assert abs(np.mean(errors)) < 4.5 * np.std(errors, ddof=1) / np.sqrt(len(errors))


def test_bridge_knows_one_dimension_and_dependent_draws():
    rng = np.random.default_rng(3)
    draws = rng.normal(3.0, 2.0, size=(4, 500, 1))
    found = warp3_bridge(draws, lambda x: stats.norm.logpdf(x[:, 0], 3.0, 2.0), rng, 250.0)
    assert found == pytest.approx(0.0, abs=0.005)


def hierarchical() -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        rate = pm.Gamma("rate", 3.0, 0.5)
        effect = pm.Normal("effect", rate, scale, shape=2)
        pm.Normal("data", effect.sum(), 1.0, observed=1.0)
    return model


@pytest.mark.parametrize("batched", [False, True])
def test_prior_transform_is_the_quantile_given_the_parents(batched):
    cube = np.array([[0.3, 0.9, 0.2, 0.7], [0.01, 0.5, 0.5, 0.999]])
    transform = compile_prior_transform(Target(hierarchical()), batched)
    found = transform(cube) if batched else np.array([transform(row) for row in cube])
    scale = stats.halfnorm.ppf(cube[:, 0], scale=2.0)
    rate = stats.gamma.ppf(cube[:, 1], 3.0, scale=2.0)
    effect = stats.norm.ppf(cube[:, 2:], rate[:, None], scale[:, None])
    expected = np.column_stack([np.log(scale), np.log(rate), effect])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_prior_transform_of_a_multivariate_normal():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    with pm.Model() as model:
        x = pm.MvNormal("x", [1.0, -1.0], covariance)
        pm.Potential("nothing", pm.math.sum(0.0 * x))
    cube = np.array([0.3, 0.8])
    found = compile_prior_transform(Target(model))(cube)
    expected = np.array([1.0, -1.0]) + np.linalg.cholesky(covariance) @ stats.norm.ppf(cube)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_target_is_the_model_with_normalised_priors():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.Normal("data", x, 1.0, observed=[0.2, 0.1, 1.0])
    target = Target(model)
    points = target.draw(np.random.default_rng(4), 3)
    sums = pt.stack([target.log_joint, target.log_prior + target.terms.sum()])
    reference = model.compile_logp(mode=INTERPRETED)
    name = model.value_vars[0].name
    expected = np.array([reference({name: point}) for point in points]) + np.log(6.0)
    found = target.compile_batched(sums)(points)
    np.testing.assert_allclose(found, np.column_stack([expected, expected]))


def test_what_peers_cannot_do_is_said():
    with pytest.raises(NotImplementedError, match="label: discrete"):
        Target(PROBLEMS["mixture_labels"].build())
    with pytest.raises(NotImplementedError, match="heading: PyMC has no icdf of VonMises"):
        compile_prior_transform(Target(PROBLEMS["von_mises"].build()))
    with pytest.raises(NotImplementedError, match="no prior transform for ZeroSumNormal"):
        compile_prior_transform(Target(PROBLEMS["zero_sum_normal"].build()))


def test_models_of_the_comparison_are_in_the_suite():
    # One of them has data that are not part of the project.
    absent = {"pine_density"} if data_tables() is None else set()
    assert set(PEER_MODELS) - absent <= set(PROBLEMS)
