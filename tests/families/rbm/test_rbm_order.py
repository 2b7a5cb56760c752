"""Orders of units, and what is assumed of those that are not in yet."""

import numpy as np
import pytest
from scipy.special import expit

from pymc_arm.families.rbm import Machine
from pymc_arm.families.rbm.lookahead import base_rates, mean_field_rates, tangents
from pymc_arm.families.rbm.order import arrange

DATA = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]])


@pytest.fixture(scope="module")
def machine():
    rng = np.random.default_rng(1)
    return Machine(0.3 * rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4))


def test_units_of_high_variance_come_first():
    assert arrange(None, 3, DATA).tolist() == [1, 2, 0]
    assert arrange(None, 3, None).tolist() == [0, 1, 2]
    assert arrange("given", 3, DATA).tolist() == [0, 1, 2]
    assert arrange(np.array([2, 0, 1]), 3, DATA).tolist() == [2, 0, 1]


def test_random_orders_are_those_of_a_seed():
    orders = [arrange("random", 30, None, seed).tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(30))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("active", r'order="active" sorts units'),
        ("best", r"order='best' is not one of"),
        (np.array([0, 0, 1]), r"order must contain each of the indices 0 to 2 once"),
    ],
)
def test_orders_that_are_none(order, message):
    with pytest.raises(ValueError, match=message):
        arrange(order, 3, None)


def test_tangents_touch_where_the_rate_is_right_and_lie_below_elsewhere(machine):
    """log(1 + e^(a + W h)) >= a mu + H(mu) + mu W h, with equality at mu = sigmoid(a + W h)."""
    rng = np.random.default_rng(2)
    hidden = rng.integers(2, size=(50, 4))
    exact = np.logaddexp(0, machine.a + hidden @ machine.W.T)
    for row in range(5):
        rates = expit(machine.a + machine.W @ hidden[row])
        found = tangents(rates, machine)
        lines = found.constants + hidden @ found.slopes.T
        np.testing.assert_allclose(lines[row], exact[row], rtol=1e-12)
        assert (lines <= exact + 1e-12).all()


def test_mean_field_rates_are_a_fixed_point(machine):
    rates = mean_field_rates(machine)
    hidden = expit(machine.b + rates @ machine.W)
    np.testing.assert_allclose(rates, expit(machine.a + machine.W @ hidden), atol=1e-10)
    np.testing.assert_allclose(base_rates("mean-field", machine, None, 0.4), 0.4 * rates)


def test_base_rates_are_given_or_of_the_data(machine):
    data = np.array([[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(base_rates(None, machine, data), np.zeros(5))
    found = base_rates("data", machine, data, 0.5)
    np.testing.assert_array_equal(found, [0.5, 0.25, 0, 0.25, 0])
    given = np.full(5, 0.25)
    np.testing.assert_array_equal(base_rates(given, machine, data, 0.5), given)


@pytest.mark.parametrize(
    ("lookahead", "strength", "message"),
    [
        ("data", 1.0, r'lookahead="data" takes base rates'),
        ("all", 1.0, r"lookahead='all' is not one of"),
        (np.array([0.5, 2.0]), 1.0, r"a rate between 0 and 1 for each of the 5 units"),
        (None, 1.5, r"strength=1\.5 must be between"),
    ],
)
def test_base_rates_that_are_none(machine, lookahead, strength, message):
    with pytest.raises(ValueError, match=message):
        base_rates(lookahead, machine, None, strength)
