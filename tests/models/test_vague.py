"""Priors as BUGS users write them: every draw is finite, has a density, and log Z is exact.

The density of a compiled model of one or two coordinates is summed over a grid that is wide enough
for any of these posteriors, and compared with a closed form or with an integral on another scale.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from scipy.special import betaln, expit, gammaln, log_ndtr, logsumexp

from pymc_arm.models.compiled import compile_model

Y = np.array([0.3, -1.2, 2.0, 0.7, -0.4])


def log_integral(function, low, high, peak):
    """Return the logarithm of an integral of exp(function)."""
    top = function(peak)
    value, _ = integrate.quad(
        lambda x: np.exp(function(x) - top), low, high, points=[peak], limit=2000, epsabs=0
    )
    return top + np.log(value)


def gamma_normal(shape, rate, y=Y):
    """Return log Z of normal data with mean zero and a Gamma precision."""
    count, total = len(y), np.sum(y**2)
    return (
        -0.5 * count * np.log(2 * np.pi)
        + shape * np.log(rate)
        - gammaln(shape)
        + gammaln(shape + count / 2)
        - (shape + count / 2) * np.log(rate + total / 2)
    )


def vague_mean(eps):
    """Return log Z of normal data with a N(0, 1000^2) mean and a Gamma(eps, eps) precision."""

    def of_log_precision(v):
        count, precision = len(Y), np.exp(v)
        of_mean = 1 / precision + count * 1e6
        likelihood = (
            -0.5 * count * np.log(2 * np.pi)
            + 0.5 * (count - 1) * v
            - 0.5 * np.log(of_mean)
            - 0.5 * precision * np.sum((Y - Y.mean()) ** 2)
            - 0.5 * count * Y.mean() ** 2 / of_mean
        )
        return likelihood + eps * (np.log(eps) + v) - gammaln(eps) - eps * precision

    return log_integral(of_log_precision, -18, 8, 0.0)


def of_scale(log_prior):
    """Return log Z of normal data from the log-density of the logarithm of their scale."""
    return log_integral(
        lambda v: log_prior(v) + stats.norm(0, np.exp(v)).logpdf(Y).sum(), -6, 60, 0.2
    )


def link(log_likelihood, peak):
    """Return log Z of a likelihood whose predictor is N(0, 1000^2)."""
    return log_integral(
        lambda x: stats.norm(0, 1000).logpdf(x) + log_likelihood(x), peak - 60, peak + 60, peak
    )


def precision(eps):
    return lambda: pm.Normal("y", 0, tau=pm.Gamma("t", eps, eps), observed=Y)


def root(eps):
    return lambda: pm.Normal("y", 0, 1 / pt.sqrt(pm.Gamma("t", eps, eps)), observed=Y)


def power(eps):
    return lambda: pm.Normal("y", 0, pm.Gamma("t", eps, eps) ** -0.5, observed=Y)


def variance(eps):
    return lambda: pm.Normal("y", 0, pt.sqrt(pm.InverseGamma("v", eps, eps)), observed=Y)


def both(eps):
    return lambda: pm.Normal("y", pm.Normal("m", 0, 1000), tau=pm.Gamma("t", eps, eps), observed=Y)


def scale(prior):
    return lambda: pm.Normal("y", 0, prior(), observed=Y)


def predictor(likelihood):
    return lambda: likelihood(pm.Normal("x", 0, 1000))


EPS = (0.1, 0.01, 0.001)
MODELS = {
    **{f"precision {e}": (precision(e), gamma_normal(e, e)) for e in EPS},
    **{f"root {e}": (root(e), gamma_normal(e, e)) for e in EPS},
    **{f"power {e}": (power(e), gamma_normal(e, e)) for e in EPS},
    **{f"variance {e}": (variance(e), gamma_normal(e, e)) for e in EPS},
    **{f"mean and precision {e}": (both(e), vague_mean(e)) for e in EPS},
    "half-Cauchy": (
        scale(lambda: pm.HalfCauchy("s", 25)),
        of_scale(lambda v: stats.halfcauchy(scale=25).logpdf(np.exp(v)) + v),
    ),
    "half-t": (
        scale(lambda: pm.HalfStudentT("s", nu=3, sigma=10)),
        of_scale(lambda v: np.log(2) + stats.t(3, scale=10).logpdf(np.exp(v)) + v),
    ),
    "uniform scale": (
        scale(lambda: pm.Uniform("s", 0, 1000)),
        log_integral(
            lambda v: np.log(1e-3) + v + stats.norm(0, np.exp(v)).logpdf(Y).sum(),
            -6,
            np.log(1000),
            0.2,
        ),
    ),
    "wide log-normal": (
        scale(lambda: pm.LogNormal("s", 0, 100)),
        of_scale(stats.norm(0, 100).logpdf),
    ),
    "exponential": (
        scale(lambda: pm.Exponential("s", 10.0)),
        of_scale(lambda v: np.log(10) - 10 * np.exp(v) + v),
    ),
    "rate": (
        lambda: pm.Poisson("y", pm.Gamma("r", 0.001, 0.001), observed=[3, 0, 2]),
        0.001 * np.log(0.001)
        - gammaln(0.001)
        + gammaln(5.001)
        - 5.001 * np.log(3.001)
        - np.log(12.0),
    ),
    "rate of zeros": (
        lambda: pm.Poisson("y", pm.Gamma("r", 0.1, 0.1), observed=[0, 0]),
        0.1 * np.log(0.1 / 2.1),
    ),
    "beta": (
        lambda: pm.Binomial("y", 5, pm.Beta("p", 0.01, 0.02), observed=2),
        np.log(10) + betaln(2.01, 3.02) - betaln(0.01, 0.02),
    ),
    "beta with no success": (
        lambda: pm.Bernoulli("y", pm.Beta("p", 0.05, 0.05), observed=[0, 0]),
        betaln(0.05, 2.05) - betaln(0.05, 0.05),
    ),
    "dirichlet": (
        lambda: pm.Multinomial("y", 5, pm.Dirichlet("p", [0.01, 0.02]), observed=[2, 3]),
        np.log(10) + betaln(2.01, 3.02) - betaln(0.01, 0.02),
    ),
    "logit": (
        predictor(lambda x: pm.Binomial("y", [7, 9], logit_p=x, observed=[3, 4])),
        link(lambda x: np.log(35 * 126.0) + 7 * np.log(expit(x)) + 9 * np.log(expit(-x)), -0.2),
    ),
    "bernoulli logit": (
        predictor(lambda x: pm.Bernoulli("y", logit_p=[1.0, 2.0] * x, observed=[1, 0])),
        link(lambda x: -np.logaddexp(0, -x) - np.logaddexp(0, 2 * x), 0.0),
    ),
    "probit": (
        predictor(lambda x: pm.Bernoulli("y", pm.math.invprobit(x), observed=[1, 0, 0])),
        link(lambda x: log_ndtr(x) + 2 * log_ndtr(-x), -0.4),
    ),
    "probit by hand": (
        predictor(lambda x: pm.Bernoulli("y", 0.5 * (1 + pt.erf(x / 2**0.5)), observed=[1, 0, 0])),
        link(lambda x: log_ndtr(x) + 2 * log_ndtr(-x), -0.4),
    ),
    "log link": (
        predictor(lambda x: pm.Poisson("y", pt.exp(x), observed=[3, 5])),
        link(lambda x: 8 * x - 2 * np.exp(x) - np.log(720.0), 1.4),
    ),
    "complementary log-log": (
        predictor(lambda x: pm.Bernoulli("y", 1 - pt.exp(-pt.exp(x)), observed=[1, 0])),
        link(lambda x: (x if x < -30 else np.log(-np.expm1(-np.exp(x)))) - np.exp(min(x, 50)), 0.0),
    ),
    "categories": (
        predictor(
            lambda x: pm.Categorical("y", p=pt.special.softmax(pt.stack([x, -x])), observed=[0, 1])
        ),
        link(lambda x: -2 * np.logaddexp(x, -x), 0.0),
    ),
    "negative binomial": (
        predictor(lambda x: pm.NegativeBinomial("y", pt.exp(x), 2.0, observed=[1, 4])),
        link(
            lambda x: np.log(2 * 5.0) + 4 * np.log(2) + 5 * x - 9 * np.logaddexp(np.log(2.0), x),
            1.0,
        ),
    ),
    "ordered logit": (
        predictor(
            lambda x: pm.OrderedLogistic(
                "y", eta=x, cutpoints=np.array([0.0, 1.0]), observed=[0, 1]
            )
        ),
        link(
            lambda x: np.log(expit(-x)) + np.log(np.maximum(expit(1 - x) - expit(-x), 1e-300)),
            0.0,
        ),
    ),
}
# A grid in each coordinate: as fine as these posteriors ask for, wider than any of them.
GRIDS = {1: (np.linspace(-300, 300, 30_001),), 2: (np.linspace(-25, 25, 1001),) * 2}


# A sum of terms that is below -1e308 overflows to -inf, as it should.
@pytest.mark.filterwarnings("ignore:overflow encountered in reduce")
@pytest.mark.parametrize("name", MODELS)
def test_draws_and_density(name):
    write, exact = MODELS[name]
    with pm.Model() as model:
        write()
    path = compile_model(model)
    draws = path._planned_with[1]
    assert np.isfinite(draws).all()
    assert np.isfinite(path.log_density(draws)).mean() > 0.45
    prior = np.zeros(path.density.count)
    prior[: path.density.offsets[len(model.free_RVs)]] = 1.0
    assert np.isfinite(path.density.sum(draws, prior)).all()
    axes = GRIDS[draws.shape[1]]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    volume = np.prod([axis[1] - axis[0] for axis in axes])
    found = logsumexp(path.log_density(points)) + np.log(volume)
    assert found == pytest.approx(exact, abs=2e-3)
