"""Loops that draw: batched, each step and each draw has random numbers of its own."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_arm.models.graph.unrolling import MOST_STEPS
from pymc_arm.models.graph_sampler import GraphSampler

STEPS = 6


def make_walk(steps=STEPS):
    """Return a scale, and a walk with innovations of that scale that is made by a scan."""
    scale = pm.LogNormal.dist(0, 0.5)

    def step(rng, last, scale):
        following, change = pm.Normal.dist(0, scale, rng=rng).owner.outputs
        return following, last + change

    _, walk = pytensor.scan(
        step,
        outputs_info=[pytensor.shared(np.random.default_rng()), pt.zeros(())],
        non_sequences=[scale],
        n_steps=steps,
        return_updates=False,
    )
    return scale, walk


@pytest.mark.filterwarnings("ignore")
def test_a_walk_is_drawn_for_all_at_once():
    """Variances of t steps are t scale^2, within 5 standard errors; steps are not correlated."""
    scale, walk = make_walk()
    sampler = GraphSampler([scale, walk], [scale, walk])
    scales, walks = sampler.draw_graphs(np.random.default_rng(1), 4000)
    assert not sampler.one_by_one
    assert walks.shape == (4000, STEPS)
    changes = np.diff(walks, axis=1, prepend=0.0) / scales[:, None]
    assert np.abs((changes**2).mean(axis=0) - 1).max() < 5 * np.sqrt(2 / 4000)
    correlation = np.corrcoef(changes.T) - np.eye(STEPS)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)


@pytest.mark.filterwarnings("ignore")
def test_a_long_walk_is_drawn_one_at_a_time():
    scale, walk = make_walk(MOST_STEPS + 1)
    sampler = GraphSampler([scale, walk], [scale, walk])
    sampler.draw_graphs(np.random.default_rng(1), 2)
    assert sampler.one_by_one
