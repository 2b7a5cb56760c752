"""The terms of two models as one list, against those of each."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.joined import JoinedDensity

ROWS = np.array([0.3, -1.0, 2.0])


def density(rows):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0, shape=2)
        pm.Normal("y", mean.sum(), 1.0, observed=rows)
    return compile_model(model).density


@pytest.fixture(scope="module")
def parts():
    return density(ROWS), density(ROWS[:2])


@pytest.fixture(scope="module")
def joined(parts):
    return JoinedDensity(*parts)


POINTS = np.random.default_rng(1).normal(size=(4, 2))


def test_terms_are_those_of_the_first_and_then_of_the_second(parts, joined):
    first, second = (part.terms(POINTS) for part in parts)
    assert joined.count == 5 + 4
    np.testing.assert_array_equal(joined.terms(POINTS), np.hstack([first, second]))
    # In any order, and of one of them alone.
    some = np.array([7, 0, 5, 3])
    expected = np.stack([second[:, 2], first[:, 0], second[:, 0], first[:, 3]], axis=1)
    np.testing.assert_array_equal(joined.terms(POINTS, some), expected)
    np.testing.assert_array_equal(joined.terms(POINTS, some[:1]), second[:, [2]])
    assert joined.sizes.tolist() == [2, 3, 2, 2]
    assert joined.offsets.tolist() == [0, 2, 5, 7, 9]
    assert joined.observations.tolist() == [0, 0, 1, 1, 1, 0, 0, 1, 1]


def test_sums_and_gradients_are_weighted(parts, joined):
    weights = np.random.default_rng(2).uniform(0.1, 1.0, 9)
    expected = joined.terms(POINTS) @ weights
    np.testing.assert_allclose(joined.sum(POINTS, weights), expected)
    assert joined.gradient.available()
    values, gradients = joined.gradient(POINTS, weights)
    np.testing.assert_allclose(values, expected)
    halves = np.split(weights, [5])
    own = [part.gradient(POINTS, half)[1] for part, half in zip(parts, halves, strict=True)]
    np.testing.assert_allclose(gradients, sum(own))


def test_a_power_between_them_is_the_product_of_both(parts, joined):
    """p_beta ~ f_old^(1 - beta) f^beta."""
    beta = 0.3
    weights = np.repeat([beta, 1 - beta], [5, 4])
    whole, old = (part.sum(POINTS, np.ones(part.count)) for part in parts)
    np.testing.assert_allclose(joined.sum(POINTS, weights), beta * whole + (1 - beta) * old)


def test_terms_at_values_of_a_coordinate(joined):
    values = np.array([[0.5, -0.5, 3.0]] * len(POINTS))
    weights = np.linspace(0.1, 0.9, 9)
    found = joined.sum_at(POINTS, 1, values, weights)
    at = joined.terms_at(POINTS, np.array([1]), values[:, :, None], np.arange(9))
    for column in range(3):
        changed = POINTS.copy()
        changed[:, 1] = values[:, column]
        np.testing.assert_allclose(found[:, column], joined.sum(changed, weights))
        np.testing.assert_allclose(at[:, column], joined.terms(changed))


def test_what_is_impossible_in_both_is_no_number_and_counts_as_impossible(parts, joined):
    far = np.full((1, 2), 1e200)
    assert joined.sum(far, np.repeat([1.0, -1.0], [5, 4]))[0] == -np.inf


def test_two_models_have_no_common_graph(joined):
    with pytest.raises(PathError, match="no common graph"):
        joined.graphs_of(np.arange(2))
