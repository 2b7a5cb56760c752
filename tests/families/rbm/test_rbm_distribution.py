"""The machine as a PyMC distribution: its density, its draws and its shapes."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.families.rbm import RBM, RBMFamily
from pymc_arm.families.rbm.distribution import draw_visible
from pymc_arm.families.rbm.variable import RBMVariable


def test_log_density_in_a_model(small_machine, small_model):
    log_density = small_model.compile_logp(mode="FAST_COMPILE")
    state = np.array([1, 0, 1, 1, 0], dtype=np.int8)
    np.testing.assert_allclose(log_density({"pixels": state}), small_machine.log_density(state))
    assert log_density({"pixels": 2 * state}) == -np.inf


def test_biases_default_to_zero(small_machine):
    with pm.Model() as model:
        RBM("x", W=small_machine.W)
    value = model.compile_logp(mode="FAST_COMPILE")(model.initial_point())
    np.testing.assert_allclose(value, 3 * np.log(2))


@pytest.mark.statistical
def test_draws_have_the_means_of_the_machine(small_machine, small_model):
    states = (np.arange(32)[:, None] >> np.arange(5)) & 1
    means = np.exp(small_machine.log_density(states) - small_machine.exact_log_evidence()) @ states
    draws = pm.draw(small_model["pixels"], 200, random_seed=2)
    error = np.sqrt(means * (1 - means) / 200)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - means), 4.4 * error)


def test_batches_keep_their_shape(small_machine):
    with pm.Model() as model:
        RBM("x", W=small_machine.W, shape=(4, 5))
    assert model.initial_point()["x"].shape == (4, 5)
    assert not RBMFamily().match(model).accepted


@pytest.mark.parametrize(
    ("weights", "message"), [([[np.nan]], r"W\[0, 0\] is nan"), ([1.0], r"W has shape \(1,\)")]
)
def test_bad_weights_are_named_when_the_model_is_written(weights, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        RBM("x", W=weights)


def test_units_that_nothing_leaves_open_are_where_their_biases_are():
    biases = np.array([60.0, -60.0, 60.0])
    weights, hidden = np.zeros((3, 2)), np.zeros(2)
    for seed in range(3):
        found = draw_visible(np.random.default_rng(seed), weights, biases, hidden)
        assert found.dtype == np.int8
        np.testing.assert_array_equal(found, [1, 0, 1])


def test_each_of_a_batch_has_parameters_of_its_own():
    """Parameters with batches of their own shapes, and no size that is asked for."""
    signs = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
    rng = np.random.default_rng(1)
    draws = RBMVariable.rng_fn(rng, np.zeros((3, 2)), 60 * signs, np.zeros(2))
    np.testing.assert_array_equal(draws, signs > 0)
    many = RBMVariable.rng_fn(rng, np.zeros((3, 2)), 60 * signs[0], np.zeros(2), size=(4, 2))
    assert many.shape == (4, 2, 3)
    assert many.dtype == np.int8
    np.testing.assert_array_equal(many, np.broadcast_to(signs[0] > 0, (4, 2, 3)))
