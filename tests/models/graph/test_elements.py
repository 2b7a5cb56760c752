"""Some elements of a graph are those of the whole, and the others are not computed."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_arm.models.graph.elements import pick_elements

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(5, 3))
NUMBER = np.array([0, 1, 2, 3, 4, 0, 1, 2])
X = pt.tensor("x", dtype="float64", shape=(8,))
EFFECT, MEAN = X[3:8], X[:3]

GRAPHS = {
    "sums of rows": (pt.exp(EFFECT[:, None] * MEAN) + MATRIX).sum(axis=1) * EFFECT**2 + MEAN[0],
    "all elements of a matrix": (EFFECT[:, None] + pt.sin(MEAN) * MATRIX).reshape((15,)),
    "groups by number": pt.tanh(EFFECT[NUMBER] * X),
    "a known shape": pt.specify_shape(X, (8,)) ** 2 + MEAN.sum(),
    "a sum over two axes": (MATRIX.T[:, :, None] * EFFECT[:, None] * X).sum(axis=(0, 2)),
    "what is no element by element": pt.cumsum(EFFECT) * EFFECT,
    "shapes that are computed": pt.zeros_like(EFFECT) + pt.alloc(MEAN[1], EFFECT.shape[0]),
    "whole numbers": pt.switch(pt.gt(EFFECT, 0), pt.arange(5), 1.0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_elements_are_those_of_the_whole(name):
    graph, point = GRAPHS[name], RNG.normal(size=8)
    whole = graph.eval({X: point})
    for places in ([0], [3, 1, 1], RNG.permutation(len(whole))):
        picked = pick_elements(graph, np.array(places))
        np.testing.assert_allclose(picked.eval({X: point}), whole[np.array(places)], rtol=1e-12)


def test_the_others_are_not_computed():
    """Of 1000 rows with 7 columns, three are taken: no array on the way has 7000 elements."""
    x = pt.tensor("x", dtype="float64", shape=(1001,))
    rows = pt.log1p(pt.exp(x[:1000][:, None] * np.arange(7.0) + x[1000])).sum(axis=1)
    picked = pick_elements(rows, np.array([5, 17, 900]))
    sizes = [
        np.prod(v.type.shape)
        for v in ancestors([picked])
        if v.owner is not None and None not in v.type.shape
    ]
    assert max(sizes) <= 1001
