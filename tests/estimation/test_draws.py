"""The returned draws against exact means, standard deviations, quantiles and shares of modes."""

import warnings
from functools import cache, partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_arm
from pymc_arm._compat import get_group
from pymc_arm.estimation.draws import deal_out
from pymc_arm.models.compiled import compile_model
from pymc_arm.testing import TiltedNormals
from tests.replicates import first_with_every_version


@cache
def conjugate() -> tuple[pm.Model, list[stats.rv_continuous]]:
    """A regression of known noise: the posterior is Gaussian."""
    rng = np.random.default_rng(0)
    design = rng.normal(size=(30, 3))
    data = design @ [0.5, -1.0, 2.0] + rng.normal(size=30)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2, shape=3)
        pm.Normal("y", pt.dot(design, x), 1.0, observed=data)
    covariance = np.linalg.inv(design.T @ design + np.eye(3) / 4)
    mean = covariance @ design.T @ data
    return model, [
        stats.norm(m, s) for m, s in zip(mean, np.sqrt(np.diag(covariance)), strict=True)
    ]


@cache
def gamma_rate() -> tuple[pm.Model, list[stats.rv_continuous]]:
    """Counts with a Gamma rate: skewed, and positive."""
    with pm.Model() as model:
        x = pm.Gamma("x", 2.0, 1.0, shape=1)
        pm.Poisson("y", x, observed=[1, 0, 2])
    return model, [stats.gamma(5.0, scale=1 / 4)]


@cache
def group_effects() -> tuple[pm.Model, list[stats.rv_continuous]]:
    """Effects that are integrated out by grids, and come back with q's draws of their mean."""
    data = np.array([0.3, -1.2, 2.5, 0.9, 1.4, -0.2])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        x = pm.Normal("x", mean, 1, shape=6)
        pm.Normal("y", x, 0.5, observed=data)
    # Jointly Gaussian: precision of (mean, x).
    precision = np.zeros((7, 7))
    precision[0, 0] = 1 / 4 + 6
    precision[0, 1:] = precision[1:, 0] = -1.0
    precision[range(1, 7), range(1, 7)] = 1 + 4
    covariance = np.linalg.inv(precision)
    center = covariance @ np.concatenate([[0.0], 4 * data])
    widths = np.sqrt(np.diag(covariance))
    return model, [stats.norm(c, w) for c, w in zip(center[1:], widths[1:], strict=True)]


@pytest.mark.statistical
@pytest.mark.parametrize("refine", ["auto", False])
@pytest.mark.parametrize("build", [conjugate, gamma_rate, group_effects])
def test_moments_and_quantiles_are_exact(build, refine):
    """Each within five standard errors of as many independent draws as the run says.

    Some 20 comparisons a model: a sound run fails one of them with a probability of 1e-5.
    """
    model, exact = build()
    result = pymc_arm.sample(model, draws=500, random_seed=3, progressbar=False, refine=refine)
    attributes = result.attrs
    assert attributes["draws_from"] == ("q" if refine else "particles")
    size = min(attributes["independent_draws"], attributes["ess"])
    draws = get_group(result, "posterior")["x"].values.reshape(-1, len(exact))
    for column, truth in zip(draws.T, exact, strict=True):
        kurtosis = float(truth.stats(moments="k")) + 2
        assert abs(column.mean() - truth.mean()) < 5 * truth.std() / np.sqrt(size)
        assert abs(column.std() / truth.std() - 1) < 5 * np.sqrt(kurtosis / size) / 2
        for level in (0.05, 0.95):
            reached = np.mean(column <= truth.ppf(level))
            assert abs(reached - level) < 5 * np.sqrt(level * (1 - level) / size)


@cache
def two_modes(weight: float = 0.9, dimension: int = 2) -> tuple[pm.Model, float, float]:
    """Two separate Gaussians at equal distances from the prior's mean: model, log Z, and share."""
    at = 3.0
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5, shape=dimension)
        logs = [
            np.log(w) - 0.5 * pt.sum((x - m) ** 2) - 0.5 * dimension * np.log(2 * np.pi)
            for w, m in ((weight, -at), (1 - weight, at))
        ]
        pm.Potential("modes", pt.logaddexp(*logs))
    return model, dimension * stats.norm.logpdf(at, 0, np.sqrt(26)), 1 - weight


@pytest.mark.statistical
@pytest.mark.parametrize("seed", first_with_every_version(range(3)))
def test_modes_have_their_shares_in_each_chain(seed):
    """Nine to one: each of four chains is within four standard errors, log Z too.

    A sound run fails with a probability of 3e-4.
    """
    model, truth, share = two_modes()
    attributes = (result := _quiet(model, seed)).attrs
    assert attributes["draws_from"] == "q"
    draws = get_group(result, "posterior")["x"].values[..., 0]
    error = np.sqrt(share * (1 - share) / (attributes["independent_draws"] / len(draws)))
    assert np.all(np.abs((draws > 0).mean(axis=1) - share) < 4 * error)
    assert abs(attributes["log_marginal_likelihood"] - truth) < 5 * max(
        attributes["log_marginal_likelihood_se"], 1e-3
    )


def _quiet(model: pm.Model, seed: int, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pymc_arm.ArmWarning)
        return pymc_arm.sample(model, random_seed=seed, progressbar=False, **options)


def test_r_hat_and_effective_draws_are_in_the_report_and_the_attributes():
    model, _ = conjugate()
    result = pymc_arm.sample(model, draws=300, random_seed=1, progressbar=False)
    report = pymc_arm.diagnose(result)
    assert report.r_hat == result.attrs["r_hat"] < 1.05
    assert 300 < report.effective_draws <= result.attrs["independent_draws"]
    assert result.attrs["r_hat_variable"] == "x"
    assert result.attrs["explore_r_hat"] > 0.9


def test_the_same_draws_on_any_number_of_workers():
    model, _ = group_effects()
    path = compile_model(model)
    run = partial(pymc_arm.sample_path, path, draws=100, random_seed=5, progressbar=False)
    one, two = (get_group(run(cores=cores), "posterior")["x"].values for cores in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_chains_without_q_are_mixed_by_their_evidence():
    """A path without a continuous space: draws are the particles of all chains, dealt out."""
    path = TiltedNormals([0.5, 0.5])
    result = pymc_arm.sample_path(path, draws=60, random_seed=1, progressbar=False, refine=False)
    assert result.attrs["draws_from"] == "particles"


def test_equal_chains_are_dealt_out_once():
    dealt = deal_out(np.random.default_rng(0), np.zeros(3), [5, 5, 5])
    assert sorted(np.concatenate(dealt).tolist()) == list(range(15))


def test_a_chain_with_most_of_z_has_most_of_the_draws():
    logs = np.log([0.8, 0.1, 0.1])
    dealt = deal_out(np.random.default_rng(0), logs, [1000] * 3)
    shares = [np.mean(indices < 1000) for indices in dealt]
    assert shares == pytest.approx([0.8] * 3, abs=0.05)
    # Chains of different sizes: the weight is Z-hat over the number of particles.
    dealt = deal_out(np.random.default_rng(0), np.log([0.5, 0.5]), [100, 900])
    assert np.mean(np.concatenate(dealt) < 100) == pytest.approx(0.5, abs=0.01)
