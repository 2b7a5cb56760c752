"""Which PyMC models are recognised, and what is read from them."""

import re

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_arm import run
from pymc_arm.families.gpc import GPCFamily

INPUTS = np.linspace(0, 3, 7)[:, None]
LABELS = np.array([0, 1, 1, 0, 1, 1, 0])
COVARIANCE = np.exp(-0.5 * (INPUTS - INPUTS.T) ** 2) + 1e-3 * np.eye(7)
FACTOR = np.linalg.cholesky(COVARIANCE)
WHITE_MEAN = np.linalg.solve(FACTOR, np.full(7, 0.4))


def latent(reparameterize, mean=0.0):
    process = pm.gp.Latent(
        mean_func=pm.gp.mean.Constant(mean), cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)
    )
    return process.prior("f", X=INPUTS, reparameterize=reparameterize, jitter=1e-3)


PROCESSES = {
    "gp.Latent": lambda: latent(True),
    "gp.Latent, not whitened": lambda: latent(False),
    "gp.Latent with mean": lambda: latent(True, 0.4),
    "gp.Latent with mean, not whitened": lambda: latent(False, 0.4),
    "cov": lambda: pm.MvNormal("f", np.zeros(7), cov=COVARIANCE),
    "chol": lambda: pm.MvNormal("f", np.zeros(7), chol=FACTOR),
    "tau": lambda: pm.MvNormal("f", np.zeros(7), tau=np.linalg.inv(COVARIANCE)),
    "mean": lambda: pm.MvNormal("f", np.full(7, 0.4), cov=COVARIANCE),
    "dot": lambda: pm.Deterministic("f", pt.dot(FACTOR, pm.Normal("v", 0, 1, shape=7))),
    "matmul": lambda: FACTOR @ pm.Normal("v", 0, 1, shape=7),
    "row": lambda: pt.dot(pm.Normal("v", 0, 1, shape=7), FACTOR.T),
    "scaled": lambda: (FACTOR / 2) @ pm.Normal("v", 0, 2, shape=7),
    "mean of v": lambda: FACTOR @ pm.Normal("v", WHITE_MEAN, 1, shape=7),
}
LINKS = {
    "invprobit": pm.math.invprobit,
    "erf": lambda f: 0.5 * (1 + pm.math.erf(f / np.sqrt(2))),
    "erfc": lambda f: 0.5 * pm.math.erfc(-f / pm.math.sqrt(2)),
    "logcdf": lambda f: pm.math.exp(pm.logcdf(pm.Normal.dist(), f)),
    "deterministic": lambda f: pm.Deterministic("p", pm.math.invprobit(f)),
}


def classifier(process, link=pm.math.invprobit, labels=LABELS):
    with pm.Model() as model:
        pm.Bernoulli("y", p=link(process()), observed=labels)
    return model


@pytest.mark.parametrize("process", PROCESSES)
def test_processes(process):
    model = classifier(PROCESSES[process])
    family = GPCFamily()
    match = family.match(model)
    assert match.accepted, match.reason
    path = family.build(model, threads=1)
    np.testing.assert_allclose(path.covariance, COVARIANCE, atol=1e-8)
    np.testing.assert_allclose(path.mean, 0.4 if "mean" in process else 0.0, atol=1e-8)
    np.testing.assert_array_equal(path.labels, 2 * LABELS - 1)
    free = model.free_RVs[0].name
    rng = np.random.default_rng(0)
    particles = run(path, rng, 20).state.particles
    draws = path.posterior(np.random.default_rng(1), particles)
    assert list(draws) == [free]
    assert draws[free].shape == (20, 7)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("reparameterize", [True, False])
def test_links(link, reparameterize):
    match = GPCFamily().match(classifier(lambda: latent(reparameterize), LINKS[link]))
    assert match.accepted, match.reason


