import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_arm.algorithm.resampling import (
    SCHEMES,
    effective_sample_size,
    log_mean_exp,
    log_sum_exp,
    normalize,
)


@pytest.mark.parametrize(
    "values", [[0.0, 1.0, -2.0], [-1e4, -1e4 + 1], [-np.inf, 3.0], [700.0] * 9]
)
def test_log_sum_exp(values):
    values = np.array(values)
    assert log_sum_exp(values) == pytest.approx(logsumexp(values))
    assert log_mean_exp(values) == pytest.approx(logsumexp(values) - np.log(len(values)))
    assert logsumexp(normalize(values)) == pytest.approx(0, abs=1e-9)


def test_log_sum_exp_of_nothing():
    assert log_sum_exp(np.array([])) == -np.inf
    assert log_sum_exp(np.full(3, -np.inf)) == -np.inf
    assert np.isnan(log_sum_exp(np.array([0.0, np.nan])))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1, 1, 1], 4), ([1, 0, 0], 1), ([2, 1, 1], 16 / 6), ([0, 0], 0), ([5], 1)],
)
def test_effective_sample_size(weights, expected):
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.array(weights, dtype=float))
    assert effective_sample_size(log_weights) == pytest.approx(expected)
    assert effective_sample_size(log_weights + 1000) == pytest.approx(expected)


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [7, 20])
def test_expected_counts_are_the_weights(scheme, size):
    """False alarms: 6e-4 a case (ten comparisons at 4 standard errors)."""
    rng = np.random.default_rng(1)
    log_weights = normalize(rng.normal(size=10))
    replicates = 4000
    counts = np.zeros((replicates, 10))
    for row in counts:
        row += np.bincount(SCHEMES[scheme](rng, log_weights, size), minlength=10)
    assert np.all(counts.sum(axis=1) == size)
    errors = counts.std(axis=0) / np.sqrt(replicates) + 1e-9
    assert np.all(np.abs(counts.mean(axis=0) - size * np.exp(log_weights)) < 4 * errors)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weightless_particles_are_never_chosen(scheme):
    log_weights = np.array([-np.inf, np.log(0.3), -np.inf, np.log(0.7), -np.inf])
    chosen = SCHEMES[scheme](np.random.default_rng(1), log_weights, 1000)
    assert set(chosen) == {1, 3}


@pytest.mark.parametrize("scheme", ["residual", "systematic", "stratified"])
@pytest.mark.parametrize("size", [9, 10, 100, 333, 1000])
def test_equal_weights_keep_every_particle(scheme, size):
    """9, 10 and 100 are sizes where size * exp(-log(size)) rounds to less than one."""
    equal = np.full(size, -np.log(size))
    chosen = SCHEMES[scheme](np.random.default_rng(1), equal, size)
    if scheme == "residual":
        np.testing.assert_array_equal(chosen, np.arange(size))
    else:
        assert len(np.unique(chosen)) > 0.6 * size


@pytest.mark.parametrize("scheme", ["residual", "systematic"])
def test_copies_are_within_one_of_their_expectation(scheme):
    rng = np.random.default_rng(1)
    log_weights = normalize(rng.normal(size=30))
    counts = np.bincount(SCHEMES[scheme](rng, log_weights, 200), minlength=30)
    expected = 200 * np.exp(log_weights)
    assert np.all(counts >= np.floor(expected))
    if scheme == "systematic":
        assert np.all(counts <= np.ceil(expected))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [1, 5])
def test_one_particle(scheme, size):
    assert SCHEMES[scheme](np.random.default_rng(1), np.zeros(1), size).tolist() == [0] * size


@pytest.mark.statistical
def test_residual_has_less_variance_than_multinomial():
    """False alarms: below 1e-9; the variances differ by a factor of two or more."""
    rng = np.random.default_rng(2)
    log_weights, values = normalize(rng.normal(size=20)), rng.normal(size=20)
    variances = {
        scheme: np.var([values[SCHEMES[scheme](rng, log_weights, 40)].mean() for _ in range(2000)])
        for scheme in ("residual", "multinomial")
    }
    assert variances["residual"] < variances["multinomial"]
