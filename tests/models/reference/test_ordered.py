"""Ordered vectors, whose increments are seen as they are where they are well above zero."""

from functools import cache, partial

import numpy as np
import pymc as pm
import pytest
import scipy

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.fit import fit_reference
from pymc_arm.models.reference.ordered import find_increments, join, see_increments
from pymc_arm.models.reference.target import SharedTarget

ORDERED = pm.distributions.transforms.ordered
RNG = np.random.default_rng(8)
X = RNG.normal(size=60)
# No answer is 2: two cut points around nothing.
ANSWERS = np.array([0, 1, 3])[np.searchsorted([-0.8, 1.0], 0.7 * X + RNG.logistic(size=60))]
CENTERS = np.array([0.0, 1.0, 1.5])
NEAR = CENTERS + np.array([0.2, -0.3, 0.1])


@cache
def measured(noise):
    """Three ordered numbers, each measured once."""
    with pm.Model() as model:
        x = pm.Normal("x", CENTERS, 1.0, transform=ORDERED, initval=CENTERS)
        pm.Normal("y", x, noise, observed=NEAR)
    return model


@cache
def answers(kind):
    """Four categories, of which one is empty: three cut points."""
    with pm.Model() as model:
        cuts = pm.Normal("cuts", 0, 2, shape=3, transform=ORDERED, initval=[-1.0, 0.0, 1.0])
        if kind == "logit":
            pm.OrderedLogistic("y", eta=0.7 * X, cutpoints=cuts, observed=ANSWERS)
        else:
            pm.OrderedProbit("y", eta=0.7 * X, cutpoints=cuts, observed=ANSWERS)
    return model


def on_grid(log_f, low, high, size=241):
    """Return log of the integral over ordered triples: the first, and logs of two increments."""
    first = np.linspace(low, high, size)
    logs = np.linspace(-16, 3, 191)
    a, b, c = np.meshgrid(first, logs, logs, indexing="ij")
    cuts = a, a + np.exp(b), a + np.exp(b) + np.exp(c)
    cell = (first[1] - first[0]) * (logs[1] - logs[0]) ** 2
    return scipy.special.logsumexp(log_f(*cuts) + b + c) + np.log(cell)


def exact_measured(noise):
    """Normal data and a normal prior: the probability of the order, before and after."""
    precision = 1 + noise**-2
    mean = (CENTERS + NEAR / noise**2) / precision
    evidence = scipy.stats.norm.logpdf(NEAR, CENTERS, np.sqrt(1 + noise**2)).sum()
    return evidence + log_order(mean, precision**-0.5) - log_order(CENTERS, 1.0)


def log_order(mean, scale):
    """Return log P(x_0 < x_1 < x_2) of independent normals."""
    x = np.linspace(-12, 14, 20_001)
    density = scipy.stats.norm.pdf(x, mean[1], scale)
    below, above = scipy.stats.norm.cdf(x, mean[0], scale), scipy.stats.norm.sf(x, mean[2], scale)
    return np.log((density * below * above).sum() * (x[1] - x[0]))


def exact_answers(kind):
    cdf = scipy.special.log_expit if kind == "logit" else scipy.special.log_ndtr

    def log_between(low, high):
        """Return log(F(high) - F(low))."""
        below, above = cdf(low), cdf(high)
        return above + np.log1p(-np.exp(np.minimum(below - above, -1e-15)))

    def log_f(*cuts):
        total = sum(scipy.stats.norm.logpdf(cut, 0, 2) for cut in cuts) + np.log(6)
        for answer, x in zip(ANSWERS, X, strict=True):
            if answer == 0:
                total = total + cdf(cuts[0] - 0.7 * x)
            elif answer == 3:
                total = total + cdf(0.7 * x - cuts[2])
            else:
                total = total + log_between(cuts[0] - 0.7 * x, cuts[1] - 0.7 * x)
        return total

    return on_grid(log_f, -3, 1.5, 91)


EXACT = {
    "measured well": (partial(measured, 0.1), partial(exact_measured, 0.1)),
    "measured badly": (partial(measured, 2.0), partial(exact_measured, 2.0)),
    "logit": (partial(answers, "logit"), partial(exact_answers, "logit")),
    "probit": (partial(answers, "probit"), partial(exact_answers, "probit")),
}


