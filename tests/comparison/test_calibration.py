"""Calibration of posterior model probabilities, by exact log Z and by runs."""

import logging
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

import pymc_arm
from pymc_arm.comparison.prior_predictive import PriorPredictive
from pymc_arm.comparison.reliability import Calibration
from pymc_arm.comparison.simulated import Experiment, Simulation
from pymc_arm.results import Evidence

SIMULATIONS, TRIALS = 200, 200
TRUTH = np.arange(SIMULATIONS) % 2


def beta_binomial(rng):
    """A coin that is nearly fair against any coin, ten tosses; columns are log Z."""
    alpha = np.array([100.0, 1.0])
    p = rng.beta(alpha[TRUTH], alpha[TRUTH])
    heads = rng.binomial(10, p)[:, None]
    binomial = gammaln(11) - gammaln(heads + 1) - gammaln(11 - heads)
    return binomial + betaln(heads + alpha, 10 - heads + alpha) - betaln(alpha, alpha)


def normal_mean(rng):
    """A mean of zero against one with a normal prior; the mean of ten observations."""
    means = np.where(TRUTH == 1, rng.normal(size=SIMULATIONS), 0.0)
    found = rng.normal(means, np.sqrt(0.1))[:, None]
    return stats.norm.logpdf(found, 0, np.sqrt(0.1 + np.array([0.0, 1.0])))


def variance(rng):
    """A scale that is one against one with an inverse gamma prior; five observations."""
    scale = np.where(TRUTH == 1, 1 / np.sqrt(rng.gamma(2.0, 0.5, SIMULATIONS)), 1.0)
    y = rng.normal(size=(SIMULATIONS, 5)) * scale[:, None]
    simple = stats.norm.logpdf(y).sum(axis=1)
    free = stats.multivariate_t(np.zeros(5), np.eye(5), df=4).logpdf(y)
    return np.column_stack([simple, free])


def calibration(log_evidence):
    error = np.full(log_evidence.shape, 0.01)
    return Calibration(("a", "b"), np.array([0.5, 0.5]), TRUTH, log_evidence, error)


@pytest.mark.one_version
@pytest.mark.parametrize("draw", [beta_binomial, normal_mean, variance])
def test_an_offset_of_a_half_is_caught_and_exact_values_pass(draw):
    """At 200 simulations 95 % of broken estimators are caught; 5 % of sound ones are accused.

    19 or fewer of 200 sound ones are accused with a probability of 99.6 %.
    """
    accused = caught = 0
    offsets = []
    for rng in np.random.default_rng(1).spawn(TRIALS):
        exact = draw(rng)
        accused += not calibration(exact).calibrated
        broken = calibration(exact + np.array([0.0, 0.5]))
        caught += not broken.calibrated
        row = broken.means.loc["b"]
        offsets.append((row["offset"] - 0.5) / row["offset_se"])
    assert accused <= 19
    assert caught >= 0.95 * TRIALS
    # The offset is found, with a standard error that is right to a fifth.
    assert abs(np.mean(offsets)) < 0.3
    assert 0.8 < np.std(offsets) < 1.2


@pytest.mark.one_version
def test_noise_that_grows_with_the_data_is_seen_by_the_curve():
    """Overconfidence of a factor of two leaves the mean as it is."""
    accused = 0
    for rng in np.random.default_rng(2).spawn(20):
        exact = normal_mean(rng)
        middle = exact.mean(axis=1, keepdims=True)
        accused += not calibration(middle + 4.0 * (exact - middle)).calibrated
    assert accused >= 15


def test_three_models_and_their_odds():
    rng = np.random.default_rng(3)
    prior = np.array([0.5, 0.25, 0.25])
    truth = np.tile([0, 1, 0, 2], 100)
    places = np.array([0.0, 1.0, 2.0])
    y = rng.normal(places[truth], 1.0)[:, None]
    exact = stats.norm.logpdf(y, places)
    sound = Calibration(("a", "b", "c"), prior, truth, exact, np.zeros_like(exact))
    assert sound.calibrated
    assert set(sound.reliability()["model"]) == {"a", "b", "c"}
    row = Calibration(
        ("a", "b", "c"), prior, truth, exact + np.array([0, 1, 0]), np.zeros_like(exact)
    )
    assert "log Z seems to be off by" in row.problems[0]
    assert row.means.loc["b", "offset"] == pytest.approx(1.0, abs=0.4)


def run(first, second, error=""):
    values = tuple(Evidence(value, 0.1, 30) for value in first)
    again = tuple(Evidence(value, 0.1, 30) for value in second)
    return Simulation(0, values, again, ("ok",) * len(first), 1.0, error)


def test_errors_that_are_too_small_are_seen_between_runs():
    rng = np.random.default_rng(4)
    exact = normal_mean(rng)
    sound = [run(row + rng.normal(0, 0.1, 2), row + rng.normal(0, 0.1, 2)) for row in exact[:20]]
    wrong = [run(row + rng.normal(0, 0.3, 2), row + rng.normal(0, 0.3, 2)) for row in exact[:20]]
    whole = calibration(exact)
    shown = {
        name: Calibration(whole.names, whole.prior, TRUTH, exact, whole.standard_error, tuple(runs))
        for name, runs in (("sound", sound), ("wrong", wrong))
    }
    assert shown["sound"].coverage[1] == 40
    assert shown["sound"].calibrated
    assert "Two runs of a model" in shown["wrong"].problems[0]
    assert "not calibrated" in str(shown["wrong"])
    assert "Two runs of a model" in shown["wrong"]._repr_html_()


