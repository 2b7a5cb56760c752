import numpy as np
import pytest

from pymc_arm import Settings, run
from pymc_arm.algorithm.allocation import increment_variances, optimal_counts, predicted_variance
from pymc_arm.running.pilot import pilot
from pymc_arm.testing import TiltedNormals
from tests.replicates import log_evidences

# Resampled at every step and then moved to independent exact draws: what Theorem 1 assumes.
IDEAL = {"variant": "rm", "resample_threshold": 1.0}


def minimum_variance(variances, budget):
    """Return V_min, eq. (7) of the paper."""
    return np.sum(np.sqrt(variances)) ** 2 / budget


def test_optimal_counts_follow_the_square_roots():
    counts = optimal_counts([0.01, 0.04, 1.0, 0.09], 1600)
    np.testing.assert_allclose(counts, [100, 200, 1000, 300], atol=1)


def test_optimal_counts_minimise_the_predicted_variance():
    variances, rng = np.array([0.2, 1.5, 0.03]), np.random.default_rng(1)
    counts = optimal_counts(variances, 100_000)
    least = np.sum(variances / counts)
    assert least == pytest.approx(minimum_variance(variances, 100_000), rel=1e-3)
    for _ in range(20):
        other = rng.dirichlet(np.ones(3)) * 100_000
        assert np.sum(variances / other) >= minimum_variance(variances, 100_000)


@pytest.mark.parametrize("variances", [[0.0, 0.0, 4.0], [1e-9, 1.0, 1e-9], [0.0] * 5, [1.0]])
@pytest.mark.parametrize("budget", [10, 11, 1000])
def test_optimal_counts_keep_to_the_budget(variances, budget):
    counts = optimal_counts(variances, budget)
    assert counts.sum() <= budget
    assert counts.min() >= 2
    assert counts.sum() > budget - 2 * len(counts)


def test_optimal_counts_of_no_steps():
    assert optimal_counts([], 100).tolist() == []


def test_optimal_counts_name_what_is_wrong():
    with pytest.raises(ValueError, match="budget=5"):
        optimal_counts([1.0, 1.0, 1.0], 5)
    with pytest.raises(ValueError, match="pilot run"):
        optimal_counts([1.0, np.inf], 50)


@pytest.mark.statistical
def test_increment_variances_estimate_theirs():
    """False alarms: below 1e-4; the bound is more than four standard deviations of v-hat."""
    path = TiltedNormals([0.1, 0.3, 0.6])
    history = run(path, np.random.default_rng(1), 50_000, **IDEAL).history
    np.testing.assert_allclose(increment_variances(history), path.exact_variances, rtol=0.1)


@pytest.mark.statistical
def test_single_run_predicts_the_variance_of_many():
    """Theorem 1 within a factor of 1.5, over 200 runs.

    The observed variance has a relative standard deviation of 0.10, the prediction one of 0.05,
    so a factor of 1.5 is 3.6 of them: false alarms 3e-4.
    """
    path = TiltedNormals([0.5, 0.3, 0.6, 0.4])
    histories = [run(path, rng, 250, **IDEAL) for rng in np.random.default_rng(1).spawn(200)]
    observed = np.var([result.log_evidence for result in histories], ddof=1)
    predictions = np.array([predicted_variance(result.history) for result in histories])
    exact = np.sum(path.exact_variances / 250)
    assert 1 / 1.5 < predictions[0] / observed < 1.5
    assert np.mean(np.abs(np.log(predictions / observed)) < np.log(1.5)) > 0.95
    assert 1 / 1.5 < observed / exact < 1.5


@pytest.mark.statistical
@pytest.mark.parametrize("resample_threshold", [0.0, 0.5])
def test_prediction_counts_weights_that_are_carried_over(resample_threshold):
    """Within a factor of 1.5 over 200 runs, where sum v_n / R_n would be too small by a half.

    False alarms: 3e-4 a case, as above.
    """
    path = TiltedNormals([0.4] * 8, correlation=0.8)
    options = {"variant": "rm", "resample_threshold": resample_threshold}
    results = [run(path, rng, 400, **options) for rng in np.random.default_rng(1).spawn(200)]
    observed = np.var([result.log_evidence for result in results], ddof=1)
    predicted = np.median([predicted_variance(result.history) for result in results])
    assert 1 / 1.5 < predicted / observed < 1.5
    naive = np.sum(path.exact_variances) / 400
    assert naive < predicted


def test_prediction_is_the_theorems_for_equal_weights():
    history = run(TiltedNormals([0.5, 0.9]), np.random.default_rng(1), 50, **IDEAL).history
    expected = np.sum(increment_variances(history) / 50)
    assert predicted_variance(history) == pytest.approx(expected)


@pytest.mark.statistical
def test_optimal_allocation_gains_what_theorem_1_predicts():
    """Ratio of variances at most the predicted one times 1.3, at the same R_tot.

    The ratio of two variances over 1000 runs has a relative standard deviation of 0.063, so the
    bound is 4.7 of them away: false alarms 2e-6.
    """
    path, budget = TiltedNormals([0.2, 1.0, 0.2]), 3000
    rng = np.random.default_rng(1)
    replay, counts = pilot(path, 2000, rng, Settings(**IDEAL), optimal=True, budget=budget)
    assert np.argmax(counts) == 1
    assert sum(counts) <= budget
    optimal = np.var(log_evidences(replay, 1000, 1, seed=2, counts=counts, **IDEAL))
    equal = np.var(log_evidences(path, 1000, budget // 3, seed=3, **IDEAL))
    predicted_equal = np.sum(path.exact_variances) / (budget // 3)
    predicted = minimum_variance(path.exact_variances, budget) / predicted_equal
    assert predicted < 0.6
    assert optimal / equal < 1.3 * predicted