def maps_of(increments):
    """Return the maps for increments, (size, number), of a vector of one element more."""
    logs = np.column_stack([np.zeros(len(increments)), np.log(increments)])
    return see_increments(np.arange(1, logs.shape[1]), logs)


@pytest.mark.parametrize("middle", [-4.0, 0.0, 2.0, 20.0])
def test_a_cut_normal_is_normal_in_its_view(middle):
    """Quantiles of z are those of a normal distribution; places and their inverse agree."""
    exact = scipy.stats.truncnorm(-middle, np.inf, loc=3 * middle, scale=3)
    levels = (np.arange(20_000) + 0.5) / 20_000
    maps = maps_of(exact.ppf(levels)[:, None])
    z = np.linspace(-5, 5, 41)[:, None]
    found = np.exp(maps(z)[0])
    assert scipy.special.ndtri(exact.cdf(found)) == pytest.approx(z, abs=0.05)
    assert maps.inverse(np.log(found)) == pytest.approx(z, abs=1e-6)


def test_slopes():
    maps = maps_of(RNG.gamma([1.0, 30.0], size=(400, 2)))
    z, step = RNG.normal(size=(30, 2)), 1e-5
    _, log_slope, curvature = maps(z)
    above, below = maps(z + step), maps(z - step)
    assert (above[0] - below[0]) / (2 * step) == pytest.approx(np.exp(log_slope), rel=1e-5)
    assert (above[1] - below[1]) / (2 * step) == pytest.approx(curvature, rel=1e-3, abs=1e-4)


def test_increments_are_found():
    with pm.Model() as model:
        pm.Normal("free", shape=3)
        x = pm.Normal("x", 0, 1, shape=(2, 3), transform=ORDERED, initval=[[0, 1, 2], [0, 1, 2]])
        pm.Normal("y", x, 1, observed=np.zeros((2, 3)))
    path = compile_model(model)
    assert find_increments(path, np.arange(9)).tolist() == [4, 5, 7, 8]
    assert find_increments(path, np.arange(5)).tolist() == [4]


def test_gradient_in_the_view():
    path = compile_model(answers("logit"))
    assert path.density.gradient.available()
    target = SharedTarget(path)
    points = np.array([0.0, -1.0, 0.3]) + RNG.normal(size=(100, 3)) * [0.3, 1.0, 0.3]
    increments = see_increments(target.increments, points)
    assert join(None, increments) is increments
    view = target.view(increments=increments)
    places, log_jacobian = view.from_model(points)
    again, same = view.to_model(places)
    assert again == pytest.approx(points, abs=1e-6)
    assert same == pytest.approx(log_jacobian, abs=1e-5)
    values, gradients = view(places)
    assert values == pytest.approx(view.log_density(places), abs=1e-9)
    step = 1e-5 * RNG.normal(size=places.shape)
    change = 0.5 * (view.log_density(places + step) - view.log_density(places - step))
    assert change == pytest.approx((gradients * step).sum(axis=1), rel=1e-3, abs=1e-8)


def test_cuts_that_a_slope_stretches():
    """The posterior is near normal in increments: 86 % of draws are effective, 32 in logarithms."""
    rng = np.random.default_rng(3)
    x = 6 * rng.normal(size=200)
    levels = np.searchsorted(np.linspace(-16, 16, 8), 2 * x + rng.logistic(size=200))
    with pm.Model() as model:
        cuts = pm.Normal("cuts", 0, 5, shape=8, transform=ORDERED, initval=np.arange(8.0))
        slope = pm.Normal("slope", 0, 3)
        pm.OrderedLogistic("y", eta=slope * x, cutpoints=cuts, observed=levels)
    reference = fit_reference(compile_model(model))
    assert reference.increments is not None
    assert reference.overlap > 0.7


@pytest.mark.parametrize("name", EXACT)
def test_log_z(name):
    """Four models from a reference, within 4 se (1 in 4000) of the exact values."""
    make, exact = EXACT[name]
    idata = pymc_arm.sample(
        make(), draws=500, start="reference", random_seed=6, cores=1, progressbar=False
    )
    se = idata.attrs["log_marginal_likelihood_se"]
    assert idata.attrs["verdict"] == "ok"
    assert se < 0.03
    assert abs(idata.attrs["log_marginal_likelihood"] - exact()) < 4 * se
