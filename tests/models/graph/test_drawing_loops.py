"""Loops that draw: batched, each step and each draw has random numbers of its own."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

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
def test_a_long_autoregression_is_drawn_for_all_at_once():
    """The variance at the end is that of the stationary distribution, within 5 standard errors."""
    with pm.Model():
        weight = pm.Uniform("weight", 0.3, 0.5)
        start = pm.Normal.dist(0, 1)
        states = pm.AR("states", rho=[weight], sigma=0.5, init_dist=start, steps=400)
        sampler = GraphSampler([weight, states], [weight, states])
        weights, draws = sampler.draw_graphs(np.random.default_rng(1), 3000)
    assert not sampler.one_by_one
    assert draws.shape == (3000, 401)
    noise = (draws[:, 1:] - weights[:, None] * draws[:, :-1]) / 0.5
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / noise.size)
    assert abs(np.mean(noise[:, 1:] * noise[:, :-1])) < 5 / np.sqrt(noise.size)
    assert abs(np.mean(noise[1:, 5] * noise[:-1, 5])) < 5 / np.sqrt(len(noise))


@pytest.mark.filterwarnings("ignore")
def test_a_loop_that_depends_on_nothing_is_drawn_anew_for_each():
    with pm.Model():
        other = pm.Normal("other")
        states = pm.AR("states", rho=[0.5], sigma=1, init_dist=pm.Normal.dist(0, 1), steps=5)
        sampler = GraphSampler([other, states, other + states], [other, states])
        others, draws, sums = sampler.draw_graphs(np.random.default_rng(1), 50)
    assert not sampler.one_by_one
    assert all(len(np.unique(column)) == 50 for column in draws.T)
    np.testing.assert_allclose(sums, others[:, None] + draws)
