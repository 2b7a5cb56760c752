"""Conjugate groups that are integrated in closed form on the path from a reference."""

from functools import cache, partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy

import pymc_arm
from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.choose import choose_path
from pymc_arm.models.reference.closed_forms import ConjugateTarget, find_conjugate
from pymc_arm.models.reference.groups import find_groups

RNG = np.random.default_rng(12)
GAMMALN = scipy.special.gammaln
INTERVALS, WOMEN = 12, 6
TREATED = np.arange(WOMEN) % 2
AT_RISK = RNG.uniform(0.5, 3.0, (WOMEN, INTERVALS))
DEATHS = RNG.poisson(0.2 * AT_RISK * np.exp(0.8 * TREATED)[:, None])
GROUPS, TRIALS = 10, 20
HITS = RNG.binomial(TRIALS, RNG.beta(3, 6, GROUPS))
RESIDUALS = RNG.normal(size=(8, 4)) * RNG.uniform(0.5, 2.0, (8, 1))
VALUES = RNG.standard_t(4, size=30) + 1.0


@cache
def hazards(vague=0.01):
    """Hazards of intervals with vague priors, and the effect of a treatment."""
    with pm.Model() as model:
        hazard = pm.Gamma("hazard", vague, vague, shape=INTERVALS)
        effect = pm.Normal("effect", 0, 10)
        rate = pt.outer(pt.exp(effect * TREATED), hazard)
        pm.Poisson("deaths", AT_RISK * rate, observed=DEATHS)
    return model


@cache
def drifting(step=0.5):
    """The same, the effect a random walk over intervals: as many parameters as hazards are left."""
    with pm.Model() as model:
        hazard = pm.Gamma("hazard", 0.1, 0.1, shape=INTERVALS)
        effect = pm.GaussianRandomWalk(
            "effect", sigma=step, init_dist=pm.Normal.dist(), shape=INTERVALS
        )
        rate = hazard * pt.exp(TREATED[:, None] * effect[None, :])
        pm.Poisson("deaths", AT_RISK * rate, observed=DEATHS)
    return model


@cache
def shares():
    """Shares of groups around a common mean with an unknown concentration."""
    with pm.Model() as model:
        mean = pm.Beta("mean", 2, 2)
        log_size = pm.Normal("log_size", 2, 1)
        size = pt.exp(log_size)
        share = pm.Beta("share", mean * size, (1 - mean) * size, shape=GROUPS)
        pm.Binomial("hits", TRIALS, share, observed=HITS)
    return model


@cache
def variances():
    """Variances of groups from an inverse gamma distribution of unknown shape and scale."""
    with pm.Model() as model:
        log_shape, log_scale = pm.Normal("log_shape", 1, 1), pm.Normal("log_scale", 0, 1)
        shape = pt.exp(log_shape)
        variance = pm.InverseGamma("variance", shape, shape * pt.exp(log_scale), shape=8)
        pm.Normal("y", 0, pt.sqrt(variance)[:, None], observed=RESIDUALS)
    return model


@cache
def weights():
    """Student-t noise as normal noise of gamma precisions: a weight for each row."""
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean", 0, 3), pm.Normal("log_scale", 0, 1)
        weight = pm.Gamma("weight", 2, 2, shape=len(VALUES))
        pm.Normal("y", mean, pt.exp(log_scale) / pt.sqrt(weight), observed=VALUES)
    return model


def hazards_given(effect, shape=0.01):
    """Return the log-probability of each interval's deaths, (..., intervals)."""
    effect = np.asarray(effect)[..., None, None]
    exposure = AT_RISK * np.exp(effect * TREATED[:, None])
    total, rate = DEATHS.sum(axis=0), shape + exposure.sum(axis=-2)
    single = (DEATHS * np.log(exposure) - GAMMALN(DEATHS + 1.0)).sum(axis=-2)
    own = GAMMALN(shape + total) - GAMMALN(shape) + shape * np.log(shape)
    return single + own - (shape + total) * np.log(rate)


def exact_hazards(shape=0.01):
    x = np.linspace(-40, 40, 20_001)
    log_f = hazards_given(x, shape).sum(axis=-1) + scipy.stats.norm.logpdf(x, 0, 10)
    return scipy.special.logsumexp(log_f) + np.log(x[1] - x[0])


def exact_drifting(step=0.5):
    """Return log Z by a forward recursion over a grid of effects."""
    x = np.linspace(-9, 9, 1201)
    cell = x[1] - x[0]
    each = hazards_given(x, 0.1)
    forward = scipy.stats.norm.logpdf(x) + each[:, 0]
    steps = scipy.stats.norm.pdf(x[:, None], x, step) * cell
    for number in range(1, INTERVALS):
        top = forward.max()
        forward = top + np.log(steps @ np.exp(forward - top)) + each[:, number]
    return scipy.special.logsumexp(forward) + np.log(cell)


def on_grid(log_f, first, second):
    table = log_f(first[:, None], second[None, :])
    cell = (first[1] - first[0]) * (second[1] - second[0])
    return scipy.special.logsumexp(table) + np.log(cell)


def exact_shares():
    def log_f(logit, log_size):
        mean, size = scipy.special.expit(logit), np.exp(log_size)
        total = scipy.stats.beta.logpdf(mean, 2, 2) + np.log(mean * (1 - mean))
        total = total + scipy.stats.norm.logpdf(log_size, 2, 1)
        for hits in HITS:
            total = total + scipy.stats.betabinom.logpmf(
                hits, TRIALS, mean * size, (1 - mean) * size
            )
        return total

    return on_grid(log_f, np.linspace(-6, 6, 401), np.linspace(-4, 9, 401))


