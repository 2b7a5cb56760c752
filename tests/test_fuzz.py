"""Random models whose log Z is exact: within five standard errors, or an honest verdict."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

from benchmarks.fuzz import check_model
from benchmarks.random_models import PARTS, random_model
from benchmarks.suite.density import BatchedDensity
from benchmarks.suite.integrate import Plan, integrate
from benchmarks.wild_parts import WILD_PARTS
from tests.replicates import first_with_every_version

MODELS = 50


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("first", first_with_every_version(range(0, MODELS, 10)))
def test_random_models(first):
    """False alarms: below 5e-4 a model (t with 7 or more degrees of freedom, beyond 5, and ok)."""
    outcomes = [check_model(seed, draws=100) for seed in range(first, first + 10)]
    assert [outcome for outcome in outcomes if not outcome.sound] == []
    assert sum(outcome.verdict == "ok" for outcome in outcomes) > 5


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_every_part_is_used():
    used = {name for seed in range(MODELS) for name in random_model(seed)[2]}
    assert used == set(PARTS)


@pytest.mark.one_version
@pytest.mark.parametrize("name", WILD_PARTS)
@pytest.mark.filterwarnings("ignore")
def test_evidence_of_wild_parts_is_that_of_their_density(name):
    """PyMC's own density, integrated; a part with ordered variables lacks log k! there."""
    for seed in range(2):
        with pm.Model() as model:
            exact = WILD_PARTS[name](np.random.default_rng([5, seed]), "part")
        density = BatchedDensity(model)
        discrete = {"part_bound": np.arange(1, 200), "part_x": np.arange(40)}
        if name == "random_bound":
            plan = Plan(enumerated=discrete)
        elif name == "ordered_variables":
            size = density.size
            plan = Plan(offset=float(gammaln(size + 1)), draws=20_000)
        else:
            plan = Plan(draws=20_000)
        estimate, error = integrate(density, plan, np.random.default_rng(1))
        assert abs(estimate - exact) <= 5 * error + 1e-3
