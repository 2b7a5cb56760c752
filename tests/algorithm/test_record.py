"""What is noted of a step: its info, and where its particles come from."""

import numpy as np
import pytest

from pymc_arm.algorithm.path import Moved, Smoothed
from pymc_arm.algorithm.record import StepRecord
from pymc_arm.algorithm.state import Batch, ParticleSet, State
from pymc_arm.testing import TiltedNormals

SIZE = 4
PATH = TiltedNormals([0.1, 0.1])
PARTICLES = np.arange(SIZE)[:, None] / 10
EQUAL = np.full(SIZE, -np.log(SIZE))
RATIOS = np.log([1.0, 2.0, 3.0, 2.0])


def start():
    return State.first(1, PARTICLES, EQUAL, -1.0)


def record(moved=None):
    base = Batch.of(PARTICLES, EQUAL, Smoothed(RATIOS))
    return StepRecord(start(), moved, base.effective_fraction, ParticleSet((base,)), 0)


def test_a_step_without_moves_and_resampling_keeps_every_particle():
    state, info = record().end(PATH, 2, PARTICLES, EQUAL, np.log(2))
    assert (state.position, state.step, state.log_evidence) == (2, 1, pytest.approx(np.log(2) - 1))
    np.testing.assert_array_equal(state.ancestors, np.arange(SIZE))
    assert (info.kernel_calls, info.rounds, info.resampled) == (0, 0, False)
    assert np.isnan(info.acceptance_rate)
    # sum (W / m - 1)^2 / R, with m = 2.
    assert info.increment_variance == pytest.approx(np.mean([0.25, 0, 0.25, 0]))


def test_copies_share_an_ancestor_until_they_are_moved():
    indices = np.array([1, 2, 2, 3])
    state, info = record().resampled(indices, "residual").end(PATH, 2, PARTICLES, EQUAL, 0.0)
    assert info.resampled
    assert state.has_copies
    np.testing.assert_array_equal(state.ancestors, indices)
    moved = Moved(PARTICLES, 0.6, 0.2)
    base = Batch.of(PARTICLES, EQUAL, Smoothed(RATIOS))
    after = StepRecord(state, moved, 1.0, ParticleSet((base,)), 0)
    later, info = after.end(PATH, 3, PARTICLES, EQUAL, 0.0)
    assert not later.has_copies
    assert (info.kernel_calls, info.distinct_fraction) == (SIZE, 1.0)
    assert (info.acceptance_rate, info.autocorrelation) == (0.6, 0.2)


def test_corrections_of_the_new_variable_add_to_the_variance():
    plain = record().end(PATH, 2, PARTICLES, EQUAL, 0.0)[1]
    corrected = record().integrated(0.1).augmented(EQUAL, RATIOS)
    info = corrected.end(PATH, 2, PARTICLES, EQUAL, 0.0)[1]
    # The corrections are those ratios, so that they add the same variance once more.
    assert info.predicted_variance == pytest.approx(2 * plain.predicted_variance)
    assert info.integration_error == 0.1