def test_failed_runs_are_left_out_and_told():
    good = [run([0.0, 0.1], []), run([0.1, 0.0], [])] * 3
    found = Calibration.of(["a", "b"], [0.5, 0.5], [*good, run([np.nan, 0.0], [], "b: oh")])
    assert len(found.truth) == 6
    assert found.problems == ["1 simulations failed, such as: b: oh"]
    assert np.isnan(found.means["p_value"]).all()  # the second model was never true
    with pytest.raises(RuntimeError, match="All simulations failed"):
        Calibration.of(["a", "b"], [0.5, 0.5], [run([np.nan, 0.0], [], "b: oh")])


def test_simulations_come_back_from_text():
    one = run([0.5, -np.inf], [1.0, np.nan])
    again = Simulation.from_json(one.to_json())
    assert again.evidences == one.evidences
    assert again.to_json() == one.to_json()


def coin(alpha):
    with pm.Model() as model:
        p = pm.Beta("p", alpha, alpha)
        pm.Binomial("heads", n=10, p=p, observed=0)
    return model


COINS = {"fair": coin(100.0), "any": coin(1.0)}
OPTIONS = {"draws": 100, "chains": 2, "cores": 1, "random_seed": 7, "progressbar": False}


def test_data_are_those_of_the_prior_predictive():
    """Heads of any coin are uniform on 0 to 10: a chi-squared test at 0.1 %."""
    predictive = PriorPredictive("any", COINS["any"])
    heads = [int(predictive.draw(rng)["heads"]) for rng in np.random.default_rng(5).spawn(330)]
    assert stats.chisquare(np.bincount(heads, minlength=11)).pvalue > 1e-3


def test_vectors_hierarchies_and_data_containers():
    with pm.Model() as model:
        data = pm.Data("data", np.zeros(3))
        mu = pm.Normal("mu", 5, 1)
        theta = pm.Normal("theta", mu, 1, shape=3)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", theta, sigma, observed=data)
    predictive = PriorPredictive("groups", model)
    rows = np.array([predictive.draw(rng)["y"] for rng in np.random.default_rng(6).spawn(300)])
    # Variances: 1 of mu, 1 of theta, 1 of y.
    assert rows.mean() == pytest.approx(5, abs=4 * np.sqrt((1 + 2 / 3) / 300))
    assert np.cov(rows.T)[0, 1] == pytest.approx(1, abs=0.6)
    copy = predictive.with_data({"y": rows[0]})
    assert np.array_equal(copy.rvs_to_values[copy["y"]].eval(), rows[0])
    assert np.array_equal(model["data"].get_value(), np.zeros(3))


def test_runs_resume_and_executors_give_the_same(tmp_path, caplog):
    options = {**OPTIONS, "repeats": 1}
    with caplog.at_level(logging.INFO, logger="pymc"):
        first = pymc_arm.calibrate(COINS, 4, checkpoint=tmp_path, **options)
    assert "calibrate: by 1 simulation, all 4 take about" in caplog.text
    exact = stats.betabinom(10, 100, 100).logpmf(np.arange(11))
    assert np.abs(first.log_evidence[:, :1] - exact).min(axis=1).max() < 0.02
    assert first.log_evidence[:, 1] == pytest.approx(-np.log(11), abs=0.05)
    # As if it had been stopped after three, and went on elsewhere.
    (tmp_path / "simulation-00003.json").unlink()
    del options["cores"], options["random_seed"]
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        again = pymc_arm.calibrate(
            COINS, 4, checkpoint=tmp_path, resume=True, executor=executor, **options
        )
    assert np.array_equal(first.log_evidence, again.log_evidence)
    assert first.coverage == again.coverage == (2, 2)
    with pytest.raises(pymc_arm.CheckpointError, match=r"these\s+differ: .*random_seed"):
        pymc_arm.calibrate(
            COINS,
            4,
            checkpoint=tmp_path,
            resume=True,
            **{**OPTIONS, "repeats": 1} | {"random_seed": 8},
        )


def test_shares_are_those_of_the_prior():
    experiment = Experiment(COINS, [0.75, 0.25], [1], {})
    assert np.bincount(experiment.truths(100)).tolist() == [75, 25]
    assert experiment.truths(50) == experiment.truths(100)[:50]


def test_what_can_not_be_simulated_is_refused():
    with pm.Model() as other:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("tails", n=10, p=p, observed=0)
    with pytest.raises(pymc_arm.ModelError, match=r"observes \{'tails'"):
        pymc_arm.calibrate({"a": COINS["any"], "b": other}, 4)
    with pm.Model() as potential:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("heads", n=10, p=p, observed=0)
        pm.Potential("more", p)
    with pytest.raises(pymc_arm.ModelError, match=r"has potentials \(more\)"):
        pymc_arm.calibrate({"a": potential}, 4)
    with pm.Model() as nothing:
        pm.Beta("p", 1, 1)
    with pytest.raises(pymc_arm.ModelError, match="no observed variable"):
        pymc_arm.calibrate({"a": nothing}, 4)
    with ThreadPoolExecutor(1) as executor, pytest.raises(TypeError, match="threads can't"):
        pymc_arm.calibrate(COINS, 4, executor=executor)
    with pytest.raises(ValueError, match="simulations=3 must be"):
        pymc_arm.calibrate(COINS, 3)
    with pytest.raises(ValueError, match="random_seed=-1 is not a seed"):
        pymc_arm.calibrate(COINS, 4, random_seed=-1)
