"""Draws of graphs: in batches and one by one, with the same distribution."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.models.graph_sampler import GraphSampler


def sampler():
    """A gamma scale, and a normal vector with that scale."""
    scale = pm.Gamma.dist(3.0, 2.0)
    vector = pm.Normal.dist(1.0, scale, shape=2)
    return GraphSampler([vector, scale], [scale, vector])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_draws_have_the_joint_distribution(one_by_one):
    """Kolmogorov-Smirnov at 1e-4 each, of the scale and of the standardised vector."""
    drawn = sampler()
    if one_by_one:
        drawn._size = None
    vector, scale = drawn.draw_graphs(np.random.default_rng(1), 300)
    assert drawn.one_by_one == one_by_one
    assert vector.shape == (300, 2)
    assert scale.shape == (300,)
    assert stats.kstest(scale, stats.gamma(3.0, scale=0.5).cdf).pvalue > 1e-4
    standard = (vector - 1.0) / scale[:, None]
    assert stats.kstest(standard.ravel(), stats.norm.cdf).pvalue > 1e-4


def test_one_generator_one_answer():
    first, again, other = (
        sampler().draw_graphs(np.random.default_rng(seed), 5)[0] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_row_that_can_not_be_drawn_is_not_a_number():
    """Scales of plus and minus one, with equal probabilities."""
    sign = pm.Bernoulli.dist(0.5)
    value = pm.Normal.dist(0.0, 2.0 * sign - 1.0)
    drawn = GraphSampler([value, sign], [sign, value])
    drawn._size = None
    values, signs = drawn.draw_graphs(np.random.default_rng(3), 40)
    assert 0 < np.isnan(values).sum() < 40
    assert np.all(signs[~np.isnan(values)] == 1)


def test_nothing_to_draw():
    assert GraphSampler([], []).draw_graphs(np.random.default_rng(1), 3) == []
