"""What is summed and what is kept, and that a wrong scope is found."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_arm
from pymc_arm.errors import ModelError
from pymc_arm.models import compiled
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.elimination import choose, sums

DATA = np.array([0.1, 2.3, 1.9, -0.4, 2.2])


@cache
def labels(**variables):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        label = pm.Bernoulli("label", 0.4, shape=5)
        pm.Normal("y", mean[label], 1, observed=DATA)
        for name, count in variables.items():
            pm.Poisson(name, 3.0, observed=count)
    return model


def test_nothing_is_summed_unless_asked_for():
    assert compile_model(labels()).elimination is None
    assert compile_model(labels(), marginalize=False).elimination is None


@pytest.mark.parametrize("marginalize", ["auto", True, ["label"]])
def test_labels_are_summed(marginalize):
    path = compile_model(labels(), marginalize=marginalize)
    assert path.elimination.names == ("label",)
    assert [slot.name for slot in path.plan.layout.slots] == ["mean"]


def test_the_plan_says_what_is_summed():
    text = str(pymc_arm.plan(labels()))
    assert "summed exactly: label (5 discrete coordinates in 5 components" in text
    assert "summed" not in str(pymc_arm.plan(labels(), marginalize=False))


def test_an_order_or_the_paper_keeps_all_variables():
    assert "summed" not in str(pymc_arm.plan(labels(), order=["label"]))
    options = {"draws": 50, "random_seed": 1, "progressbar": False}
    assert pymc_arm.sample(labels(), **options).attrs["summed"] == "label"
    for given in ({"settings": "paper"}, {"variant": "rm"}, {"marginalize": False}):
        assert "summed" not in pymc_arm.sample(labels(), **given, **options).attrs


@pytest.mark.parametrize(
    ("marginalize", "message"),
    [
        (["nothing"], "not a free variable"),
        (["mean"], "can't be summed"),
        ("label", "is not 'auto', a bool or a list"),
    ],
)
def test_names_that_make_no_sense_are_refused(marginalize, message):
    with pytest.raises(ValueError, match=message):
        compile_model(labels(), marginalize=marginalize)


@pytest.mark.parametrize("scale", [50.0, 1e4])
def test_vague_counts_without_an_end_are_kept(scale):
    with pm.Model() as model:
        rate = pm.HalfCauchy("rate", scale)
        count = pm.Poisson("count", rate)
        label = pm.Bernoulli("label", 0.5)
        pm.Normal("y", count + 0.5 * label, 1, observed=2.0)
    path = compile_model(model, marginalize="auto")
    assert path.elimination.names == ("label",)
    assert [slot.name for slot in path.plan.layout.slots] == ["rate", "count"]


def test_counts_without_an_end_are_summed_where_their_prior_is_short():
    with pm.Model() as model:
        count = pm.Poisson("count", 3.0)
        label = pm.Bernoulli("label", 0.5)
        pm.Normal("y", count + 0.5 * label, 1, observed=2.0)
    path = compile_model(model, marginalize="auto")
    assert path.elimination.names == ("count", "label")
    counts = np.arange(60)
    means = counts[:, None] + [0.0, 0.5]
    logs = stats.norm.logpdf(2.0, means) + stats.poisson.logpmf(counts, 3.0)[:, None]
    exact = np.logaddexp.reduce(logs.ravel()) + np.log(0.5)
    found = path.elimination.density.terms(np.zeros((1, 0))).sum()
    assert abs(found - exact) < 1e-6


def test_what_is_too_large_is_kept_and_the_plan_says_so(monkeypatch):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        hub = pm.Categorical("hub", np.full(8, 1 / 8))
        leaf = pm.Categorical("leaf", np.full(8, 1 / 8), shape=4)
        pm.Normal("y", mean + 0.1 * hub * leaf, 1, observed=DATA[:4])
    monkeypatch.setattr(choose, "LARGEST", 63)
    path = compile_model(model, marginalize="auto")
    assert path.elimination.names == ("leaf",)
    assert "kept: hub, since tables would be too large with it" in path.plan.notes
    with pytest.raises(ModelError, match="tables of leaf, hub would be too large"):
        compile_model(model, marginalize=["hub", "leaf"])
    monkeypatch.setattr(choose, "LARGEST", 7)
    path = compile_model(model, marginalize=True)
    assert path.elimination is None
    assert any("not summed: tables of hub, leaf would be too large" in n for n in path.plan.notes)


def test_many_indicators_of_the_same_data_are_not_summed():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        chosen = pm.Bernoulli("chosen", 0.5, shape=40)
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * pt.dot(rng.normal(size=(5, 40)), chosen), 1, observed=DATA)
    path = compile_model(model, marginalize="auto")
    assert path.elimination is None
    assert any(note.startswith("not summed: tables of chosen") for note in path.plan.notes)


def test_a_prior_that_does_not_sum_to_one_is_not_summed():
    def log_density(value):
        return pt.switch(pt.or_(pt.lt(value, 0), pt.gt(value, 2)), -np.inf, 0.0 * value)

    def draw(rng=None, size=None):
        return rng.integers(0, 3, size=size)

    with pm.Model() as model:
        label = pm.CustomDist("label", logp=log_density, random=draw, dtype="int64")
        pm.Normal("y", label, 1, observed=0.3)
    with pytest.warns(pymc_arm.ArmWarning, match="not normalised"):
        path = compile_model(model, marginalize="auto")
    assert path.elimination is None
    assert any("does not sum to one" in note for note in path.plan.notes)


def test_a_scope_that_was_missed_is_found_on_fresh_draws(monkeypatch):
    """The third observation depends on the first label too, behind the back of the scopes."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        label = pm.Bernoulli("label", 0.4, shape=5)
        shift = pt.set_subtensor(pt.zeros(5)[2], 0.5 * label[0])
        pm.Normal("y", mean[label] + shift, 1, observed=DATA)
    assert compile_model(model, marginalize="auto").elimination is not None
    find_scopes = compiled.find_scopes

    def blind(density, layout, draws):
        scopes = find_scopes(density, layout, draws)
        scopes[density.offsets[2] + 2, layout.slots[1].start] = False
        return scopes

    monkeypatch.setattr(compiled, "find_scopes", blind)
    path = compile_model(model, marginalize=True)
    assert path.elimination is None
    assert any("depends on more discrete variables than it seemed" in n for n in path.plan.notes)


