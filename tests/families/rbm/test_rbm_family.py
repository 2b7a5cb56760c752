"""The machine as a PyMC distribution, the matcher, and the direct call."""

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.families.rbm import RBM, Machine, RBMFamily, rbm


@pytest.fixture(scope="module")
def machine():
    rng = np.random.default_rng(6)
    return Machine(rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3))


@pytest.fixture(scope="module")
def model(machine):
    with pm.Model() as model:
        RBM("pixels", W=machine.W, a=machine.a, b=machine.b)
    return model


def test_log_density_in_a_model(machine, model):
    log_density = model.compile_logp()
    state = np.array([1, 0, 1, 1, 0], dtype=np.int8)
    np.testing.assert_allclose(log_density({"pixels": state}), machine.log_density(state))
    assert log_density({"pixels": 2 * state}) == -np.inf


def test_biases_default_to_zero(machine):
    with pm.Model() as model:
        RBM("x", W=machine.W)
    value = model.compile_logp()(model.initial_point())
    np.testing.assert_allclose(value, 3 * np.log(2))


@pytest.mark.statistical
def test_draws_have_the_means_of_the_machine(machine, model):
    states = (np.arange(32)[:, None] >> np.arange(5)) & 1
    means = np.exp(machine.log_density(states) - machine.exact_log_evidence()) @ states
    draws = pm.draw(model["pixels"], 200, random_seed=2)
    error = np.sqrt(means * (1 - means) / 200)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - means), 4.4 * error)


def test_batches_keep_their_shape(machine):
    with pm.Model() as model:
        RBM("x", W=machine.W, shape=(4, 5))
    assert model.initial_point()["x"].shape == (4, 5)
    assert not RBMFamily().match(model).accepted


@pytest.mark.parametrize(
    ("weights", "message"), [([[np.nan]], r"W\[0, 0\] is nan"), ([1.0], r"W has shape \(1,\)")]
)
def test_bad_weights_are_named_when_the_model_is_written(weights, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        RBM("x", W=weights)


def test_the_family_takes_its_own(model):
    family = RBMFamily()
    assert isinstance(family, pymc_arm.Family)
    match = family.match(model)
    assert match.accepted
    assert "pixels" in match.reason


def test_weights_may_be_data(machine):
    with pm.Model() as model:
        RBM("x", W=pm.Data("weights", machine.W), a=machine.a, b=machine.b)
    assert RBMFamily().match(model).accepted
    path = RBMFamily().build(model, order="random", random_seed=1)
    np.testing.assert_array_equal(path.machine.W, machine.W)


def test_the_family_refuses_others(machine):
    family = RBMFamily()
    with pm.Model() as normal:
        pm.Normal("z")
    with pm.Model() as random_weights:
        RBM("x", W=machine.W * pm.Normal("scale"))
    with pm.Model() as with_potential:
        x = RBM("x", W=machine.W)
        pm.Potential("extra", x.sum())
    with pm.Model() as observed:
        RBM("x", W=machine.W, observed=np.zeros(5, dtype=np.int8))
    with pm.Model() as hidden_randomness:
        RBM("x", W=machine.W * pm.Normal.dist())
    reasons = {
        "no free variable": normal,
        "has scale": random_weights,
        "has extra": with_potential,
        "no free variable is": observed,
        "are random": hidden_randomness,
    }
    for reason, other in reasons.items():
        match = family.match(other)
        assert not match.accepted
        assert reason in match.reason


@pytest.mark.one_version
@pytest.mark.statistical
def test_the_built_path_finds_the_evidence(machine, model):
    path = RBMFamily().build(model)
    estimates = np.array(
        [
            pymc_arm.run(path, np.random.default_rng(seed), 300, variant="rm").log_evidence
            for seed in range(20)
        ]
    )
    ratios = np.exp(estimates - machine.exact_log_evidence())
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(20)


@pytest.mark.statistical
def test_direct_call(machine):
    result = rbm(machine, draws=400, chains=4, random_seed=3, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - machine.exact_log_evidence()
    # Five standard errors: a t distribution with three degrees of freedom has heavy tails.
    assert abs(error) < 5 * max(result.attrs["log_marginal_likelihood_se"], 0.005)
    bits = result.posterior["x"]
    assert bits.dtype == np.uint8
    assert bits.shape == (4, 400, 5)
    likelihood = machine.log_likelihood(np.zeros((3, 5)), result)
    assert likelihood.standard_error < 0.1
    again = rbm(machine.W, machine.a, machine.b, draws=400, random_seed=3, progressbar=False)
    np.testing.assert_array_equal(again.posterior["x"], bits)


def test_data_bring_the_tempered_path(machine):
    options = {"draws": 50, "chains": 1, "random_seed": 1, "progressbar": False}
    data = np.random.default_rng(0).integers(2, size=(30, 5))
    choices = [{}, {"path": "tempered"}, {"path": "units"}, {"order": "active"}]
    by_default, tempered, units, with_order = (
        rbm(machine, data=data, **options, **choice).attrs["log_marginal_likelihood"]
        for choice in choices
    )
    assert by_default == tempered != units == with_order


def test_a_machine_brings_its_biases(machine):
    with pytest.raises(ValueError, match="leave a and b out"):
        rbm(machine, machine.a)


@pytest.mark.parametrize(
    "options",
    [{}, {"path": "units"}, {"order": "random", "random_seed": 3}, {"data": "own"}],
    ids=["default", "units", "order", "data"],
)
def test_a_model_runs_as_the_direct_call_does(machine, model, options):
    if "data" in options:
        options = {"data": np.random.default_rng(0).integers(2, size=(30, 5))}
    common = {"draws": 60, "chains": 2, "progressbar": False}
    seed = {"random_seed": 3}
    direct = rbm(machine, **{**options, **seed}, **common)
    found = pymc_arm.sample(model, family_kwargs=options, **seed, **common)
    for name in ("log_marginal_likelihood", "log_marginal_likelihood_se", "threshold", "move"):
        assert found.attrs[name] == direct.attrs[name]
    np.testing.assert_array_equal(found.posterior["pixels"], direct.posterior["x"])
