"""Coordinates that share no term are drawn given the others, and log Z is refined without them."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_arm
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.estimation.spaces import FullSpace
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.integrate import (
    PriorRange,
    continuous_log_density,
    discrete_log_probability,
    draw_discrete,
    enumerate_values,
    quadrature,
)
from pymc_arm.models.marginal import independent_sets
from pymc_arm.models.support import Support

READINGS = np.array([0.3, -1.2, 2.5, 0.9])


@cache
def effects_and_labels():
    """Groups with an effect and a label each, around a common mean."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        effect = pm.Normal("effect", mean, 1, shape=4)
        pm.Normal("y", effect, 0.5, observed=READINGS)
        label = pm.Bernoulli("label", pm.math.sigmoid(mean), shape=4)
        pm.Normal("z", 3.0 * label, 1.0, observed=READINGS)
    return model


def marginal_log_density(mean):
    """Log f with effects and labels integrated out."""
    probability = 1 / (1 + np.exp(-mean[:, None]))
    labelled = probability * stats.norm.pdf(READINGS, 3, 1)
    labelled += (1 - probability) * stats.norm.pdf(READINGS, 0, 1)
    effects = stats.norm.logpdf(READINGS, mean[:, None], np.sqrt(1.25))
    return stats.norm.logpdf(mean, 0, 2) + (effects + np.log(labelled)).sum(axis=1)


def true_log_evidence():
    mean = np.linspace(-15, 15, 6001)
    return np.log(np.trapezoid(np.exp(marginal_log_density(mean)), mean))


def scopes_of(*terms, count):
    scopes = np.zeros((len(terms), count), dtype=bool)
    for row, coordinates in enumerate(terms):
        scopes[row, list(coordinates)] = True
    return scopes


def test_local_coordinates_are_collapsed_and_shared_ones_kept():
    scopes = scopes_of({0}, {1}, {0, 1, 2}, {0, 1, 3}, {0, 1, 4}, {2}, {3}, {4}, count=5)
    found = independent_sets(scopes, np.zeros(5, dtype=bool))
    assert [chosen.tolist() for chosen in found] == [[2, 3, 4]]


def test_discrete_coordinates_are_all_collapsed_or_none():
    discrete = np.array([True, True, False, False])
    apart = scopes_of({0, 2}, {1, 2}, {2, 3}, count=4)
    assert [chosen.tolist() for chosen in independent_sets(apart, discrete)] == [[0, 1], [0, 1, 3]]
    together = scopes_of({0, 1}, {1, 2}, {2, 3}, count=4)
    assert independent_sets(together, discrete) == []


def test_two_coordinates_that_share_a_term_are_tried_in_turn():
    found = independent_sets(scopes_of({0}, {1}, {0, 1}, count=2), np.zeros(2, dtype=bool))
    assert [chosen.tolist() for chosen in found] == [[1], [0]]


def test_drawing_the_others_leaves_an_unbiased_density_of_the_kept():
    """At one value of the mean, 20,000 draws of effects and labels; 4 standard errors."""
    path = compile_model(effects_and_labels())
    rng = np.random.default_rng(1)
    particles, _ = path.initialize(rng, 500)
    spaces = path.spaces(particles)
    assert not any(isinstance(space, FullSpace) for space in spaces)
    space = spaces[-1].fit_to(particles)
    assert len(space.collapsed) == 8
    at = 0.7
    logs = space.draw_log_ratio(rng, np.full((20_000, 1), at))
    exact = marginal_log_density(np.array([at]))[0]
    error = np.std(np.exp(logs - exact)) / np.sqrt(len(logs))
    assert error < 0.001  # the grids are near the conditionals
    assert abs(np.exp(log_mean_exp(logs) - exact) - 1) < 4 * error + 1e-7  # the wide tails


def test_particles_are_weighed_with_the_density_that_draws_come_from():
    """The mean of h / f over the posterior of the others, given the mean, is 1 / f(mean)."""
    path = compile_model(effects_and_labels())
    rng = np.random.default_rng(2)
    at, size = 0.7, 20_000
    effects = (at + 4 * READINGS) / 5 + np.sqrt(0.2) * rng.normal(size=(size, 4))
    odds = np.exp(at + stats.norm.logpdf(READINGS, 3) - stats.norm.logpdf(READINGS))
    labels = rng.random((size, 4)) < odds / (1 + odds)
    values = {"mean": np.full(size, at), "effect": effects, "label": labels.astype(float)}
    particles = path.plan.layout.ravel(list(values.values()), size)
    space = path.spaces(particles)[-1].fit_to(particles)
    logs = -space.log_ratio(particles)
    exact = -marginal_log_density(np.array([at]))[0]
    error = np.std(np.exp(logs - exact)) / np.sqrt(size)
    assert abs(np.exp(log_mean_exp(logs) - exact) - 1) < 4 * error + 1e-7  # the wide tails


def test_a_mixed_model_is_refined():
    """Within 4 standard errors of the truth, where exploring alone has ten times the error."""
    attributes = pymc_arm.sample(
        effects_and_labels(),
        draws=500,
        random_seed=3,
        start="prior",
        marginalize=False,
        progressbar=False,
    ).attrs
    assert attributes["estimate"] == "refine"
    error = attributes["log_marginal_likelihood_se"]
    assert error < 0.2 * attributes["explore_log_marginal_likelihood_se"]
    assert abs(attributes["log_marginal_likelihood"] - true_log_evidence()) < 4 * error


def test_the_density_on_a_grid_is_normalised():
    reference = PriorRange.of(np.random.default_rng(0).normal(size=1000))
    grid = quadrature(lambda values, rows: -0.5 * (values / 0.1) ** 2, reference, 1)
    points = np.linspace(-60, 60, 400_001)
    every = type(grid)(*(np.repeat(part, len(points), axis=0) for part in grid))
    total = np.trapezoid(np.exp(continuous_log_density(every, reference, points)), points)
    assert total == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("support", [Support(0, 9, True, True), Support(0, 9, True, False)])
def test_the_probabilities_on_a_grid_add_up(support):
    grid = enumerate_values(lambda values, rows: -0.3 * values, support, 1)
    values = np.arange(400.0)
    every = type(grid)(*(np.repeat(part, len(values), axis=0) for part in grid))
    logs = discrete_log_probability(every, support, values)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-9)
    rng = np.random.default_rng(5)
    drawn, log_probability = draw_discrete(rng, every, support)
    assert np.array_equal(log_probability, logs[drawn.astype(int)])
