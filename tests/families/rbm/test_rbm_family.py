"""The matcher, and what it builds."""

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.families.rbm import RBM, RBMFamily, rbm


def test_the_family_takes_its_own(small_model):
    family = RBMFamily()
    assert isinstance(family, pymc_arm.Family)
    match = family.match(small_model)
    assert match.accepted
    assert "pixels" in match.reason


def test_weights_may_be_data(small_machine):
    with pm.Model() as model:
        RBM("x", W=pm.Data("weights", small_machine.W), a=small_machine.a, b=small_machine.b)
    assert RBMFamily().match(model).accepted
    path = RBMFamily().build(model, order="random", random_seed=1)
    np.testing.assert_array_equal(path.machine.W, small_machine.W)


def test_the_family_refuses_others(small_machine):
    family = RBMFamily()
    with pm.Model() as normal:
        pm.Normal("z")
    with pm.Model() as random_weights:
        RBM("x", W=small_machine.W * pm.Normal("scale"))
    with pm.Model() as with_potential:
        x = RBM("x", W=small_machine.W)
        pm.Potential("extra", x.sum())
    with pm.Model() as observed:
        RBM("x", W=small_machine.W, observed=np.zeros(5, dtype=np.int8))
    with pm.Model() as hidden_randomness:
        RBM("x", W=small_machine.W * pm.Normal.dist())
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
def test_the_built_path_finds_the_evidence(small_machine, small_model):
    path = RBMFamily().build(small_model)
    estimates = np.array(
        [
            pymc_arm.run(path, np.random.default_rng(seed), 300, variant="rm").log_evidence
            for seed in range(20)
        ]
    )
    ratios = np.exp(estimates - small_machine.exact_log_evidence())
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(20)


@pytest.mark.parametrize(
    "options",
    [{}, {"path": "units"}, {"order": "random", "random_seed": 3}, {"data": "own"}],
    ids=["default", "units", "order", "data"],
)
def test_a_model_runs_as_the_direct_call_does(small_machine, small_model, options):
    if "data" in options:
        options = {"data": np.random.default_rng(0).integers(2, size=(30, 5))}
    common = {"draws": 60, "chains": 2, "progressbar": False}
    seed = {"random_seed": 3}
    direct = rbm(small_machine, **{**options, **seed}, **common)
    found = pymc_arm.sample(small_model, family_kwargs=options, **seed, **common)
    for name in ("log_marginal_likelihood", "log_marginal_likelihood_se", "threshold", "move"):
        assert found.attrs[name] == direct.attrs[name]
    np.testing.assert_array_equal(found.posterior["pixels"], direct.posterior["x"])
