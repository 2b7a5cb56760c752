"""Bayes factors: exact ones, their intervals, and their words."""

import math

import numpy as np
import pytest

from pymc_arm.comparison.factors import BayesFactor, bayes_factor, subtract
from pymc_arm.results import Evidence, pool
from tests.comparison.exact_models import beta_binomial, location, regression

OPTIONS = {"draws": 200, "chains": 4, "progressbar": False}

PAIRS = {
    "beta-binomial": lambda: (beta_binomial(1.0), beta_binomial(30.0)),
    "nested regressions": lambda: (regression(1), regression(2)),
    "point null": lambda: (location(False), location(True)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("pair", PAIRS)
def test_exact_bayes_factors(pair):
    """False alarms: 1e-3 a case; the rate over 40 replicates is in benchmarks/bayes_factors.py."""
    (first, log_first), (second, log_second) = PAIRS[pair]()
    factor = bayes_factor(first, second, random_seed=1, **OPTIONS)
    low, high = factor.log_interval(0.999)
    assert low <= log_first - log_second <= high
    assert factor.standard_error < 0.2


@pytest.mark.one_version
@pytest.mark.statistical
def test_intervals_cover_at_their_rate():
    """Of 400 simulated pairs, 95 % within 4 binomial standard deviations: false alarms 1e-4."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        # Chains whose Z-hat is log-normal about Z, with mean exactly Z.
        spreads = (0.1, 0.3)
        pooled = [
            pool((rng.normal(-0.5 * spread**2, spread, size=4)).tolist(), [0.0] * 4)
            for spread in spreads
        ]
        low, high = bayes_factor(*pooled).log_interval()
        covered += low <= 0.0 <= high
    assert abs(covered / 400 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 400)


def test_zero_evidence_of_the_second():
    nothing = Evidence(-math.inf, math.inf, 1)
    factor = bayes_factor(Evidence(-1.0, 0.1, 3), nothing)
    assert factor.value == math.inf
    assert factor.strength() == "unknown"
    assert "unknown error" in str(factor)


@pytest.mark.parametrize("log", [1e5, -1e5, 709.9, -745.2])
def test_never_an_overflow(log):
    factor = bayes_factor(Evidence(log, 0.1, 3), Evidence(0.0, 0.1, 3), prior_odds=2.0)
    assert factor.log == log
    assert factor.log10 == pytest.approx(log / math.log(10))
    assert factor.log_posterior_odds == pytest.approx(log + math.log(2))
    for value in (factor.value, factor.posterior_odds, *factor.interval()):
        assert value >= 0
    assert factor.probability in (0.0, 1.0)
    assert f"e+{int(abs(factor.log10))}" in str(factor)


def test_posterior_odds():
    factor = bayes_factor(Evidence(math.log(6), 0, 3), Evidence(0, 0, 3), prior_odds=0.5)
    assert factor.posterior_odds == pytest.approx(3)
    assert factor.probability == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("factor", "kass_raftery", "jeffreys"),
    [
        (2, "not worth more than a bare mention", "not worth more than a bare mention"),
        (5, "positive", "substantial"),
        (15, "positive", "strong"),
        (50, "strong", "very strong"),
        (120, "strong", "decisive"),
        (200, "very strong", "decisive"),
    ],
)
def test_words(factor, kass_raftery, jeffreys):
    for log in (math.log(factor), -math.log(factor)):
        exact = BayesFactor(log, 0.0, math.inf)
        assert exact.strength() == kass_raftery
        assert exact.strength("jeffreys") == jeffreys


def test_words_say_how_sure_they_are():
    assert BayesFactor(3.0, 0.5, 10).strength() == "positive to strong"
    assert BayesFactor(0.5, 0.5, 10).strength() == "not worth more than a bare mention to positive"
    unsure = BayesFactor(0.5, 0.5, 10, "a", "b")
    assert not unsure.settled
    assert str(unsure).startswith("The data lean towards a over b")
    sure = BayesFactor(-4.0, 0.1, 10, "a", "b", scale="jeffreys")
    assert str(sure).startswith("The data favour b over a: Bayes factor 54.6")
    assert "Jeffreys: very strong" in str(sure)


def test_errors_name_the_argument():
    one = Evidence(0.0, 0.0, 3)
    with pytest.raises(ValueError, match="scale='bayes'"):
        bayes_factor(one, one, scale="bayes")
    with pytest.raises(ValueError, match="prior_odds=-1"):
        bayes_factor(one, one, prior_odds=-1)


def test_difference_has_the_error_of_both():
    """Welch's degrees of freedom: (0.09 + 0.16)^2 / (0.09^2 / 3 + 0.16^2 / 8)."""
    difference = subtract(Evidence(-1.0, 0.3, 3), Evidence(-2.5, 0.4, 8))
    assert difference.log_evidence == 1.5
    assert difference.standard_error == pytest.approx(0.5)
    assert difference.degrees_of_freedom == pytest.approx(0.0625 / (0.0081 / 3 + 0.0256 / 8))
    assert subtract(Evidence(0.0, 0.0, 3), Evidence(0.0, 0.0, 3)).degrees_of_freedom == math.inf
    nothing = Evidence(-math.inf, math.inf, 1)
    assert math.isnan(subtract(nothing, nothing).log_evidence)
