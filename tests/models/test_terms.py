"""Terms and coordinates of a model."""

from functools import cache

import numpy as np
import pymc as pm

from pymc_arm.models.compiled import compile_model


@cache
def model():
    with pm.Model() as built:
        pm.Normal("a", 0, 1, shape=(2, 3))
        pm.Bernoulli("b", 0.3)
        walk = pm.GaussianRandomWalk("walk", sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=4)
        pm.MvNormal("field", np.zeros(3), cov=np.eye(3) + 0.5)
        pm.Normal("y", walk, 1, observed=np.zeros(4))
        pm.Potential("p", -(walk[0] ** 2))
    return built


def test_every_variable_has_its_slice():
    layout = compile_model(model()).plan.layout
    assert [slot.name for slot in layout.slots] == ["a", "b", "walk", "field"]
    assert [slot.size for slot in layout.slots] == [6, 1, 4, 3]
    assert [slot.start for slot in layout.slots] == [0, 6, 7, 11]
    assert layout.dimension == 14
    assert layout.discrete.tolist() == [False] * 6 + [True] + [False] * 7
    assert layout.slot_of(8).label(8) == "walk[1]"


def test_ravel_and_unravel_are_inverse():
    layout = compile_model(model()).plan.layout
    points = np.arange(28.0).reshape(2, 14)
    np.testing.assert_array_equal(layout.ravel(layout.unravel(points), 2), points)
    assert [value.shape[1:] for value in layout.unravel(points)] == [(2, 3), (), (4,), (3,)]


def test_sums_that_pymc_has_taken_are_opened():
    path = compile_model(model())
    sizes = dict(zip([b.name for b in path.density.blocks], path.density.sizes, strict=True))
    assert sizes["walk"] == 4
    assert sizes["field"] == 3
    assert sizes["y"] == 4
    assert sizes["p"] == 1
    # The k-th term of a multivariate normal is that of its k-th element given those before.
    field = path.plan.scopes[path.density.offsets[3] : path.density.offsets[4], 11:14]
    np.testing.assert_array_equal(field, np.tril(np.ones((3, 3), dtype=bool)))
