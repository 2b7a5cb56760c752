"""Dirichlet vectors with counts that are integrated in closed form on the path from a reference."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy

import pymc_arm
from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.choose import choose_path
from pymc_arm.models.reference.collapsed import CollapsedTarget
from pymc_arm.models.reference.simplexes import SimplexTarget, find_simplexes

GAMMALN = scipy.special.gammaln
RNG = np.random.default_rng(31)
PLACES, KINDS, STATES = 7, 4, 3
TREES = np.array(
    [RNG.multinomial(20 + 5 * i, RNG.dirichlet([2, 1, 4, 0.5])) for i in range(PLACES)]
)
SEQUENCE = np.concatenate([[0], RNG.integers(0, STATES, 60)])
SHOPS = [np.array([4, 9]), np.array([3, 0, 8])]


@cache
def forests():
    """Counts of species, a Dirichlet vector for each place, of unknown concentrations."""
    with pm.Model() as model:
        log_size, tilt = pm.Normal("log_size", 1, 1), pm.Normal("tilt", 0, 1)
        concentration = pt.exp(log_size + tilt * (np.arange(KINDS) - 1.5))
        share = pm.Dirichlet("share", concentration, shape=(PLACES, KINDS))
        pm.Multinomial("trees", TREES.sum(axis=1), share, observed=TREES)
    return model


@cache
def transitions():
    """A chain of states, whose probabilities of transition have a common concentration."""
    with pm.Model() as model:
        size = pm.Gamma("size", 2, 0.5)
        rows = pm.Dirichlet("rows", size * np.ones(STATES), shape=(STATES, STATES))
        pm.Categorical("next", rows[SEQUENCE[:-1]], observed=SEQUENCE[1:])
    return model


@cache
def of_two_lengths():
    """Vectors of two and of three shares with the same concentration."""
    with pm.Model() as model:
        size = pm.HalfNormal("size", 3)
        for number, counts in enumerate(SHOPS):
            for day in range(2):
                name = f"{number}_{day}"
                share = pm.Dirichlet(f"share_{name}", size * np.ones(len(counts)))
                seen = counts + day
                pm.Multinomial(f"sold_{name}", seen.sum(), share, observed=seen)
    return model


def log_dirichlet_multinomial(counts, concentration, *, ordered=False):
    """Return the log-probability of counts, the last axis, of Polya's urn."""
    own = GAMMALN(counts + concentration) - GAMMALN(concentration)
    total, size = concentration.sum(axis=-1), counts.sum(axis=-1)
    result = own.sum(axis=-1) + GAMMALN(total) - GAMMALN(size + total)
    return result if ordered else result + GAMMALN(size + 1) - GAMMALN(counts + 1).sum(axis=-1)


def forests_given(log_size, tilt):
    concentration = np.exp(log_size[..., None] + tilt[..., None] * (np.arange(KINDS) - 1.5))
    return log_dirichlet_multinomial(TREES, concentration[..., None, :]).sum(axis=-1)


def exact_forests():
    log_size, tilt = np.meshgrid(np.linspace(-5, 7, 401), np.linspace(-6, 6, 401), indexing="ij")
    log_f = forests_given(log_size, tilt)
    log_f += scipy.stats.norm.logpdf(log_size, 1, 1) + scipy.stats.norm.logpdf(tilt)
    return scipy.special.logsumexp(log_f) + 2 * np.log(12 / 400)


def exact_transitions():
    counts = np.zeros((STATES, STATES))
    np.add.at(counts, (SEQUENCE[:-1], SEQUENCE[1:]), 1)
    return over_size(
        lambda size: log_dirichlet_multinomial(
            counts, size[:, None, None] * np.ones(STATES), ordered=True
        ).sum(axis=1),
        scipy.stats.gamma(2, scale=2).logpdf,
    )


def exact_of_two_lengths():
    def log_f(size):
        return sum(
            log_dirichlet_multinomial(counts + day, size[:, None] * np.ones(len(counts)))
            for counts in SHOPS
            for day in range(2)
        )

    return over_size(log_f, scipy.stats.halfnorm(scale=3).logpdf)


def over_size(log_f, log_prior):
    log_size = np.linspace(-25, 6, 20_001)
    size = np.exp(log_size)
    log_f = log_f(size) + log_prior(size) + log_size
    return scipy.special.logsumexp(log_f) + np.log(log_size[1] - log_size[0])


EXACT = {
    "forests": (forests, exact_forests),
    "transitions": (transitions, exact_transitions),
    "of two lengths": (of_two_lengths, exact_of_two_lengths),
}


def target_of(make):
    path = compile_model(make())
    return SimplexTarget(path, find_simplexes(path))


