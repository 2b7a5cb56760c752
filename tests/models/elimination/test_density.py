"""The density with discrete variables summed, against the sum over all their values."""

import itertools
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import special

from pymc_arm.models.compiled import compile_model

# pm.Truncated of PyMC 5.28 draws with a scan in its old form.
pytestmark = pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")

RNG = np.random.default_rng(20160713)
TABLE, DATA = RNG.normal(size=(6, 3)), RNG.normal(size=6)


@cache
def chain():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=3)
        stay = pm.Beta("stay", 3, 1)
        rows = pt.eye(3) * stay + (1 - pt.eye(3)) * (1 - stay) / 2
        state = pm.Categorical("state", p=np.full(3, 1 / 3), shape=6)
        pm.Potential("transition", pt.log(3 * rows)[state[:-1], state[1:]])
        pm.Normal("y", mean[state], 1, observed=DATA)
    return model


@cache
def scalars():
    """States that are variables of their own: prior terms are the transitions."""
    with pm.Model() as model:
        stay = pm.Beta("stay", 3, 1, shape=2)
        rows = pt.stack([pt.stack([stay[0], 1 - stay[0]]), pt.stack([1 - stay[1], stay[1]])])
        states = [pm.Categorical("state_0", p=[0.5, 0.5])]
        for step in range(1, 4):
            states.append(pm.Categorical(f"state_{step}", p=rows[states[-1]]))
        pm.Normal("y", 2.0 * pt.stack(states), 1, observed=DATA[:4])
    return model


@cache
def prior_of_slopes():
    """Indicators are in the priors of continuous variables only."""
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        slab = pm.Bernoulli("slab", share, shape=3)
        slope = pm.Normal("slope", 0, pt.switch(slab, 3.0, 0.3), shape=3)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", TABLE @ slope, scale, observed=DATA)
    return model


@cache
def priors_of_two():
    """One label in the priors of two variables, which have no priors of their own then."""
    with pm.Model() as model:
        label = pm.Categorical("label", [0.2, 0.3, 0.5])
        one = pm.Normal("one", pt.constant([-1.0, 0.0, 2.0])[label], 1)
        other = pm.Normal("other", one + pt.constant([1.0, 0.0, 2.0])[label], 1)
        pm.Normal("y", one * other, 1, observed=1.3)
    return model


@cache
def slopes():
    """All data depend on all indicators."""
    with pm.Model() as model:
        chosen = pm.Bernoulli("chosen", 0.3, shape=3)
        slope = pm.Normal("slope", 0, 1, shape=3)
        pm.Normal("y", pt.dot(TABLE, chosen * slope), 1, observed=DATA)
    return model


@cache
def kinds():
    """Several distributions, a count without an upper end, and data without any of them."""
    with pm.Model() as model:
        uniform = pm.DiscreteUniform("uniform", 1, 4)
        binomial = pm.Binomial("binomial", 3, 0.4, shape=2)
        truncated = pm.Truncated("truncated", pm.Poisson.dist(2), lower=1, upper=5)
        x = pm.Normal("x", 0, 1)
        count = pm.Poisson("count", 2.0)
        pm.Normal("y", x * uniform + binomial + count, 1, observed=[1.0, 2.0])
        pm.Normal("u", truncated, 1, observed=2.0)
        pm.Normal("v", x, 1, observed=0.4)
    return model


@cache
def ordered_changes():
    """The second change point is after the first: a support that varies; tables that repeat."""
    with pm.Model() as model:
        first = pm.DiscreteUniform("first", 0, 7)
        second = pm.DiscreteUniform("second", first, 8)
        rate = pm.Exponential("rate", 1, shape=3)
        years = np.arange(8)
        mean = pt.switch(years < first, rate[0], pt.switch(years < second, rate[1], rate[2]))
        pm.Poisson("y", mean, observed=[3, 2, 0, 1, 0, 5, 4, 6])
    return model


@cache
def causes():
    links = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [1, 3]])
    with pm.Model() as model:
        cause = pm.Bernoulli("cause", 0.2, shape=4)
        strength = pm.Beta("strength", 2, 2)
        absent = 0.95 * pt.prod(1 - strength * cause[links], axis=1)
        pm.Bernoulli("effect", 1 - absent, observed=[1, 0, 1, 1, 0])
    return model


