"""Bridges over the steps of a path: their estimate and error, over many replicates."""

import numpy as np
import pytest

from pymc_arm.estimation.ladder import bridge_ladder, weigh_draws

DIMENSION, DRAWS = 30, 200
BETAS = np.array([0.0, 0.1, 0.25, 0.45, 0.7, 1.0])
SHIFT, PRECISION = 0.6, 4.0
# f = exp(-2 sum (x - 0.6)^2)
TRUTH = 0.5 * DIMENSION * np.log(2 * np.pi / PRECISION)


def log_ratio(x):
    """Return log f - log q, with a standard normal as q."""
    log_q = -0.5 * (x**2).sum(axis=1) - 0.5 * DIMENSION * np.log(2 * np.pi)
    return -0.5 * PRECISION * ((x - SHIFT) ** 2).sum(axis=1) - log_q


def draw(rng, beta, size):
    """Draw from q^(1 - beta) f^beta, which is normal."""
    precision = 1 - beta + beta * PRECISION
    mean = beta * PRECISION * SHIFT / precision
    return mean + rng.normal(size=(size, DIMENSION)) / np.sqrt(precision)


@pytest.mark.statistical
def test_the_error_is_what_it_says():
    errors, claimed, forward = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        ratios = [log_ratio(draw(rng, beta, DRAWS)) for beta in BETAS]
        found = bridge_ladder(BETAS, ratios, np.arange(DRAWS))
        assert found.trustworthy
        errors.append(found.log_evidence - TRUTH)
        claimed.append(found.variance**0.5)
        steps = zip(np.diff(BETAS), ratios, strict=False)
        forward.append(sum(np.log(np.mean(np.exp(width * r))) for width, r in steps) - TRUTH)
    errors, claimed = np.array(errors), np.array(claimed)
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))
    # The standard deviation of 300 values is known to 4 %.
    assert 0.85 < np.sqrt(np.mean((errors / claimed) ** 2)) < 1.15
    # From below alone, the same draws do worse.
    assert np.std(forward) > 1.2 * errors.std()


@pytest.mark.statistical
def test_families_at_the_end_count_once():
    errors, claimed = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        ratios = [log_ratio(draw(rng, beta, DRAWS)) for beta in BETAS[:-1]]
        last = np.repeat(log_ratio(draw(rng, 1.0, DRAWS // 10)), 10)
        found = bridge_ladder(BETAS, [*ratios, last], np.arange(DRAWS) // 10)
        errors.append(found.log_evidence - TRUTH)
        claimed.append(found.variance**0.5)
    assert 0.8 < np.sqrt(np.mean((np.array(errors) / claimed) ** 2)) < 1.2


def test_no_overlap_is_no_estimate():
    ratios = [np.full(50, -np.inf), np.zeros(50)]
    found = bridge_ladder(np.array([0.0, 1.0]), ratios, np.arange(50))
    assert not found.trustworthy


def test_a_single_step_is_importance_sampling():
    ratio = np.random.default_rng(1).normal(size=1000)
    found = weigh_draws(ratio)
    assert found.log_evidence == pytest.approx(np.log(np.mean(np.exp(ratio))))
    assert found.method == "ladder"
    assert found.trustworthy
    heavy = weigh_draws(5 * np.random.default_rng(1).standard_cauchy(size=1000))
    assert not heavy.trustworthy
