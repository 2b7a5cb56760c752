"""Powers between two densities, and how far one can go."""

import numpy as np
import pytest

from pymc_arm.models.reference.tempered import RELATIVE_TOLERANCE, SHORTEST, Tempered, furthest

POINTS = np.array([[0.5, -1.0], [2.0, 0.3]])


def wide(points):
    return -0.5 * (points**2).sum(axis=1), -points


def narrow(points):
    return -2.0 * ((points - 1) ** 2).sum(axis=1), -4.0 * (points - 1)


@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0])
def test_values_and_gradients_are_those_of_the_geometric_mean(beta):
    values, gradients = Tempered(narrow, wide, beta)(POINTS)
    np.testing.assert_allclose(values, (1 - beta) * wide(POINTS)[0] + beta * narrow(POINTS)[0])
    np.testing.assert_allclose(gradients, (1 - beta) * wide(POINTS)[1] + beta * narrow(POINTS)[1])


def test_at_the_ends_one_density_is_enough():
    def never(points):
        raise AssertionError

    assert Tempered(narrow, never, 1.0)(POINTS)[0] == pytest.approx(narrow(POINTS)[0])
    assert Tempered(never, wide, 0.0)(POINTS)[0] == pytest.approx(wide(POINTS)[0])


@pytest.mark.parametrize("previous", [0.0, 0.4])
@pytest.mark.parametrize("rate", [1.0, 30.0, 3e4])
def test_the_end_has_the_fraction_that_is_asked_for(previous, rate):
    """Fractions that fall as exp(-rate (beta - previous)): the end is known."""
    found = furthest(lambda beta: np.exp(-rate * (beta - previous)), previous, 0.5)
    exact = min(previous + np.log(2) / rate, 1.0)
    assert found <= exact
    assert found == pytest.approx(exact, abs=2 * RELATIVE_TOLERANCE * (exact - previous))


def test_a_step_has_a_length_whatever_the_weights_are():
    assert furthest(lambda beta: 0.0, 0.2, 0.5) == pytest.approx(0.2 + SHORTEST, abs=1e-12)
    assert furthest(lambda beta: 1.0, 0.2, 0.5) == 1.0
