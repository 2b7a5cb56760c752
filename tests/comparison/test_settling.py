"""Many models: chains go to the models that can change the answer, and it is the exact one."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import special, stats

from pymc_arm import ComparisonError, compare
from pymc_arm.comparison import settling
from pymc_arm.comparison.goals import Groups, Knowledge, Order, make_goal
from pymc_arm.comparison.screening import laplace_log_evidence
from pymc_arm.results import Evidence

RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 5))
Y = X[:, 0] + 0.4 * X[:, 1] + RNG.normal(size=20)
QUICK = {"draws": 60, "random_seed": 1, "progressbar": False}
LABELS = "abcde"


@cache
def subsets(count):
    """Regressions on all subsets of the first predictors, by their letters."""
    found = {}
    for number in range(2**count):
        inside = [place for place in range(count) if number >> place & 1]
        with pm.Model() as model:
            mean = 0.0
            if inside:
                mean = pm.math.dot(X[:, inside], pm.Normal("b", 0, 1, shape=len(inside)))
            pm.Normal("y", mean, 1.0, observed=Y)
        found["".join(LABELS[place] for place in inside) or "none"] = model
    return found


def exact(count):
    """Log Z of the same models."""
    found = {}
    for number in range(2**count):
        inside = [place for place in range(count) if number >> place & 1]
        covariance = np.eye(20) + X[:, inside] @ X[:, inside].T
        name = "".join(LABELS[place] for place in inside) or "none"
        found[name] = float(stats.multivariate_normal(np.zeros(20), covariance).logpdf(Y))
    return found


def groups(names, count):
    return {label: [name for name in names if label in name] for label in LABELS[:count]}


def knowledge(values, errors, freedom=1e6):
    known = Knowledge([str(place) for place in range(len(values))], np.zeros(len(values)))
    for place, (value, error) in enumerate(zip(values, errors, strict=True)):
        known.learn(place, Evidence(value, error, freedom))
    return known


def assert_same(table, other):
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), other.drop(columns="seconds"))


def test_models_that_can_not_matter_are_negligible_and_their_order_is_no_matter():
    known = knowledge([0.0, -0.1, -9.0, -9.01], [0.1, 0.1, 0.1, 0.1])
    assert known.negligible(0.05).tolist() == [False, False, True, True]
    # An error that lets them win lets them stay.
    assert not knowledge([0.0, -0.1, -9.0, -9.01], [0.1, 0.1, 5.0, 5.0]).negligible(0.05).any()
    rows = Order(0.95).open_gradients(known)
    assert rows.tolist() == [[1.0, -1.0, 0.0, 0.0]]
    assert not len(Order(0.95).open_gradients(knowledge([0.0, -0.1], [0.01, 0.01])))


def test_gradients_of_groups_are_derivatives_of_their_probabilities():
    values = np.array([0.0, -0.5, -1.0])
    members = np.array([[True, False, True]])
    found = Groups(members, 0.01).open_gradients(knowledge(values, [0.3, 0.3, 0.3]))
    shift = 1e-6 * np.eye(3)
    numeric = [
        (special.softmax(values + up)[members[0]].sum() - special.softmax(values)[members[0]].sum())
        / 1e-6
        for up in shift
    ]
    np.testing.assert_allclose(found[0], numeric, atol=1e-5)
    assert not len(Groups(members, 0.01).open_gradients(knowledge(values, [0.001] * 3)))


def test_chains_go_where_the_error_of_the_answer_comes_from(monkeypatch):
    """Theorem 1, one level up: in proportion to the derivative times the standard deviation."""

    class Ran:
        chains, error, ended_by = 10, None, "chains"

    known = knowledge([0.0, -0.01, -0.02, -30.0], [0.3, 0.1, 0.1, 9.0])
    made = settling._Settling(
        {name: Ran() for name in known.names}, known, Order(0.95), 0.01, object()
    )
    more = made._more_chains()
    # Two of the three concerned stand between neighbours on one side, one between two.
    share = np.sqrt([1.0, 2.0, 1.0]) * [0.3, 0.1, 0.1]
    wanted = np.floor(60 * share / share.sum()) - 10
    assert more == {name: int(n) for name, n in zip("012", wanted, strict=True) if n > 0}


@pytest.mark.parametrize("certainty", [0.95, 0.6])
def test_the_order_is_the_exact_one_and_what_is_settled_gets_no_more_chains(certainty):
    truth = exact(3)
    table = compare(subsets(3), settle="order", certainty=certainty, **QUICK)
    # Log Z of the model without predictors is exact but for rounding.
    off = (table["log_evidence"] - pd.Series(truth)[table.index]).abs()
    assert (off < 4.5 * table["standard_error"] + 1e-9).all()
    assert table["chains"].min() == settling.FIRST_CHAINS
    kept = table["probability"].cumsum().shift(fill_value=0) < certainty
    sure = kept & table["settled"]
    order = pd.Series(truth).sort_values(ascending=False).index
    assert table.index[: sure.sum()].tolist() == order[: sure.sum()].tolist()
    # What is not settled could not be: its error is as small as one that was asked for.
    not_settled = table[kept.shift(-1, fill_value=False) & ~table["settled"]]
    assert (not_settled["standard_error"] < 0.011).all()


def test_probabilities_of_groups_are_known_to_the_tolerance():
    truth = exact(3)
    wanted = groups(truth, 3)
    table = compare(subsets(3), settle=wanted, tolerance=0.005, **QUICK)
    found = table.group_probabilities(wanted)
    probability = dict(zip(truth, special.softmax(list(truth.values())), strict=True))
    for label, names in wanted.items():
        assert found["probability"][label] == pytest.approx(
            sum(probability[name] for name in names), abs=0.01
        )
    assert (found["high"] - found["low"] < 0.011).all()


def test_of_many_models_those_that_can_not_matter_are_not_run():
    truth = exact(5)
    wanted = groups(truth, 5)
    table = compare(subsets(5), settle=wanted, **QUICK)
    left_out = table[table["chains"] == 0]
    assert 0 < len(left_out) < 32
    assert set(left_out["verdict"]) == {"not run"}
    assert left_out["probability"].sum() < 0.01
    exact_probability = dict(zip(truth, special.softmax(list(truth.values())), strict=True))
    for label, names in wanted.items():
        expected = sum(exact_probability[name] for name in names)
        found = table.group_probabilities(wanted)["probability"][label]
        assert found == pytest.approx(expected, abs=0.012)
    # Rough values are within their errors of the exact ones.
    off = (left_out["log_evidence"] - pd.Series(truth)[left_out.index]) / left_out["standard_error"]
    assert (off.abs() < 4).all()


def test_executors_checkpoints_and_resumed_runs_give_the_same_table(tmp_path, monkeypatch):
    plain = compare(subsets(2), settle="order", **QUICK)
    with ThreadPoolExecutor(2) as executor:
        assert_same(compare(subsets(2), settle="order", executor=executor, **QUICK), plain)
    stopped = settling._Settling._more_chains
    monkeypatch.setattr(settling._Settling, "_more_chains", _interrupt)
    with pytest.raises(ComparisonError, match="was interrupted") as caught:
        compare(subsets(2), settle="order", checkpoint=tmp_path, **QUICK)
    assert sorted(caught.value.finished) == sorted(exact(2))
    monkeypatch.setattr(settling._Settling, "_more_chains", stopped)
    again = compare(subsets(2), settle="order", checkpoint=tmp_path, resume=True, **QUICK)
    assert_same(again, plain)


def _interrupt(self):
    raise KeyboardInterrupt


def test_results_stay_as_they_are():
    given = {"given": Evidence(-30.0, 0.5, 3), **subsets(1)}
    table = compare(given, settle="order", **QUICK)
    assert table["chains"]["given"] == 0
    assert table["log_evidence"]["given"] == -30.0
    assert compare({"given": given["given"]}, settle="order")["settled"].tolist() == [True]


def test_a_model_that_fails_does_not_lose_the_others():
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("mean"), 1.0, observed=Y)
    with pytest.raises(ComparisonError, match="Model 'wrong' failed") as caught:
        compare({**subsets(1), "wrong": improper}, settle="order", **QUICK)
    assert sorted(caught.value.finished) == ["a", "none"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"settle": "best"}, ValueError, "neither 'order' nor groups"),
        ({"settle": ["a"]}, TypeError, "must be 'order', or groups"),
        ({"settle": {"g": ["nobody"]}}, ValueError, r"'g' names \['nobody'\]; the models are"),
        ({"settle": {"g": "a"}}, ValueError, "'g' is 'a': give a list"),
        ({"settle": "order", "certainty": 1.0}, ValueError, "certainty=1.0"),
        ({"settle": "order", "tolerance": 0.0}, ValueError, "tolerance=0.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        compare({"a": Evidence(0.0, 0.1, 3)}, **arguments)


def test_the_rough_value_is_exact_for_a_normal_posterior_and_missing_where_there_is_none():
    truth = exact(2)
    for name, model in subsets(2).items():
        assert laplace_log_evidence(model) == pytest.approx(truth[name], abs=1e-3)
    with pm.Model() as discrete:
        pm.Normal("y", pm.Poisson("n", 2.0), 1.0, observed=1.0)
    assert np.isnan(laplace_log_evidence(discrete))
    with pm.Model() as flat:
        pm.Normal("y", 0 * pm.Flat("mean"), 1.0, observed=1.0)
    assert np.isnan(laplace_log_evidence(flat))


def test_goals_of_names():
    assert isinstance(make_goal("order", ["a"], 0.95, 0.01), Order)
    goal = make_goal({"g": ["b"]}, ["a", "b"], 0.95, 0.01)
    assert goal.members.tolist() == [[False, True]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_dask_workers_one_of_them_killed_give_the_same_table(tmp_path):
    distributed = pytest.importorskip("distributed")
    plain = compare(subsets(2), settle="order", **QUICK)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
        ThreadPoolExecutor(1) as killer,
    ):
        workers = client.run(os.getpid)

        def kill_one():
            time.sleep(1.0)
            os.kill(next(iter(workers.values())), signal.SIGKILL)

        killed = killer.submit(kill_one)
        found = compare(subsets(2), settle="order", executor=client.get_executor(), **QUICK)
        killed.result()
        assert set(client.run(os.getpid).values()) != set(workers.values())
    assert_same(found, plain)
