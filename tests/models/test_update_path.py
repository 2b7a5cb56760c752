"""The path from old data to all: its densities against those of SciPy."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.position import Position
from pymc_arm.models.update_path import path_from_model, path_from_rows

ROWS, OLD = np.array([0.4, -0.3, 1.2, 0.9]), 3
POINTS = np.random.default_rng(1).normal(size=(6, 1))


def compiled(rows):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("y", mean, 1.0, observed=rows)
    return compile_model(model)


def exact(rows):
    return stats.norm.logpdf(POINTS[:, 0], 0, 2) + stats.norm.logpdf(rows, POINTS, 1).sum(axis=1)


@pytest.fixture(scope="module")
def paths():
    whole = compiled(ROWS)
    # The prior has one term, and so has each row.
    return [path_from_rows(whole, np.array([4])), path_from_model(whole, compiled(ROWS[:OLD]))]


@pytest.mark.parametrize("number", [0, 1], ids=["rows", "previous model"])
def test_both_ways_have_the_same_densities(paths, number):
    path = paths[number]
    np.testing.assert_allclose(path.log_density(POINTS), exact(ROWS))
    np.testing.assert_allclose(path.old_log_density(POINTS), exact(ROWS[:OLD]))
    ratio = stats.norm.logpdf(ROWS[OLD], POINTS[:, 0], 1)
    np.testing.assert_allclose(path.log_ratio(POINTS), ratio, atol=1e-12)
    for beta in (0.0, 0.3, 1.0):
        weights = path._weights(Position(1, beta)) if beta else path._weights(Position(0))
        found = path.density.sum(POINTS, weights)
        np.testing.assert_allclose(found, exact(ROWS[:OLD]) + beta * ratio)


def test_one_step_takes_the_new_rows_in(paths):
    path = paths[0]
    assert path.last == Position(1)
    assert [(step.method, step.label) for step in path.plan.steps] == [("temper", "new data")]
    assert path.plan.initial.tolist() == [0]
    assert path.plan.initial_terms.tolist() == [0, 1, 2, 3]


def test_the_term_that_is_impossible_is_named(paths):
    assert paths[0].impossible(np.array([np.inf])).startswith("mean")
    assert len(paths[0].spaces(POINTS)) == 1
