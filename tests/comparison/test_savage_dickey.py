"""Savage-Dickey ratios against the exact Bayes factors of nested models.

Posterior draws are drawn here, exactly, where the posterior is known.
"""

from typing import ClassVar

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_arm
from pymc_arm._compat import make_tree
from pymc_arm.comparison.savage_dickey import SavageDickey

REPLICATES = 40
ROOT = np.random.default_rng(19710101)
SAMPLE = ROOT.normal(0.5, 1.0, 200)
DESIGN = np.column_stack([np.ones(30), ROOT.normal(size=(30, 2))]) @ np.array(
    [[1.0, 0, 0], [0, 1, 1], [0, 0, 1]]
)
OUTCOME = DESIGN @ [1.0, 0.5, -0.3] + ROOT.normal(size=30)
SHAPE, RATE, PRECISION = 2.0, 2.0, np.array([0.25, 1.0, 1.0])


def tree(draws):
    """Return draws of four chains by name as a result."""
    data = {}
    for name, values in draws.items():
        chains = values.reshape(4, -1, *values.shape[1:])
        data[name] = (("chain", "draw", *(f"{name}_{k}" for k in range(chains.ndim - 2))), chains)
    return make_tree({"posterior": xr.Dataset(data)}, {})


class NormalMean:
    """The null value is eight posterior standard deviations away."""

    values: ClassVar = {"delta": 0.0}
    variance = 1 / (1 + len(SAMPLE))

    def model(self):
        with pm.Model() as model:
            delta = pm.Normal("delta", 0, 1)
            pm.Normal("y", delta, 1, observed=SAMPLE)
        return model

    @property
    def exact(self):
        mean, scale = self.variance * SAMPLE.sum(), np.sqrt(self.variance)
        return stats.norm.logpdf(0, mean, scale) - stats.norm.logpdf(0)

    def draw(self, rng, size):
        return {"delta": rng.normal(self.variance * SAMPLE.sum(), np.sqrt(self.variance), size)}


class Coin:
    """A bounded variable."""

    values: ClassVar = {"p": 0.5}

    def model(self):
        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=40, p=p, observed=31)
        return model

    @property
    def exact(self):
        return stats.beta.logpdf(0.5, 32, 10)

    def draw(self, rng, size):
        return {"p": rng.beta(32, 10, size)}


class Regression:
    """Two coefficients at once, whose prior depends on the variance, as g-priors do."""

    values: ClassVar = {"b": [0.0, 0.0]}

    def model(self):
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", SHAPE, RATE)
            a = pm.Normal("a", 0, pm.math.sqrt(variance / PRECISION[0]))
            b = pm.Normal("b", 0, pm.math.sqrt(variance), shape=2)
            mean = a + pm.math.dot(DESIGN[:, 1:], b)
            pm.Normal("y", mean, pm.math.sqrt(variance), observed=OUTCOME)
        return model

    def log_evidence(self, columns):
        """Up to what all subsets of the columns have in common."""
        design, precision = DESIGN[:, columns], np.diag(PRECISION[columns])
        total = design.T @ design + precision
        mean = np.linalg.solve(total, design.T @ OUTCOME)
        rate = RATE + 0.5 * (OUTCOME @ OUTCOME - mean @ total @ mean)
        shape = SHAPE + 0.5 * len(OUTCOME)
        determinants = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(total)[1]
        return 0.5 * determinants - shape * np.log(rate), mean, total, rate, shape

    @property
    def exact(self):
        return self.log_evidence([0])[0] - self.log_evidence([0, 1, 2])[0]

    def draw(self, rng, size):
        _, mean, total, rate, shape = self.log_evidence([0, 1, 2])
        variance = rate / rng.gamma(shape, size=size)
        noise = rng.multivariate_normal(np.zeros(3), np.linalg.inv(total), size)
        both = mean + np.sqrt(variance)[:, None] * noise
        return {"variance": variance, "a": both[:, 0], "b": both[:, 1:]}


