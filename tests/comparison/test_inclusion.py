"""Inclusion probabilities against exact ones of conjugate regressions."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import special

import pymc_arm
from pymc_arm._compat import make_tree

SHAPE = RATE = 2.0
SCALE = 0.3


class Conjugate:
    """A regression whose coefficients have a normal prior, given the variance of the noise."""

    def __init__(self, x, y):
        self.x, self.y, self.predictors = x, y, x.shape[1]

    def model(self):
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", SHAPE, RATE)
            b = pm.Normal("b", 0, SCALE * pm.math.sqrt(variance), shape=self.predictors)
            mean = pm.math.dot(self.x, b)
            pm.Normal("y", mean, pm.math.sqrt(variance), observed=self.y)
        return model

    def posterior(self, columns):
        """Return mean and precision of coefficients, and shape and rate of the variance."""
        x = self.x[:, columns]
        precision = x.T @ x + np.eye(len(columns)) / SCALE**2
        mean = np.linalg.solve(precision, x.T @ self.y) if len(columns) else np.zeros(0)
        rate = RATE + 0.5 * (self.y @ self.y - mean @ precision @ mean)
        return mean, precision, SHAPE + 0.5 * len(self.y), rate

    def log_evidence(self, columns):
        """Up to what all subsets have in common."""
        _, precision, shape, rate = self.posterior(columns)
        determinant = np.linalg.slogdet(precision)[1] if len(columns) else 0.0
        return -0.5 * determinant - len(columns) * np.log(SCALE) - shape * np.log(rate)

    def exact(self, prior):
        """Return the inclusion probability of each predictor."""
        inside = (np.arange(2**self.predictors)[:, None] >> np.arange(self.predictors)) & 1 > 0
        logs = [self.log_evidence(np.flatnonzero(row)) for row in inside]
        odds = inside.sum(axis=1) * special.logit(prior)
        return special.softmax(np.array(logs) + odds) @ inside

    def draws(self, rng, size):
        mean, precision, shape, rate = self.posterior(np.arange(self.predictors))
        variance = rate / rng.gamma(shape, size=size)
        noise = rng.multivariate_normal(np.zeros(self.predictors), np.linalg.inv(precision), size)
        b = mean + np.sqrt(variance)[:, None] * noise
        data = {
            "variance": (("chain", "draw"), variance.reshape(4, -1)),
            "b": (("chain", "draw", "b_dim_0"), b.reshape(4, -1, self.predictors)),
        }
        return make_tree({"posterior": xr.Dataset(data)}, {})


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 5))
    x[:, 1] += x[:, 0]
    return Conjugate(x, 0.5 * x[:, 0] + 0.2 * x[:, 2] + 0.15 * x[:, 3] + rng.normal(size=80))


@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_probabilities_are_the_exact_ones(regression, prior):
    """All within 0.01, and within 4 standard errors."""
    draws = regression.draws(np.random.default_rng(2), 2000)
    found = pymc_arm.inclusion_probabilities(
        draws, regression.model(), "b", prior_probability=prior
    )
    error = np.abs(found.table["probability"].to_numpy() - regression.exact(prior))
    assert error.max() < 0.01
    assert (error <= 4 * found.table["standard_error"]).all()
    assert len(found.subsets) == 32
    assert found.subsets["estimated"].sum() < 32
    assert found.subsets["probability"].sum() == pytest.approx(1)
    best = found.subsets.iloc[0]
    columns = [int(name[2:-1]) for name in best["predictors"].split(", ")]
    truth = regression.log_evidence(columns) - regression.log_evidence(list(range(5)))
    assert abs(best["log_bayes_factor"] - truth) < 4 * best["standard_error"]
    assert "32 subsets of 5 predictors" in str(found)
    assert "b[0]" in found._repr_html_()


@pytest.mark.one_version
@pytest.mark.statistical
def test_error_bars_are_right(regression):
    """Of 100 intervals of 95 % at least 88 cover, and errors are as large as they claim to be.

    Five of each replicate hang together. Of 200 intervals (40 replicates) 197 covered, and the
    ratio was 0.93; a ratio beyond these limits has a chance of 1 % in 20 replicates.
    """
    model, exact = regression.model(), regression.exact(0.5)
    errors, claimed, covered = [], [], 0
    for rng in np.random.default_rng(7).spawn(20):
        table = pymc_arm.inclusion_probabilities(regression.draws(rng, 1000), model, "b").table
        errors.append(table["probability"] - exact)
        claimed.append(table["standard_error"])
        covered += int(((table["low"] <= exact) & (exact <= table["high"])).sum())
    assert covered >= 88
    ratio = np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(claimed)))
    assert 0.7 < ratio < 1.3


def test_labels_of_dimensions_and_a_limit(regression):
    with pm.Model(coords={"predictor": list("vwxyz")}) as model:
        variance = pm.InverseGamma("variance", SHAPE, RATE)
        b = pm.Normal("b", 0, SCALE * pm.math.sqrt(variance), dims="predictor")
        mean = pm.math.dot(regression.x, b)
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=regression.y)
    draws = regression.draws(np.random.default_rng(3), 1000)
    found = pymc_arm.inclusion_probabilities(draws, model, "b", most=2)
    assert found.table.index.tolist() == list("vwxyz")
    assert found.subsets["estimated"].sum() == 3  # all predictors, which is exact, and two
    whole = pymc_arm.inclusion_probabilities(draws, regression.model(), "b")
    assert (found.table["high"] - found.table["low"]).mean() > (
        whole.table["high"] - whole.table["low"]
    ).mean()


def test_what_is_no_vector_of_coefficients_is_refused(regression):
    draws, model = regression.draws(np.random.default_rng(4), 400), regression.model()
    with pytest.raises(ValueError, match="variable='c' is not a free variable"):
        pymc_arm.inclusion_probabilities(draws, model, "c")
    with pytest.raises(ValueError, match=r"'variance' has shape \(\)"):
        pymc_arm.inclusion_probabilities(draws, model, "variance")
    with pytest.raises(ValueError, match="prior_probability=1 must be"):
        pymc_arm.inclusion_probabilities(draws, model, "b", prior_probability=1)
    with pytest.raises(ValueError, match="tolerance=0 must be"):
        pymc_arm.inclusion_probabilities(draws, model, "b", tolerance=0)
    with pm.Model() as positive:
        scale = pm.HalfNormal("scale", 1, shape=2)
        pm.Normal("y", 0, scale, observed=[0.1, 0.2])
    values = np.abs(np.random.default_rng(5).normal(size=(4, 100, 2)))
    own = xr.Dataset({"scale": (("chain", "draw", "d"), values)})
    with pytest.raises(ValueError, match="zero must be inside"):
        pymc_arm.inclusion_probabilities(make_tree({"posterior": own}, {}), positive, "scale")