def points_of(target, size=20):
    points = np.zeros((size, target.path.plan.layout.dimension))
    noise = np.random.default_rng(3).normal(size=(size, target.dimension))
    points[:, target.kept] = 0.5 * noise
    return points


def test_given_the_concentration():
    target = target_of(forests)
    points = points_of(target)
    given = points[:, target.kept].T
    expected = forests_given(*given) + scipy.stats.norm.logpdf(given, [[1], [0]]).sum(axis=0)
    assert target.log_density(points) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", EXACT)
def test_gradient(name):
    target = target_of(EXACT[name][0])
    points = points_of(target)
    values, gradients = target.evaluate(points)
    assert values == pytest.approx(target.log_density(points), abs=1e-10)
    assert not gradients[:, target.collapsed].any()
    step = np.zeros_like(points)
    noise = np.random.default_rng(4).normal(size=(len(points), target.dimension))
    step[:, target.kept] = 1e-5 * noise
    change = 0.5 * (target.log_density(points + step) - target.log_density(points - step))
    assert change == pytest.approx((gradients * step).sum(axis=1), rel=1e-4, abs=1e-9)
    target.check(points)
    assert isinstance(target, CollapsedTarget)
    assert target.conjugate


def test_draws_are_dirichlet():
    """Means of 28 shares are within 4 standard errors (1 in 570), and 28 variances are too."""
    target, size = target_of(forests), 4000
    points = target.complete(np.random.default_rng(5), np.zeros((size, len(points_of(target)[0]))))
    logs = points[:, target.collapsed].reshape(size, PLACES, KINDS - 1)
    drawn = scipy.special.softmax(
        np.concatenate([logs, -logs.sum(axis=-1, keepdims=True)], axis=-1), axis=-1
    )
    exact = scipy.stats.beta(1 + TREES, KINDS - 1 + TREES.sum(axis=1, keepdims=True) - TREES)
    assert np.all(np.abs(drawn.mean(axis=0) - exact.mean()) < 4 * exact.std() / np.sqrt(size))
    squares = (drawn - exact.mean()) ** 2
    se = squares.std(axis=0) / np.sqrt(size)
    assert np.all(np.abs(squares.mean(axis=0) - exact.var()) < 4 * se)


@pytest.mark.parametrize("name", EXACT)
def test_log_z(name):
    """Three models, within 4 se (1 in 5000) of exact values; the plan tells of the integrals."""
    make, exact = EXACT[name]
    idata = pymc_arm.sample(make(), draws=500, random_seed=6, cores=1, progressbar=False)
    se = idata.attrs["log_marginal_likelihood_se"]
    assert idata.attrs["verdict"] == "ok"
    assert se < 0.03
    assert abs(idata.attrs["log_marginal_likelihood"] - exact()) < 4 * se
    assert any("integrated out" in note for note in pymc_arm.plan(make()).notes)


def mixtures():
    """Shares of the components of mixtures, which are not conjugate."""
    with pm.Model() as model:
        size = pm.HalfNormal("size", 3)
        share = pm.Dirichlet("share", size * np.ones(3), shape=(3, 3))
        for row in range(3):
            pm.NormalMixture(f"y{row}", share[row], np.arange(3.0), 1, observed=[0.3, 2.1, row])
    return model


def joined():
    """Vectors of which every two share data: one of them given the other is not conjugate."""
    with pm.Model() as model:
        size = pm.HalfNormal("size", 3)
        first = pm.Dirichlet("first", size * np.ones(3))
        second = pm.Dirichlet("second", size * np.ones(3))
        pm.Multinomial("y", 12, 0.5 * (first + second), observed=[3, 5, 4])
    return model


@pytest.mark.parametrize("make", [mixtures, joined])
def test_what_is_not_conjugate_is_left(make):
    assert not len(find_simplexes(compile_model(make())))


def bent_far_out():
    """Shares that are Dirichlet ones up to 0.7, and something else beyond."""
    with pm.Model() as model:
        size = pm.HalfNormal("size", 3)
        share = pm.Dirichlet("share", size * np.ones(3), shape=(4, 3))
        pm.Potential("wall", pt.switch(share > 0.97, -50 * (share - 0.97), 0.0))
        counts = np.array([[40, 1, 1], [1, 50, 0], [3, 4, 60], [30, 0, 0]])
        pm.Multinomial("y", counts.sum(axis=1), share, observed=counts)
    return model


def test_what_is_conjugate_near_zero_only_is_found_out():
    path = compile_model(bent_far_out())
    target = SimplexTarget(path, find_simplexes(path))
    with pytest.raises(PathError, match="not Dirichlet vectors everywhere"):
        target.check(np.zeros((10, path.plan.layout.dimension)))
    reference = choose_path(path).reference
    assert reference is None or reference.closed is None
