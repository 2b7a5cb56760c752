"""Groups that are integrated out on the path from a reference."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import scipy

import pymc_arm
from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.groups import GroupTarget, find_groups

GROUPS, EACH = 12, 3
RNG = np.random.default_rng(8)
NUMBER = np.repeat(np.arange(GROUPS), EACH)
Y = RNG.normal(RNG.normal(1.0, 0.7, GROUPS)[NUMBER], 0.5)


@cache
def normal_groups():
    """Effects of groups around a common mean, with a scale that is known up to its prior."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", mean, scale, shape=GROUPS)
        pm.Normal("y", effect[NUMBER], 0.5, observed=Y)
    return model


def exact_given(mean, scale):
    """Return log p(y | mean, scale) of :func:`normal_groups`, for arrays of both."""
    mean, scale = np.asarray(mean)[..., None, None], np.asarray(scale)[..., None]
    residuals = Y.reshape(GROUPS, EACH) - mean
    both = 0.25 + EACH * scale**2
    square = (residuals**2).sum(axis=-1) / 0.25
    square = square - scale**2 * residuals.sum(axis=-1) ** 2 / (0.25 * both)
    log_determinant = (EACH - 1) * np.log(0.25) + np.log(both)
    return (-0.5 * (EACH * np.log(2 * np.pi) + log_determinant + square)).sum(axis=-1)


def exact_table(points=301):
    """Return mean and scale on a grid, and log f there times the cells, over mean and log scale."""
    means, logs = np.linspace(-8, 8, points), np.linspace(-9, 2, points)
    mean, log_scale = (grid.ravel() for grid in np.meshgrid(means, logs))
    scale = np.exp(log_scale)
    log_f = scipy.stats.norm.logpdf(mean, 0, 2) + scipy.stats.halfnorm.logpdf(scale) + log_scale
    cell = (means[1] - means[0]) * (logs[1] - logs[0])
    return mean, scale, exact_given(mean, scale) + log_f + np.log(cell)


@pytest.fixture(scope="module")
def target():
    path = compile_model(normal_groups())
    return GroupTarget(path, find_groups(path))


def points_of(target, size=30):
    """Return points with all coordinates, those of the groups at zero."""
    rng = np.random.default_rng(3)
    points = np.zeros((size, target.path.plan.layout.dimension))
    points[:, target.kept] = rng.normal([1.0, -0.4], [0.3, 0.3], size=(size, 2))
    return points


def test_the_parameters_are_kept_and_the_groups_are_found(target):
    assert target.kept.tolist() == [0, 1]
    assert target.collapsed.tolist() == list(range(2, 2 + GROUPS))


def test_neighbours_in_time_are_no_groups():
    with pm.Model() as model:
        walk = pm.GaussianRandomWalk("walk", sigma=0.3, steps=19, init_dist=pm.Normal.dist(0, 1))
        pm.Poisson("y", pm.math.exp(walk), observed=np.arange(20) % 4)
    assert len(find_groups(compile_model(model))) == 0


def test_the_integral_is_exact_for_normal_groups(target):
    points = points_of(target)
    mean, log_scale = points[:, 0], points[:, 1]
    scale = np.exp(log_scale)
    prior = scipy.stats.norm.logpdf(mean, 0, 2) + scipy.stats.halfnorm.logpdf(scale) + log_scale
    exact = prior + exact_given(mean, scale)
    np.testing.assert_allclose(target.log_density(points), exact, atol=1e-8)


def test_the_gradient_is_that_of_the_integral(target):
    points = points_of(target)
    values, gradients = target.evaluate(points)
    np.testing.assert_allclose(values, target.log_density(points))
    for coordinate in target.kept:
        step = np.zeros(points.shape[1])
        step[coordinate] = 1e-5
        ends = [target.log_density(points + sign * step) for sign in (1, -1)]
        np.testing.assert_allclose(
            gradients[:, coordinate], (ends[0] - ends[1]) / 2e-5, rtol=2e-3, atol=2e-3
        )


