"""Groups with the same data, which are integrated once."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy

import pymc_arm
from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.density import LogDensity
from pymc_arm.models.reference import choose, twins
from pymc_arm.models.reference.groups import GroupTarget, find_groups
from pymc_arm.models.reference.twins import find_twins

OCCASIONS, ADDED = 6, 90
RNG = np.random.default_rng(4)
CAUGHT = RNG.binomial(OCCASIONS, scipy.special.expit(RNG.normal(-1.0, 1.0, 60)))
CAUGHT = np.concatenate([CAUGHT[CAUGHT > 0], np.zeros(ADDED, dtype=int)])


@cache
def animals():
    """Capture and recapture with a rate for each animal, and animals that may not exist."""
    with pm.Model() as model:
        exists = pm.Uniform("exists", 0, 1)
        mean = pm.Normal("mean", 0, 1.5)
        spread = pm.HalfNormal("spread", 1)
        own = pm.Normal("own", 0, 1, shape=len(CAUGHT))
        seen = pm.logp(pm.Binomial.dist(OCCASIONS, logit_p=mean + spread * own), CAUGHT)
        both = pm.math.logaddexp(pt.log(exists) + seen, pt.log1p(-exists))
        pm.Potential("history", pt.switch(CAUGHT > 0, pt.log(exists) + seen, both))
    return model


def exact_given(exists, mean, spread):
    """Return the log-likelihood of :func:`animals`, for arrays of the parameters."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    rate = scipy.special.expit(mean[:, None] + spread[:, None] * nodes)
    total = np.zeros(len(exists))
    for count, times in zip(*np.unique(CAUGHT, return_counts=True), strict=True):
        density = scipy.stats.binom.pmf(count, OCCASIONS, rate) @ weights / np.sqrt(2 * np.pi)
        own = exists * density + (1 - exists) * (count == 0)
        total += times * np.log(own)
    return total


def log_prior(points):
    """Return the log-prior of the unbounded parameters: logit, as it is, logarithm."""
    exists, spread = scipy.special.expit(points[:, 0]), np.exp(points[:, 2])
    return (
        np.log(exists * (1 - exists))
        + scipy.stats.norm.logpdf(points[:, 1], 0, 1.5)
        + scipy.stats.halfnorm.logpdf(spread)
        + points[:, 2]
    )


@pytest.fixture(scope="module")
def target():
    path = compile_model(animals())
    return GroupTarget(path, find_groups(path))


def points_of(target, size=20):
    """Return points with all coordinates, those of the groups at zero."""
    points = np.zeros((size, target.path.plan.layout.dimension))
    points[:, target.kept] = np.random.default_rng(3).normal([0, -1, -0.3], 0.4, (size, 3))
    return points


def test_one_group_stands_for_all_with_as_many_catches(target):
    kinds = len(np.unique(CAUGHT))
    assert len(target._groups.first) == kinds
    np.testing.assert_array_equal(
        target._groups.times[target._groups.twin], [(each == CAUGHT).sum() for each in CAUGHT]
    )
    assert isinstance(target._groups.density, LogDensity)
    assert target._groups.density.count == 2 * kinds  # the prior and the history of each


def test_the_integral_is_exact(target):
    points = points_of(target)
    own = points[:, target.kept]
    exact = exact_given(scipy.special.expit(own[:, 0]), own[:, 1], np.exp(own[:, 2]))
    np.testing.assert_allclose(target.log_density(points), exact + log_prior(own), atol=1e-6)


def test_integral_and_gradient_are_those_of_all_groups_one_by_one(target, monkeypatch):
    monkeypatch.setattr(twins, "FEWEST_TERMS", np.inf)
    apart = GroupTarget(target.path, target.collapsed)
    assert len(apart._groups.first) == len(CAUGHT)
    points = points_of(target)
    for found, expected in zip(target.evaluate(points), apart.evaluate(points), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_equal_groups_are_drawn_independently_of_each_other(target):
    """Means and correlations of 8000 draws; four standard errors of 30 are exceeded in 1 of 500."""
    one = points_of(target, 1)
    draws = target.complete(np.random.default_rng(5), np.repeat(one, 8000, axis=0))
    never = draws[:, target.collapsed[CAUGHT == 0][:6]]
    exists, mean, spread = scipy.special.expit(one[0, 0]), one[0, 1], np.exp(one[0, 2])
    places = np.linspace(-9, 9, 4001)
    density = scipy.special.expit(-(mean + spread * places)) ** OCCASIONS
    density = scipy.stats.norm.pdf(places) * (exists * density + 1 - exists)
    density /= density.sum()
    expected = density @ places
    deviation = np.sqrt(density @ (places - expected) ** 2)
    assert np.abs((never.mean(axis=0) - expected) / deviation).max() < 4 / np.sqrt(8000)
    correlations = np.corrcoef(never.T)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(8000)


def test_groups_that_differ_where_nobody_looked_are_refused():
    """Limits of 30.1 and 30.2 differ between them alone, and that is where the posterior is."""
    limits = np.where(np.arange(60) < 40, 30.1, 30.2)
    with pm.Model() as model:
        place = pm.Normal("place", 0, 100)
        own = pm.Normal("own", 0, 1, shape=60)
        pm.Potential("within", pt.switch(pt.gt(place, limits), -0.1 * own**2, -0.3 * own**2))
        pm.Normal("y", place, 0.01, observed=30.15)
    path = compile_model(model)
    target = GroupTarget(path, find_groups(path))
    assert len(np.unique(find_twins(target._everyone, target.collapsed))) == 1
    points = np.zeros((40, 61))
    points[:, target.kept] = np.linspace(30.12, 30.18, 40)[:, None]
    with pytest.raises(PathError, match="the same data"):
        target.check(points)


@pytest.mark.parametrize("seed", [1, 2])
def test_log_evidence_is_right(seed, monkeypatch):
    """Four standard errors are exceeded once in 16,000 runs."""
    monkeypatch.setattr(choose, "_fit_field", lambda *_: (None, True))
    axes = [np.linspace(*ends, 61) for ends in ((-5, 8), (-7, 5), (-8, 2))]
    points = np.stack([grid.ravel() for grid in np.meshgrid(*axes)], axis=1)
    exact = exact_given(scipy.special.expit(points[:, 0]), points[:, 1], np.exp(points[:, 2]))
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    log_evidence = np.logaddexp.reduce(exact + log_prior(points)) + np.log(cell)
    result = pymc_arm.sample(animals(), draws=500, random_seed=seed, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - log_evidence
    assert abs(error) < 4 * result.attrs["log_marginal_likelihood_se"]
    assert result.attrs["log_marginal_likelihood_se"] < 0.03
    assert result.attrs["verdict"] == "ok"
    assert f"{len(CAUGHT)} coordinates integrated out" in str(pymc_arm.plan(animals()))
