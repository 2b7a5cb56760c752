"""What a transform does to a prior is found by trying, whatever it is called."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms as tr
from scipy import integrate, stats
from scipy.special import gammaln

import pymc_arm
from pymc_arm import ModelError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.prior import PriorSampler


class Doubled(tr.Transform):
    name = "doubled"

    def forward(self, value, *inputs):
        return value / 2

    def backward(self, value, *inputs):
        return 2 * value

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value) + np.log(2.0)


class NotItsInverse(Doubled):
    name = "not its inverse"

    def forward(self, value, *inputs):
        return value / 3


class WrongJacobian(Doubled):
    name = "wrong Jacobian"

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value)


def of(write):
    with pm.Model() as model:
        write()
        pm.Potential("no_data", pt.constant(0.0))
    return model


ORDERED = {
    "normal": (lambda: pm.Normal("x", 0, 1, shape=3, transform=tr.ordered), 1),
    "descending": (
        lambda: pm.Normal("x", 0, 1, shape=3, transform=tr.Ordered(ascending=False)),
        -1,
    ),
    "gamma": (lambda: pm.Gamma("x", 2, 1.0, shape=3, transform=tr.ordered), 1),
    "half-normal": (
        lambda: pm.HalfNormal("x", shape=3, default_transform=tr.Ordered(positive=True)),
        1,
    ),
    "exponential": (lambda: pm.Exponential("x", 1.0, shape=3, transform=tr.ordered), 1),
    "beta": (lambda: pm.Beta("x", 2, 3, shape=3, transform=tr.ordered), 1),
    "uniform": (lambda: pm.Uniform("x", 1, 4, shape=3, transform=tr.ordered), 1),
    "chain": (
        lambda: pm.Gamma("x", 2, 1, shape=3, default_transform=tr.Chain([tr.log, tr.ordered])),
        1,
    ),
    "random mean": (
        lambda: pm.Normal("x", pm.Normal("m"), 1, shape=3, transform=tr.ordered),
        1,
    ),
    "correlated": (
        lambda: pm.MvNormal("x", np.zeros(3), np.eye(3) + 1, transform=tr.ordered),
        1,
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_priors_are_sorted_and_corrected(name):
    write, direction = ORDERED[name]
    path = compile_model(of(write))
    draws = path._planned_with[1]
    posterior = path.posterior(np.random.default_rng(1), draws[:200])
    assert np.all(direction * np.diff(posterior["x"], axis=-1) > 0)
    (correction,) = path.corrections
    assert correction.log_factor == pytest.approx(gammaln(4))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["gamma", "beta", "uniform", "random mean"])
def test_ordered_priors_integrate_to_one(name):
    result = pymc_arm.sample(
        of(ORDERED[name][0]), draws=400, chains=2, random_seed=3, progressbar=False
    )
    attributes = result.attrs
    assert abs(attributes["log_marginal_likelihood"]) < 4 * max(
        attributes["log_marginal_likelihood_se"], 1e-3
    )


def test_rows_are_sorted_one_by_one():
    path = compile_model(of(lambda: pm.Normal("x", shape=(2, 3), transform=tr.ordered)))
    (correction,) = path.corrections
    assert correction.log_factor == pytest.approx(2 * gammaln(4))


def test_other_elements_are_drawn_until_they_have_the_order():
    def write():
        pm.Normal("x", [0.0, 1.0], 1.0, shape=2, transform=tr.ordered)

    path = compile_model(of(write))
    assert path.prior.log_mass == 0.0
    (correction,) = path.corrections
    exact = stats.norm.cdf(1 / np.sqrt(2))  # 0.76, of ten thousand draws
    error = np.sqrt((1 - exact) / exact / 10_000)
    assert abs(correction.log_factor + np.log(exact)) < 4 * error
    (values,) = path.prior.draw(np.random.default_rng(3), 4000)
    assert np.isfinite(values).all()


def test_restricted_elements_are_integrated_as_they_are_written():
    # A censored observation as PyMC's examples have it: log Z has the mass beyond 1 in it.
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("above", mean, 1, shape=2, transform=tr.Interval(1, None))
        pm.Normal("y", mean, 1, observed=0.5)
    path = compile_model(model)
    assert path.prior.integrated == {"above"}
    assert {step.label for step in path.plan.steps} >= {"above[0]", "above[1]"}
    assert any("transform keeps 0." in note for note in path.plan.notes)
    means = np.linspace(-8, 8, 4001)
    table = stats.norm.pdf(means) * stats.norm.sf(1 - means) ** 2 * stats.norm.pdf(0.5 - means)
    exact = np.log(table.sum() * (means[1] - means[0]))
    result = pymc_arm.sample(model, draws=400, chains=2, random_seed=2, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 4 * max(result.attrs["log_marginal_likelihood_se"], 2e-3)


@pytest.mark.parametrize(
    "write",
    [
        lambda: pm.Normal("x", transform=Doubled()),
        lambda: pm.Normal("x", shape=(2, 3), transform=Doubled()),
        lambda: pm.VonMises("x", 0, 1, transform=Doubled()),
        lambda: pm.Gamma("x", 0.01, 0.01, transform=Doubled()),
        lambda: pm.HalfNormal("x", default_transform=tr.log_exp_m1),
        lambda: pm.Dirichlet("x", [1.0, 2.0, 3.0], default_transform=tr.SumTo1()),
    ],
)
def test_one_to_one_transforms_keep_all(write):
    sampler = PriorSampler(of(write))
    assert sampler.kept["x"].part == "all"
    assert np.isfinite(sampler.draw(np.random.default_rng(0), 100)[0]).all()


@pytest.mark.parametrize(
    "write",
    [
        lambda: pm.Uniform("x", pm.Normal("a"), 9),
        lambda: pm.ZeroSumNormal("x", shape=3),
        lambda: pm.Dirichlet("x", np.full(3, 0.01)),
        lambda: pm.VonMises("x", 0, 0.1),
        lambda: pm.Truncated("x", pm.Normal.dist(), lower=0),
        lambda: pm.LKJCholeskyCov("x", n=2, eta=1, sd_dist=pm.HalfNormal.dist(shape=2)),
    ],
)
def test_usual_transforms_are_not_tried(write):
    sampler = PriorSampler(of(write))
    assert sampler.kept == {}
    for values in sampler.draw(np.random.default_rng(0), 100):
        assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda: pm.Normal("x", transform=NotItsInverse()),
            "'not its inverse' of 'x' does not undo itself: .* correct its forward",
        ),
        (
            lambda: pm.Normal("x", shape=2, transform=WrongJacobian()),
            "log_jac_det of the transform 'wrong Jacobian' of 'x' is 0 at .* has 1.38629 there",
        ),
        (
            lambda: pm.Dirichlet("x", [1.0, 2.0, 3.0], transform=tr.SumTo1()),
            "'simplex then sumto1' of 'x' keeps 0 of its prior .* default_transform=",
        ),
        (
            lambda: pm.Normal("x", [9.0, 0.0], 1, shape=2, transform=tr.ordered),
            "'ordered' of 'x' keeps 0 of its prior",
        ),
    ],
)
def test_transforms_that_do_not_fit(write, message):
    with pytest.raises(ModelError, match=message):
        compile_model(of(write))


def test_impossible_parameters_have_no_mass():
    # A scale that is negative in half of the draws: the density is zero there.
    with pm.Model() as model:
        scale = pm.Normal("scale", 0, 1)
        x = pm.Normal("x", 0, scale)
        pm.Normal("y", x, 1, observed=0.5)
    path = compile_model(model)
    assert abs(path.prior.log_mass - np.log(0.5)) < 0.05
    assert any("of the prior draws are possible" in note for note in path.plan.notes)
    scale, _ = path.prior.draw(np.random.default_rng(0), 100)
    assert (scale > 0).all()


def test_no_possible_parameters():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Normal("y", pm.Normal("x", 0, -scale), 1, observed=0.5)
    with pytest.raises(ModelError, match="'x' can't be drawn from its prior"):
        compile_model(model)


@pytest.mark.statistical
@pytest.mark.parametrize("refine", [False, True])
def test_ordered_means_that_are_read_one_by_one(refine):
    """The elements come in one after another, each with its own part of the Jacobian."""
    readings, noise, width = np.array([-1.0, 1.5, 1.2]), 0.8, 2.0
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, width, shape=3, transform=tr.ordered, initval=[-1, 0, 1])
        pm.Normal("reading", mean, noise, observed=readings)
    precision = width**-2 + noise**-2
    first, second, third = (stats.norm(y / noise**2 / precision, precision**-0.5) for y in readings)
    ordered, _ = integrate.quad(
        lambda x: second.pdf(x) * first.cdf(x) * third.sf(x), -10, 10, epsabs=1e-12
    )
    truth = stats.norm(0, np.hypot(width, noise)).logpdf(readings).sum() + np.log(6 * ordered)
    idata = pymc_arm.sample(
        model, draws=500, random_seed=1, refine=refine, start="prior", progressbar=False
    )
    error = idata.attrs["log_marginal_likelihood_se"]
    assert abs(idata.attrs["log_marginal_likelihood"] - truth) < 4 * error
    assert error < 0.1
    assert idata.attrs["verdict"] == "ok"


def exact_ordered(log_prior, data, noise):
    """Integrate over x_1 < x_2 < ..., with Simpson's rule on a fine grid."""
    nodes = np.linspace(1e-9, 30.0, 60_001)
    accumulated = np.ones_like(nodes)
    for value in data:
        log_terms = log_prior(nodes) + stats.norm.logpdf(value, nodes, noise)
        accumulated = integrate.cumulative_simpson(
            np.exp(log_terms) * accumulated, x=nodes, initial=0.0
        )
    return float(np.log(accumulated[-1]) + gammaln(len(data) + 1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("prior", "frozen"),
    [
        (lambda **kw: pm.HalfNormal("x", 2, **kw), stats.halfnorm(scale=2)),
        (lambda **kw: pm.Exponential("x", 0.5, **kw), stats.expon(scale=2)),
        (lambda **kw: pm.HalfCauchy("x", 1, **kw), stats.halfcauchy()),
        (lambda **kw: pm.Gamma("x", 2, 1, **kw), stats.gamma(2)),
    ],
)
def test_ordered_positive_variables_with_a_density_at_zero(prior, frozen):
    """Each element needs its own part of the Jacobian, or its prior has no end at log x = -inf."""
    data = np.array([0.4, 1.1, 3.0])
    with pm.Model() as model:
        x = prior(shape=3, transform=tr.ordered, initval=[0.5, 1.0, 2.0])
        pm.Normal("y", x, 0.5, observed=data)
    result = pymc_arm.sample(model, draws=500, chains=2, random_seed=1, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - exact_ordered(frozen.logpdf, data, 0.5)
    assert result.attrs["log_marginal_likelihood_se"] < 0.05
    assert abs(error) < 5 * result.attrs["log_marginal_likelihood_se"]


def log_order_of_two(low, high):
    """The log-probability that the first of two normal variables of width one is the smaller."""
    return stats.norm.logcdf((high - low) / np.sqrt(2))


@pytest.mark.statistical
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("gap", [1.0, -2.0])
def test_the_error_of_the_share_in_order_is_one_of_log_z(vectors, gap):
    """Elements with different means: the share in order is known by draws only."""
    data = np.array([0.0, 0.5])
    with pm.Model() as model:
        for number in range(vectors):
            x = pm.Normal(
                f"x{number}", [0.0, gap], 1, shape=2, transform=tr.ordered, initval=[0.0, 1.0]
            )
            pm.Normal(f"y{number}", x, 1, observed=data)
    # Given the data, means are halfway and variances a half; the difference has variance one.
    middle = (data + np.array([0.0, gap])) / 2
    each = stats.norm.logpdf(data, [0.0, gap], np.sqrt(2)).sum()
    each += stats.norm.logcdf(middle[1] - middle[0]) - log_order_of_two(0.0, gap)
    result = pymc_arm.sample(model, draws=500, chains=2, random_seed=1, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - vectors * each
    assert 0.001 < result.attrs["log_marginal_likelihood_se"] < 0.05
    assert abs(error) < 4 * result.attrs["log_marginal_likelihood_se"]
