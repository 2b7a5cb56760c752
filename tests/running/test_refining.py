"""What finished chains amount to: modes that were found, repaired or missed."""

import numpy as np
import pytest

from pymc_arm.estimation.bridge import Bridge
from pymc_arm.estimation.weighing import Mode
from pymc_arm.running.refining import bridge_mapper, describe_modes, draw_prior
from pymc_arm.testing import TiltedNormals


def mode(found_share):
    return Mode(-1.0, 0.5, found_share, component=None)


def bridges(share):
    return [Bridge(0.0, 0.01, 0.01, 0.9, 1, modes_share=share)] * 2


def test_modes_with_their_particles_are_counted():
    assert describe_modes([mode(0.5)] * 2, bridges(np.nan)) == {"modes_found": 2}


def test_a_mode_that_was_weighed_is_repaired():
    found = describe_modes([mode(0.5), mode(0.0)], bridges(0.4))
    assert found == {"modes_found": 2, "repaired_modes": 1, "repaired_share": pytest.approx(0.4)}


def test_a_mode_that_could_not_be_weighed_is_missed():
    found = describe_modes([mode(0.5), mode(0.0)], bridges(np.nan))
    assert found["missed_expected_share"] == 0.5
    assert found["missed_found_share"] == 0.0


def test_a_mode_of_no_weight_is_neither():
    assert describe_modes([mode(0.5), mode(0.0)], bridges(1e-4)) == {"modes_found": 2}


def test_prior_draws_are_those_of_the_start():
    path = TiltedNormals([0.1, 0.2, 0.3])
    expected = path.initialize(np.random.default_rng(1), 5)[0]
    np.testing.assert_array_equal(draw_prior(path, 5, np.random.default_rng(1)), expected)


def test_bridges_come_back_in_order():
    found = bridge_mapper(TiltedNormals([0.1, 0.2, 0.3]), 2, 4)(lambda number: number, 4)
    assert found == [0, 1, 2, 3]