def exact_variances():
    count, square = RESIDUALS.shape[1], 0.5 * (RESIDUALS**2).sum(axis=1)

    def log_f(log_shape, log_scale):
        shape, scale = np.exp(log_shape), np.exp(log_shape + log_scale)
        total = scipy.stats.norm.logpdf(log_shape, 1, 1) + scipy.stats.norm.logpdf(log_scale)
        for own in square:
            total = total + shape * np.log(scale) - GAMMALN(shape) + GAMMALN(shape + count / 2)
            total = total - (shape + count / 2) * np.log(scale + own)
            total = total - 0.5 * count * np.log(2 * np.pi)
        return total

    return on_grid(log_f, np.linspace(-5, 7, 401), np.linspace(-6, 6, 401))


def exact_weights():
    def log_f(mean, log_scale):
        total = scipy.stats.norm.logpdf(mean, 0, 3) + scipy.stats.norm.logpdf(log_scale)
        for value in VALUES:
            total = total + scipy.stats.t.logpdf(value, 4, mean, np.exp(log_scale))
        return total

    return on_grid(log_f, np.linspace(-5, 6, 401), np.linspace(-4, 4, 401))


EXACT = {
    "hazards": (hazards, exact_hazards),
    "very vague hazards": (partial(hazards, 0.001), partial(exact_hazards, 0.001)),
    "drifting": (drifting, exact_drifting),
    "shares": (shares, exact_shares),
    "variances": (variances, exact_variances),
    "weights": (weights, exact_weights),
}


def target_of(make):
    path = compile_model(make())
    return ConjugateTarget(path, find_conjugate(path, find_groups(path)))


def points_of(target, size=20):
    points = np.zeros((size, target.path.plan.layout.dimension))
    noise = np.random.default_rng(3).normal(size=(size, target.dimension))
    points[:, target.kept] = 0.5 * noise
    return points


def test_given_the_effect():
    target, effect = target_of(hazards), np.linspace(-3, 3, 9)
    points = np.zeros((9, INTERVALS + 1))
    points[:, target.kept] = effect[:, None]
    expected = hazards_given(effect).sum(axis=1) + scipy.stats.norm.logpdf(effect, 0, 10)
    assert target.log_density(points) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_gradient(name):
    target = target_of(EXACT[name][0])
    points = points_of(target)
    values, gradients = target.evaluate(points)
    assert values == pytest.approx(target.log_density(points), abs=1e-10)
    assert not gradients[:, target.collapsed].any()
    step = np.zeros_like(points)
    step[:, target.kept] = 1e-5 * np.random.default_rng(4).normal(
        size=(len(points), target.dimension)
    )
    change = 0.5 * (target.log_density(points + step) - target.log_density(points - step))
    assert change == pytest.approx((gradients * step).sum(axis=1), rel=1e-4, abs=1e-9)
    target.check(points)


def test_draws_are_of_the_conditionals():
    """Logs of gamma variables, one with a tail that is 100 wide, within 4 se: 1 in 1300."""
    target = target_of(hazards)
    points = np.zeros((4000, INTERVALS + 1))
    drawn = target.complete(np.random.default_rng(5), points)[:, target.collapsed]
    total, exposure = DEATHS.sum(axis=0), AT_RISK.sum(axis=0)
    mean = scipy.special.digamma(0.01 + total) - np.log(0.01 + exposure)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * drawn.std(axis=0) / np.sqrt(4000))


@pytest.mark.parametrize("name", EXACT)
def test_log_z(name):
    """Six models, within 4 se (1 in 2600) of exact values; integrals of groups are in the plan."""
    make, exact = EXACT[name]
    idata = pymc_arm.sample(make(), draws=500, random_seed=6, cores=1, progressbar=False)
    se = idata.attrs["log_marginal_likelihood_se"]
    assert idata.attrs["verdict"] == "ok"
    assert se < 0.03
    assert abs(idata.attrs["log_marginal_likelihood"] - exact()) < 4 * se
    assert any("integrated out" in note for note in pymc_arm.plan(make()).notes)


def lognormal_rates():
    """Rates that are not conjugate."""
    with pm.Model() as model:
        rate = pm.LogNormal("rate", pm.Normal("mean"), 1, shape=6)
        pm.Poisson("y", rate, observed=[1, 2, 0, 3, 1, 5])
    return model


def bent_far_out():
    """Rates that are gamma variables near one, and something else beyond 200."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 5, 0.1)
        rate = pm.Gamma("rate", 2, 0.01, shape=6)
        pm.Potential("wall", pt.switch(rate > 200, -0.01 * (rate - 200) ** 2, 0.0))
        pm.Poisson("y", rate * pt.exp(0.1 * effect), observed=[250, 300, 280, 260, 330, 310])
    return model


def test_what_is_not_conjugate_is_refused():
    path = compile_model(lognormal_rates())
    groups = find_groups(path)
    assert len(groups)
    assert not len(find_conjugate(path, groups))
    with pytest.raises(PathError, match="closed form"):
        ConjugateTarget(path, groups)


def test_what_is_conjugate_near_zero_only_is_found_out():
    target = target_of(bent_far_out)
    points = np.zeros((10, 7))
    points[:, target.kept] = 5.0
    with pytest.raises(PathError, match="not conjugate everywhere"):
        target.check(points)
    reference = choose_path(target.path).reference
    assert reference is None or reference.closed is None
