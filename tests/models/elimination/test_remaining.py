"""The variables that are left: their coordinates, and prior draws."""

import numpy as np
import pytest

from pymc_arm.models.elimination.remaining import RemainingPrior, remaining_layout
from tests.models.elimination.labelled import path


def test_coordinates_close_up_where_variables_are_gone():
    layout = path().plan.layout
    rest = remaining_layout(layout, frozenset({"mean"}))
    assert [slot.name for slot in rest.slots] == ["share", "effect"]
    assert [slot.start for slot in rest.slots] == [0, 1]
    assert rest.dimension == layout.dimension - 2
    assert remaining_layout(layout, frozenset()).dimension == layout.dimension


class Whole:
    """A prior of three variables."""

    log_mass, integrated = -0.7, frozenset({"a"})

    def draw(self, rng, size):
        return [rng.normal(size=(size, k)) for k in (1, 2, 3)]


def test_draws_are_joint_draws_without_the_others():
    whole, prior = Whole(), RemainingPrior(Whole(), [True, False, True])
    found = prior.draw(np.random.default_rng(1), 5)
    expected = whole.draw(np.random.default_rng(1), 5)
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[2])
    assert prior.log_mass == pytest.approx(-0.7)
    assert prior.integrated == {"a"}