@cache
def between():
    """A label between two continuous variables, and others after the second."""
    with pm.Model() as model:
        first = pm.Normal("first", 0, 1)
        label = pm.Bernoulli("label", pm.math.sigmoid(first))
        second = pm.Normal("second", 2.0 * label, 1)
        seen = pm.Bernoulli("seen", pm.math.sigmoid(second), shape=2)
        pm.Normal("y", seen + second, 1, observed=[0.3, 0.4])
    return model


MODELS = (
    chain,
    scalars,
    prior_of_slopes,
    priors_of_two,
    slopes,
    kinds,
    ordered_changes,
    causes,
    between,
)


@pytest.fixture(scope="module", params=MODELS, ids=lambda build: build.__name__)
def paths(request):
    model = request.param()
    return compile_model(model), compile_model(model, marginalize="auto")


def all_values(path, points):
    """Points of the whole model: each with all values of what is summed."""
    density = path.density
    coordinates = sorted(density.sums.supports)
    values = [density.sums.supports[c].values for c in coordinates]
    cells = np.array(list(itertools.product(*values)))
    whole = np.repeat(density.expand(points), len(cells), axis=0)
    whole[:, coordinates] = np.tile(cells, (len(points), 1))
    return whole


def of_priors(density):
    kinds_of = np.repeat([block.kind for block in density.blocks], density.sizes)
    return (kinds_of == "prior").astype(float)


def test_the_terms_add_up_to_the_sum_over_all_values(paths):
    whole, left = paths
    points = left.density.reference[:6]
    logs = whole.log_density(all_values(left, points)).reshape(len(points), -1)
    expected = special.logsumexp(logs, axis=1)
    # PyTensor has constant priors of whole numbers in single precision.
    np.testing.assert_allclose(left.log_density(points), expected, rtol=1e-7)


def test_prior_terms_are_the_prior_of_what_is_left(paths):
    """Prior draws have this density, and log Z of a path from the prior rests on it."""
    whole, left = paths
    points = left.density.reference[:6]
    every = whole.density.sum(all_values(left, points), of_priors(whole.density))
    expected = special.logsumexp(every.reshape(len(points), -1), axis=1)
    found = left.density.sum(points, of_priors(left.density))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_terms_are_the_same_alone_and_together(paths):
    density = paths[1].density
    points = density.reference[:5]
    every = density.terms(points)
    for term in range(density.count):
        found = density.terms(points, np.array([term]))
        np.testing.assert_allclose(found[:, 0], every[:, term], rtol=1e-10, atol=1e-10)


def test_terms_depend_on_what_their_scopes_say(paths):
    density = paths[1].density
    base, other = density.reference[:2]
    before = density.terms(base[None])[0]
    for coordinate in range(len(base)):
        moved = base.copy()
        moved[coordinate] = other[coordinate]
        changed = np.abs(density.terms(moved[None])[0] - before) > 1e-9 * (1 + np.abs(before))
        assert not (changed & ~density.scopes[:, coordinate]).any()


def test_gradients_are_those_of_differences(paths):
    path = paths[1]
    density = path.density
    assert density.gradient.available(), density.notes
    points = density.reference[:5]
    weights = np.random.default_rng(1).uniform(0.5, 1.5, density.count)
    values, gradients = density.gradient(points, weights)
    np.testing.assert_allclose(values, density.sum(points, weights), rtol=1e-9)
    for coordinate in np.flatnonzero(~path.plan.layout.discrete):
        step = 1e-5 * np.eye(points.shape[1])[coordinate]
        ends = [density.sum(points + sign * step, weights) for sign in (1, -1)]
        np.testing.assert_allclose(
            gradients[:, coordinate], (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-6
        )


def test_copies_of_a_point_have_the_same_terms(paths):
    density = paths[1].density
    points = density.reference[[0, 1, 0, 2, 1]]
    np.testing.assert_allclose(
        density.terms(points), np.stack([density.terms(p[None])[0] for p in points]), rtol=1e-10
    )
    columns, values = np.array([0]), density.reference[:6, :1].reshape(2, 3, 1)
    found = density.terms_at(points[:2], columns, values, np.arange(density.count))
    spread = np.repeat(points[:2], 3, axis=0)
    spread[:, 0] = values.ravel()
    np.testing.assert_allclose(found.reshape(6, -1), density.terms(spread), rtol=1e-10)


def test_variables_without_a_prior_of_their_own_come_in_together():
    path = compile_model(priors_of_two(), marginalize="auto")
    assert path.density.together == {"one", "other"}
    assert path.plan.initial.tolist() == [0, 1]


def test_observations_are_counted_inside_of_sums():
    path = compile_model(chain(), marginalize="auto")
    assert path.density.observations.sum() == 6