def test_draws_of_the_free_variable_give_the_process():
    """Whitened and direct forms of one model agree on the process, draw by draw."""
    models = [classifier(lambda form=form: latent(form, 0.4)) for form in (True, False)]
    paths = [GPCFamily().build(model, threads=1, order="given") for model in models]
    particles = run(paths[0], np.random.default_rng(0), 30).state.particles
    white, direct = (
        next(iter(path.posterior(np.random.default_rng(1), particles).values())) for path in paths
    )
    np.testing.assert_allclose(0.4 + white @ FACTOR.T, direct, atol=1e-6)


def test_offset_inside_the_link():
    offset = np.linspace(-1, 1, 7)
    model = classifier(lambda: latent(False), lambda f: pm.math.invprobit(f + offset))
    path = GPCFamily().build(model)
    np.testing.assert_allclose(path.mean, offset, atol=1e-9)
    np.testing.assert_allclose(path.offset, offset, atol=1e-9)


@pytest.mark.parametrize("dtype", [bool, float, "int8"])
def test_types_of_labels(dtype):
    path = GPCFamily().build(classifier(lambda: latent(True), labels=LABELS.astype(dtype)))
    np.testing.assert_array_equal(path.labels, 2 * LABELS - 1)


def test_data_containers():
    with pm.Model() as model:
        inputs, labels = pm.Data("inputs", INPUTS), pm.Data("labels", LABELS)
        process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = process.prior("f", X=inputs, jitter=1e-3)
        pm.Bernoulli("y", p=pm.math.invprobit(f), observed=labels)
    match = GPCFamily().match(model)
    assert match.accepted, match.reason
    np.testing.assert_allclose(GPCFamily().build(model).covariance, COVARIANCE, atol=1e-8)


def with_potential():
    model = classifier(lambda: latent(True))
    with model:
        pm.Potential("bonus", model["f"].sum())
    return model


def two_observed():
    model = classifier(lambda: latent(True))
    with model:
        pm.Normal("reading", model["f"], 1, observed=np.zeros(7))
    return model


def two_latents():
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(7), cov=COVARIANCE)
        g = pm.MvNormal("g", np.zeros(7), cov=COVARIANCE)
        pm.Bernoulli("y", p=pm.math.invprobit(f + g), observed=LABELS)
    return model


def not_bernoulli():
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(latent(True)), observed=LABELS)
    return model


def regression():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        design = np.column_stack([np.ones(7), INPUTS])
        pm.Bernoulli("y", p=pm.math.invprobit(design @ beta), observed=LABELS)
    return model


def unrelated():
    with pm.Model() as model:
        latent(True)
        pm.Bernoulli("y", p=0.5, observed=LABELS)
    return model


def linked(link):
    return classifier(lambda: latent(True), link)


def student():
    return classifier(lambda: pm.MvStudentT("f", nu=4, mu=np.zeros(7), scale=COVARIANCE))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (two_latents, r"2 free variables \(f, g\)"),
        (with_potential, "potential, bonus"),
        (two_observed, "2 observed variables"),
        (not_bernoulli, "y is not Bernoulli"),
        (regression, "matrix that multiplies beta is not square"),
        (unrelated, "does not depend on f_rotated_"),
        (student, "f is not a Gaussian vector"),
        (lambda: linked(pm.math.invlogit), "link is not the probit"),
        (lambda: linked(lambda f: pm.math.invprobit(2 * f)), "link is not the probit"),
        (lambda: linked(lambda f: pm.math.invprobit(f[::-1])), "not elementwise"),
        (lambda: linked(lambda f: pm.math.invprobit(pt.cumsum(f))), "not elementwise"),
        (lambda: classifier(lambda: latent(True), labels=2 * LABELS - 1), r"y\[0\] is -1"),
    ],
)
def test_refusals(build, reason):
    model = build()
    match = GPCFamily().match(model)
    assert not match.accepted
    assert re.search(reason, match.reason), match.reason
    with pytest.raises(ValueError, match="not of the family 'gpc'"):
        GPCFamily().build(model)
