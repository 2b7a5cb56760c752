"""The compiled terms: whole, in part, at values of a coordinate, on every back end."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.compiled import compile_model


@cache
def regression():
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1, shape=2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", rng.normal(size=(9, 2)) @ slope, scale, observed=rng.normal(size=9))
    return model


@pytest.fixture(scope="module")
def path():
    return compile_model(regression())


@pytest.fixture(scope="module")
def points(path):
    return path.initialize(np.random.default_rng(2), 7)[0]


def test_terms_add_up_to_the_log_density_of_pymc(path, points):
    model = regression()
    logp = model.compile_logp(mode="FAST_COMPILE")
    layout = path.plan.layout
    for row, terms in zip(points, path.density.terms(points), strict=True):
        values = [value[0] for value in layout.unravel(row[None])]
        named = {
            model.rvs_to_values[rv].name: v for rv, v in zip(model.free_RVs, values, strict=True)
        }
        assert terms.sum() == pytest.approx(float(logp(named)), rel=1e-10)


def test_a_selection_is_a_part_of_all(path, points):
    everything = path.density.terms(points)
    chosen = np.array([0, 2, 5, path.density.count - 1])
    np.testing.assert_allclose(path.density.terms(points, chosen), everything[:, chosen])


def test_sums_are_weighted(path, points):
    weights = np.linspace(0, 1, path.density.count)
    expected = path.density.terms(points) @ weights
    np.testing.assert_allclose(path.density.sum(points, weights), expected)
    np.testing.assert_array_equal(path.density.sum(points, 0 * weights), 0)


def test_values_of_a_coordinate(path, points):
    values = np.tile([-1.0, 0.5], (len(points), 1))
    weights = np.ones(path.density.count)
    found = path.density.sum_at(points, 1, values, weights)
    for column in range(2):
        moved = points.copy()
        moved[:, 1] = values[:, column]
        np.testing.assert_allclose(found[:, column], path.density.sum(moved, weights))
