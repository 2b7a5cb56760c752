"""Modes that a mixture in the graph names, and that nothing far from them shows."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_arm
from pymc_arm._compat import get_group
from pymc_arm.models.branches import find_mixtures
from pymc_arm.models.compiled import compile_model

SIZE = 3
CENTERS = np.array([[3.0, -2.0, 1.0], [-4.0, 0.5, 2.0], [1.0, 6.0, -5.0]])
WIDTHS = np.array([0.1, 2.0, 0.5])


def normal(x, k):
    return -0.5 * pt.sum(((x - CENTERS[k]) / WIDTHS[k]) ** 2) - SIZE * np.log(WIDTHS[k])


FORMS = {
    "of two": (2, lambda x: pm.math.logaddexp(normal(x, 0), normal(x, 1))),
    "of three": (3, lambda x: pt.logaddexp(*(normal(x, k) for k in range(3)))),
    "stacked": (3, lambda x: pt.logsumexp(pt.stack([normal(x, k) for k in range(3)]))),
    "weighted": (
        2,
        lambda x: pt.log(0.3 * pt.exp(normal(x, 0)) + 0.7 * pt.exp(normal(x, 1))),
    ),
    "by rows": (
        3,
        lambda x: pt.logsumexp(
            -0.5 * pt.sum(((x - CENTERS) / WIDTHS[:, None]) ** 2, axis=1) - SIZE * np.log(WIDTHS)
        ),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_branch_has_its_mode(form):
    count, mixture = FORMS[form]
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10, shape=SIZE)
        pm.Potential("modes", mixture(x))
    found = compile_model(model).likely_particles
    shrunk = CENTERS * (100 / (100 + WIDTHS[:, None] ** 2))
    np.testing.assert_allclose(found, shrunk[:count], atol=0.02)


def test_a_mixture_of_distributions_is_one_too():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10, shape=2)
        parts = [pm.MvNormal.dist(x, 0.01 * np.eye(2)), pm.MvNormal.dist(-x, np.eye(2))]
        pm.Mixture("y", w=[0.3, 0.7], comp_dists=parts, observed=[1.0, 2.0])
    found = compile_model(model).likely_particles
    np.testing.assert_allclose(found, [[1.0, 2.0], [-1.0, -2.0]], atol=0.05)


def test_each_value_of_a_summed_variable_has_its_mode():
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.5)
        x = pm.Normal("x", 0, 10, shape=SIZE)
        pm.Potential("modes", pt.switch(pt.eq(label, 0), normal(x, 0), normal(x, 1)))
    found = compile_model(model, marginalize="auto").likely_particles
    shrunk = CENTERS * (100 / (100 + WIDTHS[:, None] ** 2))
    np.testing.assert_allclose(found, shrunk[:2], atol=0.02)


def test_mixtures_of_many_elements_are_left_alone():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 10, shape=2)
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mean, sigma=1.0, observed=[1.0, 2.0, 3.0])
    assert compile_model(model).likely_particles.shape == (0, 2)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("size", "widths"), [(5, (1.0, 0.5, 0.3, 0.1)), (20, (0.3, 3.0)), (20, (1.0, 0.1))]
)
def test_a_narrow_mode_beside_a_wide_one_is_weighed(size, widths):
    """Two intervals of four errors: a false alarm in 5000, by Student's t of some 13 degrees."""
    count, width = len(widths), np.array(widths)
    centers = np.random.default_rng(5).normal(0, 4, (count, size))
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10, shape=size)
        logs = [
            -0.5 * pt.sum(((x - centers[k]) / width[k]) ** 2)
            - size * (np.log(width[k]) + 0.5 * np.log(2 * np.pi))
            for k in range(count)
        ]
        pm.Potential("modes", pt.logsumexp(pt.stack(logs)))
    spread = np.hypot(10, width)
    log_parts = stats.norm.logpdf(centers, 0, spread[:, None]).sum(axis=1)
    found = pymc_arm.sample(model, random_seed=1, progressbar=False, cores=1)
    error = found.attrs["log_marginal_likelihood"] - logsumexp(log_parts)
    assert found.attrs["verdict"] == "ok"
    assert abs(error) < 4 * found.attrs["log_marginal_likelihood_se"]
    shares = np.exp(log_parts - logsumexp(log_parts))
    first = get_group(found, "posterior")["x"].values.reshape(-1, size)
    nearest = np.argmin(
        ((first[:, None] - centers) ** 2).sum(axis=2) / width**2 + 2 * size * np.log(width), axis=1
    )
    np.testing.assert_allclose(np.bincount(nearest, minlength=count) / len(first), shares, atol=0.1)


def test_the_parts_of_a_simplex_are_no_branches():
    """What makes them add up to one is the logarithm of a sum, and not added to the density."""
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        means = pm.Normal("means", 0, 10, shape=3)
        parts = pm.Normal.dist(means, 1.0)
        pm.Mixture("y", w=weights, comp_dists=parts, observed=[-5.0, 0.0, 5.0, 6.0])
    _, pieces = compile_model(model).density.gradient.graphs
    assert not find_mixtures(pieces)