def test_a_focus_changes_where_the_search_begins_and_nothing_else():
    path = compile_model(normal_groups())
    target = GroupTarget(path, find_groups(path))
    points = points_of(target)
    before = target.log_density(points)
    target.look_around(points)
    assert target.focus is not None
    np.testing.assert_allclose(target.log_density(points), before, atol=1e-8)


def test_groups_are_drawn_from_their_conditionals(target):
    one = points_of(target, 1)
    draws = target.complete(np.random.default_rng(5), np.repeat(one, 20_000, axis=0))
    mean, precision = one[0, 0], np.exp(-2 * one[0, 1])
    rows = Y.reshape(GROUPS, EACH)
    total = precision + EACH / 0.25
    expected = (precision * mean + rows.sum(axis=1) / 0.25) / total
    standard = (draws[:, target.collapsed] - expected) * np.sqrt(total)
    errors = np.sqrt(len(draws)) * standard.mean(axis=0)
    assert np.abs(errors).max() < 4
    assert np.abs(standard.var(axis=0) - 1).max() < 5 * np.sqrt(2 / len(draws))
    for group in range(GROUPS):
        assert scipy.stats.kstest(standard[:, group], "norm").pvalue > 1e-4


def test_an_exponential_tail_is_summed_to_its_end():
    """The logarithm of an exponential variable, whose integral is known: a gamma function."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3, 1)
        pm.Exponential("time", rate, shape=6)
        pm.Normal("y", rate, 1, observed=1.0)
    path = compile_model(model)
    target = GroupTarget(path, find_groups(path))
    points = np.zeros((5, 7))
    points[:, 0] = np.linspace(-1, 2, 5)
    values = np.exp(points[:, 0])
    exact = scipy.stats.gamma.logpdf(values, 3) + points[:, 0] + scipy.stats.norm.logpdf(1 - values)
    np.testing.assert_allclose(target.log_density(points), exact, atol=1e-4)


def test_a_conditional_with_two_far_modes_is_refused():
    rng = np.random.default_rng(2)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        place = pm.Normal("place", mean, 3, shape=8)
        pm.Normal("y", pm.math.abs(place), 0.01, observed=2 + rng.normal(0, 0.3, 8))
    path = compile_model(model)
    target = GroupTarget(path, find_groups(path))
    points = np.zeros((40, 9))
    points[:, 0] = rng.normal(0, 0.5, 40)
    with pytest.raises(PathError, match="place"):
        target.check(points)


@pytest.mark.parametrize("seed", [1, 2])
def test_log_evidence_and_draws_are_right(seed):
    result = pymc_arm.sample(
        normal_groups(), draws=500, random_seed=seed, start="reference", progressbar=False
    )
    mean, scale, log_f = exact_table()
    log_evidence = np.logaddexp.reduce(log_f)
    error = result.attrs["log_marginal_likelihood"] - log_evidence
    assert abs(error) < 4 * result.attrs["log_marginal_likelihood_se"] + 1e-4
    assert result.attrs["log_marginal_likelihood_se"] < 0.01
    assert result.attrs["verdict"] == "ok"
    conditional = mean / scale**2 + Y[:EACH].sum() / 0.25
    conditional /= scale**-2.0 + EACH / 0.25
    expected = float(np.exp(log_f - log_evidence) @ conditional)
    effect = result["posterior"]["effect"].values[..., 0].ravel()
    assert abs(effect.mean() - expected) < 4 * effect.std() / np.sqrt(500)


def test_a_second_peak_beyond_the_nodes_is_no_hundredth_of_a_nat():
    # Each conditional has 1 or 2 % of its mass twelve standard deviations away: of twelve groups
    # that is 0.09 of log Z. The nodes reach to eight.
    share, data = 0.02, np.random.default_rng(3).normal(0.5, 2.2, GROUPS)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        peaks = [pm.Normal.dist(mean, 1.0), pm.Normal.dist(mean + 12, 0.3)]
        effect = pm.Mixture("effect", w=[1 - share, share], comp_dists=peaks, shape=GROUPS)
        pm.Normal("y", effect, 4.0, observed=data)
    path = compile_model(model)
    groups = GroupTarget(path, find_groups(path))
    points = path.initialize(np.random.default_rng(1), 40)[0]
    with pytest.raises(PathError, match="not smooth enough"):
        groups.check(points)
