"""Tables of probabilities of which only what was observed is computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.observed import compute_observed
from pymc_arm.models.graph.reuse import compile_batched
from pymc_arm.models.graph.shapes import fix_shapes
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.terms import Layout, build_terms

ORDERED = pm.distributions.transforms.ordered
ROWS, LEVELS = 40, 5
RNG = np.random.default_rng(1)
DESIGN = RNG.normal(size=(ROWS, 2))
LEVEL = RNG.integers(0, LEVELS, ROWS)
START = np.linspace(-1.0, 1.0, LEVELS - 1)


def _cuts() -> TensorVariable:
    return pm.Normal("cuts", 0, 2, shape=LEVELS - 1, transform=ORDERED, initval=START)


def _score() -> TensorVariable:
    return DESIGN @ pm.Normal("slope", shape=2)


def _ordered_logit() -> None:
    pm.OrderedLogistic("y", eta=_score(), cutpoints=_cuts(), observed=LEVEL)


def _ordered_probit() -> None:
    pm.OrderedProbit("y", eta=_score(), cutpoints=_cuts(), observed=LEVEL)


def _own_differences() -> None:
    below = pm.math.invprobit(_cuts()[None, :] - _score()[:, None])
    table = [below[:, :1], below[:, 1:] - below[:, :-1], 1 - below[:, -1:]]
    pm.Categorical("y", p=pt.concatenate(table, axis=1), observed=LEVEL)


def _stopping() -> None:
    stop = pm.math.sigmoid(pm.Normal("cuts", shape=2)[None, :] - _score()[:, None])
    table = [stop[:, 0], (1 - stop[:, 0]) * stop[:, 1], (1 - stop[:, 0]) * (1 - stop[:, 1])]
    pm.Categorical("y", p=pt.stack(table, axis=-1), observed=np.minimum(LEVEL, 2))


def _rows_of_groups() -> None:
    tables = pm.Dirichlet("tables", np.ones((3, LEVELS)))
    pm.Categorical("y", p=tables[np.arange(ROWS) % 3], observed=LEVEL)


def _one_missing_category() -> None:
    pm.OrderedLogistic("y", eta=_score(), cutpoints=_cuts(), observed=np.where(LEVEL > 3, 1, LEVEL))


MODELS = (
    _ordered_logit,
    _ordered_probit,
    _own_differences,
    _stopping,
    _rows_of_groups,
    _one_missing_category,
)


def _terms_of(build: Callable[[], None]) -> tuple[Any, Any, Any, np.ndarray]:
    """Return x, the terms of the data as they are and as they are computed, and prior draws."""
    with pm.Model() as model:
        build()
    values = PriorSampler(model).draw(np.random.default_rng(2), 100)
    layout = Layout.of(model, values)
    x, blocks = build_terms(model, layout)
    (graph,) = blocks[-1].pieces
    points = layout.ravel(values, 100)
    (observed,) = blocks[-1].observed(x, points).pieces
    return x, graph, observed, points


def _values(x: TensorVariable, graphs: list[Any], points: np.ndarray) -> list[np.ndarray]:
    rows = pt.tensor("X", dtype="float64", shape=(None, *x.type.shape))
    with np.errstate(all="ignore"):
        return compile_batched([x], {x: rows}, graphs, rewrites="none")(points)


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__.strip("_"))
def test_values_and_gradients_are_those_of_the_whole_table(build: Callable[[], None]) -> None:
    x, graph, observed, points = _terms_of(build)
    assert observed is not graph
    graphs = [each for one in (graph, observed) for each in (one, pt.grad(one.sum(), x))]
    expected, slopes, found, own_slopes = _values(x, graphs, 2 * points)
    possible = np.isfinite(expected).all(axis=1)
    assert possible.sum() > 50
    np.testing.assert_allclose(found[possible], expected[possible], rtol=1e-11)
    assert not np.isfinite(found[~possible]).all(axis=1).any()
    smooth = possible & np.isfinite(slopes).all(axis=1)
    np.testing.assert_allclose(own_slopes[smooth], slopes[smooth], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("build", MODELS[:4], ids=lambda build: build.__name__.strip("_"))
def test_no_table_is_computed(build: Callable[[], None]) -> None:
    """No array has an element for each category of each row, nor is one compared."""
    x, _, observed, _ = _terms_of(build)
    (graph,) = fix_shapes([x], [observed])
    own = [v.type.shape for v in ancestors([graph]) if v.owner is not None and x in ancestors([v])]
    assert max(np.prod(shape) for shape in own) <= 2 * ROWS


def test_a_table_that_may_be_none_of_probabilities_stays_checked() -> None:
    """Cutpoints in the wrong order are not possible, whatever was observed."""

    def build() -> None:
        given = np.where(LEVEL == 2, 0, LEVEL)
        cuts = pm.Normal("cuts", 0, 2, shape=LEVELS - 1)
        pm.OrderedLogistic("y", eta=_score(), cutpoints=cuts, observed=given)

    x, _, observed, _ = _terms_of(build)
    points = np.concatenate([[START, START[[0, 2, 1, 3]]], np.zeros((2, 2))], axis=1)
    possible, impossible = _values(x, [observed.sum()], points)[0]
    assert np.isfinite(possible)
    assert impossible == -np.inf


def test_failures_where_no_prior_draw_is_are_seen() -> None:
    """Probabilities that are linear in a coefficient: one is negative, and the other observed."""

    def build() -> None:
        first = 0.5 + pm.Normal("slope", 0, 0.01) * DESIGN[:, 0]
        table = pt.stack([first, 1 - first], axis=1)
        pm.Categorical("y", p=table, observed=(DESIGN[:, 0] < 0).astype(int))

    x, graph, observed, _ = _terms_of(build)
    assert observed is graph
    possible, impossible = _values(x, [observed.sum()], np.array([[0.01], [2.0]]))[0]
    assert np.isfinite(possible)
    assert impossible == -np.inf


def test_vectors_without_a_table_are_left_alone() -> None:
    x = pt.tensor("x", dtype="float64", shape=(3,))
    graph = pt.exp(x)[np.array([2, 0, 1])]
    assert compute_observed(x, graph, np.zeros((10, 3))) is graph
