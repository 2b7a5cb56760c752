"""Symmetries are found in models that have them, and in no others."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.symmetry.find import find_symmetries, free_columns, holds
from tests.models.symmetry import models


def look_for(model):
    """Return what was found, the density, and how many values that took."""
    path = compile_model(model)
    layout, count = path.plan.layout, [0]
    prior = layout.ravel(path.prior.draw(np.random.default_rng(1), 50), 50)

    def log_density(points):
        count[0] += len(points)
        return path.log_density(points)

    found = find_symmetries(log_density, layout.slots, prior, np.random.default_rng(0))
    return found, log_density, count[0]


FOUND = {
    "mixture": (models.mixture, [("mean, sd, weight", 3, True, False)]),
    "factors": (models.factors, [("loading, factor", 2, True, True)]),
    "network": (models.network, [("weights0, out", 3, True, True)]),
    "squares": (models.squares, [("x", 4, False, True)]),
    "product": (models.product, [("a, b", 1, False, True)]),
}


@pytest.mark.parametrize("name", FOUND)
def test_symmetries_are_found_with_few_values(name):
    make, expected = FOUND[name]
    found, _, count = look_for(make())
    assert [(s.name, len(s.blocks), s.permuted, s.flipped) for s in found.symmetries] == expected
    assert count < 250


def test_two_layers_of_the_same_size_are_told_apart():
    found, _, _ = look_for(models.network((3, 3)))
    # The inputs are as many as the neurons, and no symmetry.
    assert [(s.name, s.order) for s in found.symmetries] == [
        ("weights0, weights1", 48),
        ("weights1, out", 48),
    ]
    for symmetry in found.symmetries:
        assert len(free_columns(symmetry, found.symmetries))


@pytest.mark.parametrize("name", models.without_symmetry())
def test_no_symmetry_is_found_where_there_is_none(name):
    found, _, count = look_for(models.without_symmetry()[name]())
    assert found.symmetries == ()
    assert count < 250


def test_components_with_the_same_prior_are_told_from_others():
    found, _, _ = look_for(models.mixture(center=(3.0, 0.0, 0.0)))
    (symmetry,) = found.symmetries
    assert symmetry.order == 2
    mean = compile_model(models.mixture()).plan.layout.slots
    start = next(slot.start for slot in mean if slot.name == "mean")
    assert set(symmetry.blocks[:, 0]) == {start + 1, start + 2}


def test_what_holds_at_prior_draws_alone_is_refused_elsewhere():
    """A bump that no prior draw comes near to."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Potential("bump", pm.math.where(x[0] > 20, -1.0, 0.0))
    found, log_density, _ = look_for(model)
    (symmetry,) = [each for each in found.symmetries if each.permuted]
    assert holds(log_density, found.extension, symmetry, np.array([[1.0, 2.0]]))
    assert not holds(log_density, found.extension, symmetry, np.array([[25.0, 2.0]]))