@pytest.mark.one_version
@pytest.mark.parametrize(
    "pair", [NormalMean(), Coin(), Regression()], ids=lambda p: type(p).__name__
)
def test_intervals_cover_the_exact_bayes_factor(pair):
    """Of 40 intervals 34 or more cover with a probability of 99.7 %; errors are below 0.02."""
    model, covered, errors = pair.model(), 0, []
    for rng in np.random.default_rng(1).spawn(REPLICATES):
        found = pymc_arm.savage_dickey(tree(pair.draw(rng, 1000)), model, pair.values)
        low, high = found.log_interval()
        covered += low <= pair.exact <= high
        errors.append(found.log - pair.exact)
        assert found.reliable
    assert covered >= 34
    assert np.sqrt(np.mean(np.square(errors))) < 0.02


def test_densities_and_names():
    pair = Coin()
    rng = np.random.default_rng(2)
    found = pymc_arm.savage_dickey(tree(pair.draw(rng, 1000)), pair.model(), pair.values)
    assert found.log_prior_density == pytest.approx(0.0)
    assert found.log_posterior_density == pytest.approx(pair.exact, abs=0.02)
    assert (found.first, found.second) == ("p = 0.5", "p free")
    again = pymc_arm.savage_dickey(
        tree(Regression().draw(rng, 1000)), Regression().model(), {"b": 0}
    )
    assert np.isnan(again.log_prior_density)
    assert again.first == "b = 0"


@pytest.mark.one_version
def test_autocorrelated_draws_have_larger_errors():
    pair, rng = Coin(), np.random.default_rng(3)
    # Each draw eight times over, and the same number of draws.
    few = np.repeat(pair.draw(rng, 500)["p"].reshape(4, -1), 8, axis=1).ravel()
    alike = pymc_arm.savage_dickey(tree({"p": few}), pair.model(), pair.values)
    free = pymc_arm.savage_dickey(tree(pair.draw(rng, 4000)), pair.model(), pair.values)
    assert 2 < alike.standard_error / free.standard_error < 5  # the square root of 8 is 2.8


def test_it_agrees_with_log_evidence_of_both_models():
    pair = Coin()
    options = {"draws": 250, "random_seed": 1, "progressbar": False}
    result = pymc_arm.sample(pair.model(), **options)
    with pm.Model() as nested:
        pm.Binomial("y", n=40, p=0.5, observed=31)
    by_evidence = pymc_arm.bayes_factor(nested, result, **options)
    found = pymc_arm.savage_dickey(result, pair.model(), pair.values)
    assert found.agreement(by_evidence).endswith("they agree.")
    wrong = SavageDickey(found.log + 1, found.standard_error, found.degrees_of_freedom)
    assert wrong.agreement(by_evidence).endswith("they do not agree.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"q": 0.5}, r"'q', which is not a free variable. Those are \['p'\]"),
        ({"p": [0.5, 0.5]}, r"has shape \(2,\), and 'p' has \(\)"),
        ({"p": 1.5}, "is outside of the support of 'p'"),
        ({"p": np.nan}, "must be finite"),
    ],
)
def test_what_can_not_be_fixed_is_refused(values, message):
    pair = Coin()
    with pytest.raises(ValueError, match=message):
        pymc_arm.savage_dickey(tree(pair.draw(np.random.default_rng(1), 400)), pair.model(), values)


def test_values_that_are_no_values():
    pair = Coin()
    draws = tree(pair.draw(np.random.default_rng(1), 400))
    with pytest.raises(TypeError, match="must say where to fix what"):
        pymc_arm.savage_dickey(draws, pair.model(), {})


def test_the_edge_of_a_support_is_refused():
    with pm.Model() as model:
        tau = pm.HalfNormal("tau")
        pm.Normal("y", 0, 1 + tau, observed=0.3)
    draws = tree({"tau": np.abs(np.random.default_rng(1).normal(size=400))})
    with pytest.raises(ValueError, match="on the edge of the support of 'tau'"):
        pymc_arm.savage_dickey(draws, model, {"tau": 0.0})


def test_discrete_variables_are_refused():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.5)
        pm.Normal("y", k, 1, observed=0.3)
    draws = tree({"k": np.random.default_rng(1).integers(0, 2, 400)})
    with pytest.raises(ValueError, match="'k' is discrete"):
        pymc_arm.savage_dickey(draws, model, {"k": 0})
