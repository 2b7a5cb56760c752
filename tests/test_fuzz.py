"""Random models whose log Z is exact: within five standard errors, or an honest verdict."""

import pytest

from benchmarks.fuzz import check_model
from benchmarks.random_models import PARTS, random_model

MODELS = 50


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MODELS, 10))
def test_random_models(first):
    """False alarms: below 5e-4 a model (t with 7 or more degrees of freedom, beyond 5, and ok)."""
    outcomes = [check_model(seed, draws=100) for seed in range(first, first + 10)]
    assert [outcome for outcome in outcomes if not outcome.sound] == []
    assert sum(outcome.verdict == "ok" for outcome in outcomes) > 5


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_every_part_is_used():
    used = {name for seed in range(MODELS) for name in random_model(seed)[2]}
    assert used == set(PARTS)
