"""Each back end evaluates the same terms, all of them or a part."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.models import backend as module
from pymc_arm.models.backend import compile_priors, compile_terms
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.terms import Layout, build_terms

DATA = np.array([0.3, -1.0, 2.0])
POINTS = np.random.default_rng(1).normal(size=(5, 2))


@pytest.fixture(scope="module")
def terms():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0, shape=2)
        pm.Normal("y", mean[0] + mean[1], 1.0, observed=DATA)
    draws = PriorSampler(model).draw(np.random.default_rng(1), 3)
    return build_terms(model, Layout.of(model, draws))


EXACT = np.hstack(
    [stats.norm.logpdf(POINTS, 0, 2), stats.norm.logpdf(DATA, POINTS.sum(axis=1)[:, None], 1)]
)


def evaluate(compiled, first, last):
    return np.concatenate(compiled.function(np.array(first), np.array(last))(POINTS), axis=1)


@pytest.mark.parametrize("backend", [None, "numpy", "numba", "c"])
def test_terms_are_those_of_scipy(terms, backend):
    notes = []
    found = compile_terms(*terms, POINTS, backend, notes)
    assert found.backend == (backend or "numpy")
    assert notes == []
    assert found.lengths.tolist() == [2, 3]
    np.testing.assert_allclose(evaluate(found, [0, 0], [2, 3]), EXACT)
    np.testing.assert_allclose(evaluate(found, [1, 0], [2, 2]), EXACT[:, 1:4])


def test_what_fails_is_noted_and_the_next_back_end_is_taken(terms, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(module, "_interpret", fail)
    notes = []
    found = compile_terms(*terms, POINTS, None, notes)
    assert found.backend == "numba"
    assert notes == ["evaluated with numba: RuntimeError: no such thing"]
    np.testing.assert_allclose(evaluate(found, [0, 0], [2, 3]), EXACT)


def test_priors_are_evaluated_alone(terms):
    x, blocks = terms
    compiled = compile_terms(x, blocks, POINTS, "numpy", [])
    pieces = [piece for block in blocks for piece in block.pieces]
    priors = compile_priors(x, pieces, np.array([True, False]), compiled, POINTS, [])
    found = np.concatenate(priors(np.array([0, 0]), np.array([2, 0]))(POINTS), axis=1)
    np.testing.assert_allclose(found, EXACT[:, :2])
