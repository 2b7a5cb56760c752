"""Draws in log space are draws from the prior, and finite where PyMC's own are not."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.models.prior import LARGEST, PriorSampler

SIZE = 4000
# Each Kolmogorov-Smirnov test raises a false alarm once in ten thousand seeds.
SMALLEST = 1e-4


def draw(write, size=SIZE):
    with pm.Model() as model:
        write()
    sampler = PriorSampler(model)
    return sampler.draw(np.random.default_rng(5), size), sampler


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FAMILIES = {
    "gamma": (lambda: pm.Gamma("x", 0.4, 2.0), np.exp, stats.gamma(0.4, scale=0.5)),
    "gamma of ones": (lambda: pm.Gamma("x", 1, 1.0), np.exp, stats.expon()),
    "large gamma": (lambda: pm.Gamma("x", 30, 2.0), np.exp, stats.gamma(30, scale=0.5)),
    "inverse gamma": (lambda: pm.InverseGamma("x", 2.5, 3), np.exp, stats.invgamma(2.5, scale=3)),
    "log-normal": (lambda: pm.LogNormal("x", 1, 2), np.exp, stats.lognorm(2, scale=np.exp(1))),
    "beta": (lambda: pm.Beta("x", 0.5, 1.5), sigmoid, stats.beta(0.5, 1.5)),
    "chi squared": (lambda: pm.ChiSquared("x", 3), np.exp, stats.chi2(3)),
    "exponential": (lambda: pm.Exponential("x", 10.0), np.exp, stats.expon(scale=0.1)),
    "half-Cauchy": (lambda: pm.HalfCauchy("x", 5), np.exp, stats.halfcauchy(scale=5)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_their_distribution(name):
    write, back, exact = FAMILIES[name]
    (values,), _ = draw(write)
    assert values.shape == (SIZE,)
    assert stats.kstest(back(values), exact.cdf).pvalue > SMALLEST


@pytest.mark.statistical
def test_dirichlet_draws():
    (values, rows), _ = draw(
        lambda: (pm.Dirichlet("x", [0.5, 1.0, 2.0]), pm.Dirichlet("r", [1.0, 2.0], shape=(3, 2)))
    )
    full = np.exp(np.column_stack([values, -values.sum(axis=1)]))
    full /= full.sum(axis=1, keepdims=True)
    for column, alpha in zip(full.T, [0.5, 1.0, 2.0], strict=True):
        assert stats.kstest(column, stats.beta(alpha, 3.5 - alpha).cdf).pvalue > SMALLEST
    assert rows.shape == (SIZE, 3, 1)
    assert len(np.unique(rows)) == rows.size


@pytest.mark.parametrize("shape", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("vector", [{}, {"shape": 3}])
def test_logarithms_of_vague_gammas_are_finite(shape, vector):
    (gamma, inverse), sampler = draw(
        lambda: (pm.Gamma("x", shape, shape, **vector), pm.InverseGamma("i", shape, 1, **vector))
    )
    assert gamma.shape == (SIZE, *vector.values())
    assert np.isfinite(gamma).all()
    assert np.isfinite(inverse).all()
    # log G + log(shape) has mean digamma(shape) and variance trigamma(shape).
    from scipy.special import digamma, polygamma

    error = np.sqrt(polygamma(1, shape) / gamma.size)
    assert abs(np.mean(gamma) + np.log(shape) - digamma(shape)) < 4 * error
    assert abs(np.mean(inverse) + digamma(shape)) < 4 * error
    assert sampler.notes == []
    assert sampler.log_mass == 0.0


def test_parents_are_those_of_the_row():
    def write():
        shape = pm.Exponential("shape", 1.0)
        rate = pm.Gamma("rate", 0.5, shape, shape=2)
        pm.Normal("x", 0, tau=rate)

    (shape, rate, x), _ = draw(write)
    # log Gamma(a, b) and log |N(0, 1 / tau)| go with -log b and -log(tau) / 2.
    slope = np.polyfit(shape, rate.mean(axis=1), 1)[0]
    assert abs(slope + 1) < 0.2
    slope = np.polyfit(rate[:, 0], np.log(np.abs(x[:, 0])), 1)[0]
    assert abs(slope + 0.5) < 0.05


def test_what_overflows_is_put_at_the_end_and_noted():
    def write():
        precision = pm.Gamma("precision", 0.001, 0.001)
        pm.Normal("effect", 0, tau=precision, shape=2)

    (precision, effect), sampler = draw(write)
    assert np.isfinite(effect).all()
    assert np.max(np.abs(effect)) == LARGEST
    assert (precision < -800).any()
    (note,) = sampler.notes
    assert note.startswith("effect: 0.")
    assert "beyond 1e+150" in note


def test_both_ways_to_draw_agree_in_shape():
    with pm.Model() as model:
        a = pm.Beta("a", 0.1, 0.2, shape=(2, 1))
        pm.Gamma("b", a + 0.1, [1.0, 2.0])
    one = PriorSampler(model)._draw_one_by_one(np.random.default_rng(1), 5)
    many = PriorSampler(model)._draw_batched(np.random.default_rng(1), 5)
    for left, right in zip(one, many, strict=True):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
