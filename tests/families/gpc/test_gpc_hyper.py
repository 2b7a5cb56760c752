"""Classifiers with unknown hyperparameters, against quadrature over these."""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_arm
from pymc_arm.families.gpc.hyper import HyperGPCPath
from pymc_arm.families.gpc.hyper_model import HyperModel, recognize
from pymc_arm.families.registry import find_family

INPUTS = np.array([[0.0], [0.7]])


def classifier(labels, inputs, *, whitened=True, mean=False, link=pm.math.invprobit):
    with pm.Model() as model:
        length, height = pm.Gamma("length", 2, 2), pm.HalfNormal("height", 3)
        process = pm.gp.Latent(cov_func=height**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = process.prior("f", X=inputs, reparameterize=whitened, jitter=1e-6)
        level = pm.Normal("level", 0, 1) if mean else 0.0
        pm.Bernoulli("y", p=link(level + f), observed=labels)
    return model


def log_evidence_of_two(same, mean):
    """Return log Z of two labels by quadrature: their probability is one of two normals."""
    lengths, heights = np.linspace(-4, 2.5, 101), np.linspace(-5, 3, 101)
    levels = np.linspace(-5, 5, 81) if mean else np.zeros(1)
    length, height = np.meshgrid(lengths, heights, indexing="ij")
    prior = stats.gamma.logpdf(np.exp(length), 2, scale=0.5) + length
    prior += stats.halfnorm.logpdf(np.exp(height), 0, 3) + height
    squared = np.exp(2 * height)
    correlation = squared * np.exp(-0.5 * 0.49 * np.exp(-2 * length)) / (squared + 1 + 1e-6)
    correlation = correlation if same else -correlation
    total = []
    for level in levels:
        # Labels are y_i; the second is turned if they differ.
        first = level / np.sqrt(squared + 1)
        second = first if same else -first
        x, w = np.polynomial.legendre.leggauss(60)
        angle = 0.5 * np.arcsin(correlation)[..., None] * (x + 1)
        exponent = first[..., None] ** 2 + second[..., None] ** 2
        exponent = exponent - 2 * np.sin(angle) * (first * second)[..., None]
        inner = np.exp(-exponent / (2 * np.cos(angle) ** 2)) @ w
        joint = special.ndtr(first) * special.ndtr(second)
        joint = joint + inner * 0.5 * np.arcsin(correlation) / (2 * np.pi)
        total.append(special.logsumexp(prior + np.log(joint)) + stats.norm.logpdf(level) * mean)
    step = (lengths[1] - lengths[0]) * (heights[1] - heights[0])
    step *= levels[1] - levels[0] if mean else 1.0
    return special.logsumexp(total) + np.log(step)


@pytest.mark.statistical
@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("mean", [True, False])
def test_two_labels_against_quadrature(whitened, mean):
    model = classifier([1, 0], INPUTS, whitened=whitened, mean=mean)
    assert find_family(model)[0].name == "gpc"
    found = pymc_arm.sample(model, draws=400, random_seed=1, progressbar=False, cores=1).attrs
    error = found["log_marginal_likelihood"] - log_evidence_of_two(False, mean)
    # A t distribution with three degrees of freedom is beyond 10 once in 500.
    assert abs(error) < 10 * max(found["log_marginal_likelihood_se"], 0.002)
    assert abs(error) < 0.15
    assert found["verdict"] == "ok"


@pytest.mark.statistical
def test_draws_are_of_all_free_variables_and_of_the_process():
    rng = np.random.default_rng(1)
    inputs = np.sort(rng.uniform(-3, 3, size=20))[:, None]
    labels = np.sin(2 * inputs[:, 0]) > 0
    model = classifier(labels, inputs)
    idata = pymc_arm.sample(model, draws=200, random_seed=1, progressbar=False, cores=1)
    posterior = idata.posterior
    assert posterior["f"].shape == (4, 200, 20)
    assert (posterior["length"] > 0).all()
    # A label that all neighbours share is more likely than not to have its own sign.
    agreement = np.sign(posterior["f"].mean(("chain", "draw")).values) == np.where(labels, 1, -1)
    assert agreement.mean() > 0.8
    with model:
        predicted = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    assert predicted.posterior_predictive["y"].shape == (4, 200, 20)


@pytest.mark.one_version
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"link": pm.math.invlogit}, "the link is not the probit"),
        ({"link": lambda f: pm.math.invprobit(2 * f + 1)}, None),
        ({"link": lambda f: pm.math.invprobit(f**2)}, "Phi is not applied to a linear function"),
    ],
)
def test_what_is_recognised(change, reason):
    found = recognize(classifier([1, 0], INPUTS, **change))
    if reason is None:
        assert not isinstance(found, str)
    else:
        assert found.startswith(reason)


@pytest.mark.one_version
def test_independent_effects_are_left_to_the_generic_path():
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        effects = pm.Normal("effects", 0, spread, shape=3)
        pm.Bernoulli("y", p=pm.math.invprobit(effects), observed=[0, 1, 1])
    assert recognize(model) == "the elements of effects are independent given the others"
    assert find_family(model)[0] is None


@pytest.mark.one_version
def test_slopes_and_offsets_are_part_of_the_process():
    model = classifier([1, 0], INPUTS, link=lambda f: pm.math.invprobit(2 * f + 1))
    hyper = HyperModel(model, recognize(model))
    given = hyper.at(np.array([0.2, 0.4]))
    plain = classifier([1, 0], INPUTS)
    same = HyperModel(plain, recognize(plain)).at(np.array([0.2, 0.4]))
    np.testing.assert_allclose(given.covariance, 4 * same.covariance, rtol=1e-12)
    np.testing.assert_allclose(given.mean, 1.0)
    np.testing.assert_allclose(given.log_prior, same.log_prior)
    lengths = np.exp(0.2)
    wanted = np.exp(0.8) * np.exp(-0.5 * 0.49 / lengths**2)
    np.testing.assert_allclose(same.covariance[0, 1], wanted, rtol=1e-9)
    np.testing.assert_allclose(hyper.constrain(np.array([[0.2, 0.4]]))["length"], lengths)


@pytest.mark.parametrize("whitened", [True, False])
def test_an_unknown_mean_is_where_it_should_be(whitened):
    model = classifier([1, 0], INPUTS, whitened=whitened, mean=True)
    given = HyperModel(model, recognize(model)).at(np.array([0.2, 0.4, 0.7]))
    np.testing.assert_allclose(given.mean, 0.7, rtol=1e-12)
    np.testing.assert_allclose(given.offset, 0.7, rtol=1e-12)


@pytest.mark.one_version
def test_as_many_hyperparameters_are_drawn_as_labels_allow():
    model = classifier([1, 0], INPUTS)
    path = HyperGPCPath(HyperModel(model, recognize(model)))
    assert [path.count_particles(draws) for draws in (30, 100, 1000)] == [30, 50, 250]
    assert path.proposal.effective > 0.3
