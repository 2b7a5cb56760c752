"""R-hat, effective sample sizes and Pareto k, against known answers and ArviZ."""

import numpy as np
import pytest

from pymc_arm.estimation.convergence import (
    LARGEST_PARETO_K,
    effective_sizes,
    largest_sound_r_hat,
    pareto_k,
    split_r_hat,
)


def draws_of_many_kinds(chains=4, size=500):
    """Independent, correlated, shifted in one chain, and rounded columns."""
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(chains, size, 3))
    for step in range(1, size):
        draws[:, step, 1] = 0.9 * draws[:, step - 1, 1] + 0.4 * draws[:, step, 1]
    draws[0, :, 2] += 1.0
    return np.concatenate([draws, np.round(draws)], axis=2)


def test_the_same_as_arviz():
    arviz = pytest.importorskip("arviz")
    draws = draws_of_many_kinds()
    r_hat, effective = split_r_hat(draws), effective_sizes(draws)
    for column in range(draws.shape[2]):
        values = draws[:, :, column]
        sizes = [
            float(arviz.ess(values, method="bulk")),
            float(arviz.ess(values, method="tail", prob=(0.05, 0.95))),
        ]
        assert r_hat[column] == pytest.approx(float(arviz.rhat(values)), rel=1e-6)
        assert effective[column] == pytest.approx(min(sizes), rel=0.03)


def test_a_constant_has_no_r_hat():
    draws = np.ones((2, 100, 1))
    assert np.isnan(split_r_hat(draws)).all()
    assert np.isnan(effective_sizes(draws)).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("chains", "size"), [(4, 1000), (2, 60)])
def test_independent_draws_seldom_exceed_the_sound_r_hat(chains, size):
    """At a chance of 2 %, at most 14 of 200: a binomial exceeds that once in 3e5 times."""
    limit = largest_sound_r_hat(chains, size, 5, 0.02)
    rng = np.random.default_rng(2)
    beyond = [np.max(split_r_hat(rng.normal(size=(chains, size, 5)))) > limit for _ in range(200)]
    assert sum(beyond) <= 14


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [0.3, 0.6, 1.0, 1.5])
def test_pareto_k_of_pareto_weights(shape):
    """The mean of 50 fits is within 0.1 of the shape; one fit scatters by 0.1 at most."""
    rng = np.random.default_rng(3)
    found = [pareto_k(-shape * np.log(rng.random(20_000))) for _ in range(50)]
    assert np.mean(found) == pytest.approx(shape, abs=0.1)


def test_weights_in_clusters_are_not_heavy_tailed():
    """Two modes, of which q has different shares: no weight is above four times the mean."""
    rng = np.random.default_rng(4)
    log_weights = np.where(rng.random(20_000) < 0.015, 1.3, 0.0) + 0.02 * rng.normal(size=20_000)
    assert pareto_k(log_weights) < 0.3


def test_equal_weights_have_no_tail():
    assert pareto_k(np.zeros(1000)) == -np.inf
    assert pareto_k(np.full(1000, -np.inf)) == -np.inf


def test_one_weight_that_decides_is_seen():
    rng = np.random.default_rng(5)
    assert pareto_k(4 * rng.normal(size=5000)) > LARGEST_PARETO_K