def test_a_scope_that_fails_where_the_posterior_is_makes_a_run_of_all_variables(monkeypatch):
    asked = []

    def check(density, layout, prior, points=None):
        asked.append(points)
        return "" if points is None else "a term depends on more"

    monkeypatch.setattr(choose, "check_sums", check)
    with pytest.warns(pymc_arm.ArmWarning, match="made again with marginalize=False"):
        result = pymc_arm.sample(labels(), draws=100, random_seed=1, progressbar=False)
    assert asked[0] is None
    assert asked[1].shape == (100, 2)
    assert "summed" not in result.attrs
    assert result.posterior["label"].shape == (4, 100, 5)


def test_a_count_of_many_values_is_added_up_once_for_all_draws(monkeypatch):
    """The mean of 4000 draws is within five standard errors: false alarms 6e-7."""
    calls = []
    sum_out = sums.sum_out
    monkeypatch.setattr(
        sums, "sum_out", lambda *given, **options: calls.append(1) or sum_out(*given, **options)
    )
    with pm.Model() as model:
        count = pm.Binomial("count", 300_000, 0.3)
        pm.Normal("y", count, 3, observed=90_000.0)
    path = compile_model(model, marginalize=True)
    particles, log_evidence = path.initialize(np.random.default_rng(1), 4000)
    calls.clear()
    drawn = path.posterior(np.random.default_rng(2), particles)["count"]
    assert len(calls) == 1
    assert abs(drawn.mean() - 90_000) < 5 * 3 / np.sqrt(4000)
    values = np.arange(300_001)
    exact = logsumexp(
        stats.binom.logpmf(values, 300_000, 0.3) + stats.norm.logpdf(90_000, values, 3)
    )
    assert log_evidence == pytest.approx(exact, abs=1e-6)
