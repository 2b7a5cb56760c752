"""Particle sets and lineages: the bookkeeping of a step."""

import numpy as np
import pytest

from pymc_arm import Moved, Smoothed
from pymc_arm.algorithm.state import Batch, Lineage, ParticleSet
from pymc_arm.testing import GaussianChain


def batch(size, ratio=0.0):
    equal = np.full(size, -np.log(size))
    return Batch.of(np.arange(float(size))[:, None], equal, Smoothed(np.full(size, ratio)))


def test_batches_share_the_weight_by_their_size():
    chi = ParticleSet().include(batch(30)).include(batch(10))
    weights = np.exp(chi.log_weights)
    assert len(chi) == 40
    assert weights.sum() == pytest.approx(1)
    assert weights[:30].sum() == pytest.approx(0.75)
    assert chi.effective_fraction == pytest.approx(1)


def test_equal_ratios_have_no_variance():
    chi = ParticleSet((batch(20, ratio=-3.0),))
    assert chi.increment_variance == pytest.approx(0, abs=1e-12)
    assert chi.predicted_variance == pytest.approx(0, abs=1e-12)
    nothing = ParticleSet((batch(20, ratio=-np.inf),))
    assert nothing.increment_variance == np.inf


def test_what_was_moved_is_counted():
    first = batch(4)
    moved = Moved(first.particles, 0.5, 0.1)
    again = Batch.moved(moved, first.log_weights, first.smoothed, np.arange(4))
    chi = ParticleSet((first, again))
    assert (chi.unmoved, chi.kernel_calls) == (4, 4)
    assert (chi.acceptance_rate, chi.autocorrelation) == (0.5, 0.1)
    particles, proposal = chi.join(GaussianChain([0.1]))
    assert particles.shape == (8, 1)
    assert proposal is None


def test_copies_are_known_until_they_move():
    lineage = Lineage.start(4)
    assert lineage.distinct_fraction == 1
    copied = lineage.resample(np.log([0.7, 0.1, 0.1, 0.1]), np.array([0, 0, 0, 1]), "residual")
    assert copied.distinct_fraction < 1
    assert copied.distinct_fraction == 0.5
    assert copied.moved().distinct_fraction == 1
