"""A reference in one cell of a symmetric posterior: log Z, and draws of all images.

log Z is compared with exact values: the labels of a mixture are enumerated, and a product of
one-dimensional integrals is done by quadrature. Statistical tests allow four standard errors, plus
0.005 for what adapting to particles costs: a false alarm in about one of 10,000 runs.
"""

import itertools
import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest
import scipy
from scipy import stats

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference import ReferencePath, choose_path, fit_reference
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.images import CellSearch, Fold, add_images
from pymc_arm.models.reference.laplace import laplace
from pymc_arm.models.reference.mixture import Fit
from pymc_arm.models.reference.target import SharedTarget
from tests.replicates import first_with_every_version


@cache
def labelled(gap=5.0, size=11, parts=3):
    """A mixture of normals of unit width, and log Z by the sum over all labels."""
    rng = np.random.default_rng(1)
    data = rng.normal(gap * (rng.integers(0, parts, size) - 1.0), 1.0)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 4, shape=parts)
        weight = pm.Dirichlet("weight", np.ones(parts))
        pm.NormalMixture("y", w=weight, mu=mean, sigma=1.0, observed=data)
    labels = np.array(list(itertools.product(range(parts), repeat=size)), dtype=np.int8)
    log_gamma = scipy.special.gammaln
    total = log_gamma(parts) - log_gamma(parts + size) - 0.5 * size * np.log(2 * np.pi)
    total = total - 0.5 * (data**2).sum()
    for part in range(parts):
        own = labels == part
        count, precision = own.sum(axis=1), own.sum(axis=1) + 1 / 16
        total = total + log_gamma(1 + count) - 0.5 * np.log(16 * precision)
        total = total + 0.5 * (own @ data) ** 2 / precision
    return model, float(scipy.special.logsumexp(total))


@cache
def squares():
    """Four coordinates by their squares: sixteen modes of the same mass."""
    data = np.array([1.0, 2.0, 3.5, 5.0])
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1.5, shape=4)
        pm.Normal("y", x**2, 0.5, observed=data)

    def integrand(value, seen):
        return stats.norm.pdf(value, 0, 1.5) * stats.norm.pdf(seen, value**2, 0.5)

    parts = [2 * scipy.integrate.quad(integrand, 0, 8, args=(y,), points=[y**0.5])[0] for y in data]
    return model, float(np.log(parts).sum())


def check(model, truth, seed):
    idata = pymc_arm.sample(model, start="reference", random_seed=seed, progressbar=False, cores=1)
    found, error = (idata.attrs[f"log_marginal_likelihood{end}"] for end in ("", "_se"))
    assert abs(found - truth) < 4 * error + 0.005
    assert idata.attrs["verdict"] == "ok"
    return idata


@pytest.mark.parametrize("seed", first_with_every_version(range(6)))
def test_a_mixture_of_three_has_its_evidence_and_all_orders(seed):
    model, truth = labelled()
    idata = check(model, truth, seed)
    assert idata.attrs["symmetries"] == "labels of 3 blocks of mean, weight: 6 images"
    order = np.argsort(idata.posterior["mean"].values.reshape(-1, 3), axis=1)
    counts = np.unique(order, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    # Images are chosen at random: chi-squared of 5 degrees, a false alarm once in 10,000.
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 25.7


@pytest.mark.parametrize("seed", first_with_every_version(range(6)))
def test_changes_of_sign_have_equal_shares(seed):
    model, truth = squares()
    idata = check(model, truth, seed)
    x = idata.posterior["x"].values.reshape(-1, 4)
    assert np.abs((x > 0).mean(axis=0) - 0.5).max() < 4 * 0.5 / np.sqrt(len(x))
    places, widths = np.abs(x).mean(axis=0), np.abs(x).std(axis=0)
    for place, width, seen in zip(places, widths, (1.0, 2.0, 3.5, 5.0), strict=True):
        grid = np.linspace(0, 8, 4001)
        density = stats.norm.pdf(grid, 0, 1.5) * stats.norm.pdf(seen, grid**2, 0.5)
        mean = (grid * density).sum() / density.sum()
        assert abs(place - mean) < 4 * width / np.sqrt(idata.attrs["ess"])


def test_draws_that_were_not_scattered_tell_whether_chains_agree():
    model, _ = labelled()
    path = choose_path(compile_model(model)).path
    if not isinstance(path, ReferencePath):
        path = ReferencePath(compile_model(model), fit_reference(compile_model(model)))
    rng = np.random.default_rng(0)
    particles = path.initialize(rng, 50)[0]
    inside = np.isfinite(path.log_density(particles))
    own = path.representatives(rng, particles[inside])["mean"]
    all_images = path.posterior(rng, particles[inside])["mean"]
    assert (np.argsort(own, axis=1) == np.argsort(own, axis=1)[0]).mean() > 0.9
    assert len(np.unique(np.argsort(all_images, axis=1), axis=0)) > 3
    np.testing.assert_allclose(np.sort(own, axis=1), np.sort(all_images, axis=1))


def test_the_density_in_the_cell_is_that_of_the_model_times_the_images():
    path = compile_model(labelled()[0])
    reference = fit_reference(path)
    own = ReferencePath(path, reference)
    copy = pickle.loads(pickle.dumps(reference))
    assert copy.cell.describe() == reference.cell.describe()
    points = reference.mixture.draw(np.random.default_rng(1), 200)
    values = own.log_density(points)
    inside = np.isfinite(values)
    assert 0.5 < inside.mean() < 1
    everywhere = own.everywhere
    np.testing.assert_allclose(values[inside], everywhere.log_density(points)[inside])
    folded = everywhere.fold(points)
    np.testing.assert_allclose(own.log_density(folded), everywhere.log_density(points))
    np.testing.assert_allclose(folded[inside], points[inside], atol=1e-10)
    gradients = own.score(points)
    np.testing.assert_allclose(gradients[inside], everywhere.score(points)[inside])
    assert not gradients[~inside].any()


def test_images_of_a_fit_that_reach_into_the_cell_become_components():
    """Two labels whose centres are two standard deviations apart: one draw in twelve is beyond."""
    model, _ = labelled()
    path = compile_model(model)
    path.density.gradient.available()
    target = SharedTarget(path)
    view = target.view()
    prior = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(1), 100), 100)
    start = np.concatenate([[-5.0, 0.0, 5.0], np.zeros(2)])
    search = CellSearch(view, prior)
    fold = search(laplace(view, start, np.ones(5)))
    assert isinstance(fold, Fold)
    np.testing.assert_array_equal(fold(start[None]), start[None])
    swapped = np.concatenate([[0.0, -5.0, 5.0], np.zeros(2)])[None]
    np.testing.assert_allclose(fold(swapped), start[None], atol=1e-12)
    target.cell = search.cell
    none = np.zeros((0, 5))
    far = Fit(Chart(view, start, 0.1 * np.eye(5)), 10.0, none, none, 1.0, 0)
    near = Fit(Chart(view, start, 4.0 * np.eye(5)), 10.0, none, none, 1.0, 0)
    rng = np.random.default_rng(2)
    assert add_images(rng, view, [far]) == [far]
    several = add_images(rng, view, [near])
    assert len(several) > 2
    assert several[0] is near
    assert all(each.log_mass is not None for each in several[1:])
