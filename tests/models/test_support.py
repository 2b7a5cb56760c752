"""The supports of discrete variables, found by what their densities do."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.support import Support, inside_only

TABLE = np.array([0.1, 0.4, 0.5])


def custom(name):
    """A table of probabilities without a check: -1 is the last of them, and 3 is no index."""
    return pm.CustomDist(
        name,
        logp=lambda value: pt.log(pt.as_tensor(TABLE))[value],
        random=lambda rng=None, size=None: rng.choice(3, p=TABLE, size=size),
        dtype="int64",
    )


def binomial_of_poisson(name):
    return pm.Binomial(name, pm.Poisson("count", 4.0), 0.3)


def uniform_to_poisson(name):
    end = pm.Poisson("count", 2.0)
    return pm.DiscreteUniform(name, -end, end)


def uniform_to_uniform(name):
    return pm.DiscreteUniform(name, 0, pm.DiscreteUniform("count", 1, 5))


def uniform_to_rare(name):
    """The largest end has never been drawn."""
    probabilities = np.array([0.5, 0.5 - 1e-9, 0, 0, 1e-9])
    return pm.DiscreteUniform(name, 0, pm.Categorical("count", probabilities))


def uniform_to_continuous(name):
    end = pt.cast(pt.floor(pt.exp(pm.Normal("count", 0, 1))), "int64")
    return pm.DiscreteUniform(name, 0, end)


# A variable, its ends where they are exact, and whether they are those of all of its values.
CASES = {
    "bernoulli": (lambda name: pm.Bernoulli(name, 0.3), 0, 1),
    "categorical": (lambda name: pm.Categorical(name, TABLE), 0, 2),
    "rare category": (lambda name: pm.Categorical(name, [0.999999, 5e-7, 5e-7]), 0, 2),
    "binomial": (lambda name: pm.Binomial(name, 200, 0.01), 0, 200),
    "beta-binomial": (lambda name: pm.BetaBinomial(name, 2, 3, 12), 0, 12),
    "hypergeometric": (lambda name: pm.HyperGeometric(name, 50, 10, 8), 0, 8),
    "uniform": (lambda name: pm.DiscreteUniform(name, -3, 8), -3, 8),
    "truncated": (lambda name: pm.Truncated(name, pm.Poisson.dist(5), lower=2, upper=9), 2, 9),
    "custom": (custom, 0, 2),
    "poisson": (lambda name: pm.Poisson(name, 3.0), 0, None),
    "poisson of many": (lambda name: pm.Poisson(name, 1e4), 0, None),
    "geometric": (lambda name: pm.Geometric(name, 0.1), 1, None),
    "negative binomial": (lambda name: pm.NegativeBinomial(name, 3, 0.5), 0, None),
    "zero-inflated": (lambda name: pm.ZeroInflatedPoisson(name, 0.6, 7), 0, None),
    "hurdle": (lambda name: pm.HurdlePoisson(name, 0.6, 7), 0, None),
    "vague rate": (lambda name: pm.Poisson(name, pm.LogNormal("count", 0, 3)), 0, None),
    "uniform to uniform": (uniform_to_uniform, 0, 5),
    "uniform to rare": (uniform_to_rare, 0, 4),
    "binomial of poisson": (binomial_of_poisson, 0, None),
    "uniform to poisson": (uniform_to_poisson, None, None),
    "uniform to continuous": (uniform_to_continuous, 0, None),
}


def support_of(build):
    with pm.Model() as model:
        pm.Normal("y", build("x"), 1.0, observed=1.0)
    return compile_model(model)._supports[0 if len(model.free_RVs) == 1 else 1]


@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_supports(name):
    build, low, high = CASES[name]
    support = support_of(build)
    assert support.bounded_below == (low is not None)
    assert support.bounded_above == (high is not None)
    if low is not None:
        assert support.low == low
    if high is not None:
        assert support.high == high


def test_elements_with_different_ends_share_the_widest():
    with pm.Model() as model:
        x = pm.Binomial("x", np.array([3, 5, 20]), 0.5)
        pm.Normal("y", x, 1.0, observed=np.zeros(3))
    assert compile_model(model)._supports[1] == Support(0, 20, True, True)


def test_a_model_is_not_evaluated_outside_of_a_support():
    """Rows without a value inside are not evaluated at all."""
    seen = []

    def conditional(values, rows):
        seen.append((values, rows))
        return -values

    def own(values, rows):
        return np.where(values <= rows[:, None], 0.0, -np.inf)

    values = np.array([[1.0, 2.0, 9.0], [1.0, 2.0, 9.0], [0.0, 1.0, 2.0]])
    result = inside_only(conditional, own)(values, np.array([2, 0, 1]))
    expected = [[-1, -2, -np.inf], [-np.inf] * 3, [0, -1, -np.inf]]
    np.testing.assert_array_equal(result, expected)
    ((tried, rows),) = seen
    assert rows.tolist() == [2, 1]
    assert np.all(tried <= rows[:, None])
