"""Draws from the prior do not depend on what happens to be wrong."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.prior import PriorSampler


@pytest.fixture
def sampler():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0, shape=3)
        pm.Normal("x", 0.0, scale)
    return PriorSampler(model)


def failing(error):
    def draw(rng, size):
        raise error

    return draw


def test_what_cannot_be_batched_is_drawn_one_by_one(sampler, monkeypatch):
    monkeypatch.setattr(sampler, "_draw_batched", failing(NotImplementedError("no batches")))
    scale, x = sampler.draw(np.random.default_rng(1), 5)
    assert (scale.shape, x.shape) == ((5, 3), (5, 3))


def test_batches_are_not_given_up_once_they_have_worked(sampler, monkeypatch):
    first = sampler.draw(np.random.default_rng(1), 5)
    with monkeypatch.context() as patch:
        patch.setattr(sampler, "_draw_batched", failing(ValueError("bad luck")))
        with pytest.raises(ValueError, match="bad luck"):
            sampler.draw(np.random.default_rng(1), 5)
    for one, other in zip(first, sampler.draw(np.random.default_rng(1), 5), strict=True):
        np.testing.assert_array_equal(one, other)


def test_want_of_memory_is_not_taken_for_want_of_a_batch(sampler, monkeypatch):
    monkeypatch.setattr(sampler, "_draw_batched", failing(MemoryError("too many")))
    with pytest.raises(MemoryError, match="too many"):
        sampler.draw(np.random.default_rng(1), 5)


def test_draws_that_are_taken_one_by_one_are_few(monkeypatch):
    """The share of the prior that is possible is found by 2000 draws; a batch would have 11,000."""
    with pm.Model() as model:
        scale = pm.Normal("scale", 1.0, 1.0)
        pm.Normal("x", 0.0, scale)  # no batch has only scales above zero
    sampler = PriorSampler(model)
    sizes, draw_graphs = [], sampler.draw_graphs

    def counted(rng, size):
        sizes.append(size)
        return draw_graphs(rng, size)

    monkeypatch.setattr(sampler, "draw_graphs", counted)
    sampler.prepare()
    assert sampler.one_by_one
    assert sum(sizes) == 2000
    assert abs(sampler.log_mass - np.log(0.84134)) < 4 * np.sqrt(0.19 / 1500)
