"""Log-densities are finite, and right, where what they take the logarithm of is rounded away."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.elemwise import Elemwise

from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.stable import stabilize
from pymc_arm.models.terms import Layout, build_terms

X = np.array([-2000.0, -800.0, -40.0, -1.0, 0.0, 0.5, 3.0, 40.0, 800.0, 2000.0])


def softplus(x):
    return np.logaddexp(0.0, x)


def log_normal_cdf(x):
    from scipy.special import log_ndtr

    return log_ndtr(x)


LOGARITHMS = {
    "exp": (lambda x: pt.log(pt.exp(x)), lambda x: x),
    "sqrt": (lambda x: pt.log(1 / pt.sqrt(pt.exp(x))), lambda x: -x / 2),
    "power": (lambda x: pt.log(pt.exp(x) ** -0.5), lambda x: -x / 2),
    "product": (lambda x: pt.log(3.0 * pt.exp(x) / 2.0), lambda x: x + np.log(1.5)),
    "indexed": (lambda x: pt.log(pt.exp(x)[np.arange(10)][None, :])[0], lambda x: x),
    "square": (lambda x: pt.log(pt.sqr(pt.exp(x))), lambda x: 2 * x),
    "sum": (lambda x: pt.log(2.0 + pt.exp(x)), lambda x: np.logaddexp(np.log(2.0), x)),
    "share": (
        lambda x: pt.log(2.0 / (2.0 + pt.exp(x))),
        lambda x: np.log(2.0) - np.logaddexp(np.log(2.0), x),
    ),
    "joined": (lambda x: pt.log(pt.concatenate([pt.exp(x)[:3], pt.exp(x)[3:]])), lambda x: x),
    "sigmoid": (lambda x: pt.log(pt.sigmoid(x)), lambda x: -softplus(-x)),
    "one minus sigmoid": (lambda x: pt.log(1 - pt.sigmoid(x)), lambda x: -softplus(x)),
    "log1p": (lambda x: pt.log1p(-pt.sigmoid(x)[None])[0], lambda x: -softplus(x)),
    "by hand": (lambda x: pt.log(1 / (1 + pt.exp(-x))), lambda x: -softplus(-x)),
    "minus by hand": (lambda x: pt.log(1 - 1 / (1 + pt.exp(-x))), lambda x: -softplus(x)),
    "twice": (lambda x: pt.log(1 - (1 - pt.sigmoid(x))), lambda x: -softplus(-x)),
    "probit": (lambda x: pt.log(pm.math.invprobit(x)), log_normal_cdf),
    "one minus probit": (lambda x: pt.log(1 - pm.math.invprobit(x)), lambda x: log_normal_cdf(-x)),
    "erf": (lambda x: pt.log(0.5 * (1 + pt.erf(x / np.sqrt(2.0)))), log_normal_cdf),
    "one minus erf": (
        lambda x: pt.log(1 - 0.5 * (1 + pt.erf(x / np.sqrt(2.0)))),
        lambda x: log_normal_cdf(-x),
    ),
    "difference": (
        lambda x: pt.log(pt.sigmoid(x + 1.0) - pt.sigmoid(x)),
        lambda x: -softplus(-x - 1) - softplus(x) + np.log(-np.expm1(-1.0)),
    ),
    "cloglog": (
        lambda x: pt.log(1 - pt.exp(-pt.exp(x))),
        lambda x: np.where(x < -30, x, np.log(-np.expm1(-np.exp(x)))),
    ),
    "cloglog by expm1": (
        lambda x: pt.log(-pt.expm1(-pt.exp(x))),
        lambda x: np.where(x < -30, x, np.log(-np.expm1(-np.exp(x)))),
    ),
    "softmax": (lambda x: pt.log(pt.special.softmax(x, axis=0)), lambda x: x - 2000.0),
    "softmax by hand": (
        lambda x: pt.log(pt.exp(x) / pt.exp(x).sum(keepdims=True)),
        lambda x: x - 2000.0,
    ),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms(name):
    graph, exact = LOGARITHMS[name]
    x = pt.vector("x", shape=(10,))
    (stable,) = stabilize([graph(x)])
    function = pytensor.function([x], [stable, pytensor.grad(stable.sum(), x)], mode="FAST_COMPILE")
    with np.errstate(all="ignore"):
        values, gradient = function(X)
        expected = exact(X)
    # invprobit has the square root of two in single precision.
    precision = 1e-6 if "probit" in name else 1e-10
    np.testing.assert_allclose(values, expected, rtol=precision, atol=1e-13)
    if name not in ("cloglog", "cloglog by expm1"):  # exp(2000) in its derivative is infinite
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    "compare",
    [
        lambda x: pt.eq(pt.exp(x), 0),
        lambda x: pt.le(pt.exp(x), 0.0),
        lambda x: pt.lt(pt.exp(x), 0.0),
        lambda x: pt.ge(0, pt.exp(x)),
        lambda x: pt.eq(1 - pt.sigmoid(x), 0),
        lambda x: pt.le(1 - pt.exp(-pt.exp(x)), 0),
        lambda x: pt.invert(pt.neq(pt.sqrt(pt.exp(x)), 0)),
    ],
)
def test_what_is_positive_is_not_zero(compare):
    x = pt.vector("x", shape=(10,))
    (answer,) = stabilize([compare(x)])
    assert not np.any(pytensor.function([x], answer, mode="FAST_COMPILE")(X))


@pytest.mark.parametrize(
    "compare", [lambda x: pt.eq(1 - pt.exp(x), 0), lambda x: pt.lt(1 - pt.exp(x), 0)]
)
def test_what_may_be_zero_is_compared(compare):
    x = pt.vector("x", shape=(10,))
    (answer,) = stabilize([compare(x)])
    function = pytensor.function([x], [answer, compare(x)], mode="FAST_COMPILE")
    np.testing.assert_array_equal(*function(X))
    assert np.any(function(X)[0])


def terms_of(model, points, name):
    """Return the sum of the terms of a variable at points."""
    values = PriorSampler(model).draw(np.random.default_rng(1), 3)
    x, blocks = build_terms(model, Layout.of(model, values))
    (block,) = (block for block in blocks if block.name == name)
    graph = sum(piece.sum() for piece in block.pieces)
    function = pytensor.function([x], graph, mode="FAST_COMPILE", on_unused_input="ignore")
    return np.array([function(point) for point in np.atleast_2d(points)])


@pytest.mark.parametrize("shape", [0.1, 0.001, 1.0, 3.0])
def test_gamma_far_below_zero(shape):
    from scipy.special import gammaln

    with pm.Model() as model:
        pm.Gamma("tau", shape, 0.5)
        pm.Normal("y", 0, tau=model["tau"], observed=[1.0, -2.0])
    points = np.array([[-5000.0], [-800.0], [-3.0], [1.0], [5.0]])
    exact = shape * (np.log(0.5) + points[:, 0]) - gammaln(shape) - 0.5 * np.exp(points[:, 0])
    np.testing.assert_allclose(terms_of(model, points, "tau"), exact, rtol=1e-7)
    data = points[:, 0] - np.log(2 * np.pi) - 2.5 * np.exp(points[:, 0])
    np.testing.assert_allclose(terms_of(model, points, "y"), data, rtol=1e-7)


def test_inverse_gamma_far_above_zero():
    from scipy.special import gammaln

    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 0.001, 0.001)
        pm.Normal("y", 0, pt.sqrt(variance), observed=1.0)
    v = np.array([5000.0, 800.0, 3.0, -1.0])
    exact = 0.001 * np.log(0.001) - gammaln(0.001) - 0.001 * v - 0.001 * np.exp(-v)
    np.testing.assert_allclose(terms_of(model, v[:, None], "variance"), exact, rtol=1e-9)
    data = -0.5 * v - 0.5 * np.log(2 * np.pi) - 0.5 * np.exp(-v)
    np.testing.assert_allclose(terms_of(model, v[:, None], "y"), data, rtol=1e-9)


def test_beta_in_the_corners():
    with pm.Model() as model:
        p = pm.Beta("p", 0.01, 0.02)
        pm.Binomial("y", 5, p, observed=2)
    v = np.array([-5000.0, -800.0, 0.0, 800.0, 5000.0])
    from scipy.special import betaln

    exact = -0.01 * softplus(-v) - 0.02 * softplus(v) - betaln(0.01, 0.02)
    np.testing.assert_allclose(terms_of(model, v[:, None], "p"), exact, rtol=1e-9)
    data = np.log(10.0) - 2 * softplus(-v) - 3 * softplus(v)
    np.testing.assert_allclose(terms_of(model, v[:, None], "y"), data, rtol=1e-9)


LINKS = {
    "bernoulli": lambda x: pm.Bernoulli("y", logit_p=x, observed=[1, 0]),
    "binomial": lambda x: pm.Binomial("y", 7, logit_p=x, observed=[3, 4]),
    "probit": lambda x: pm.Bernoulli("y", p=pm.math.invprobit(x), observed=[1, 0]),
    "cloglog": lambda x: pm.Bernoulli("y", p=1 - pt.exp(-pt.exp(x)), observed=[1, 1]),
    "poisson": lambda x: pm.Poisson("y", pt.exp(-pt.abs(x)), observed=[3, 4]),
    "categorical": lambda x: pm.Categorical("y", logit_p=pt.stack([x, -x]).T, observed=[0, 1]),
    "softmax": lambda x: pm.Categorical(
        "y", p=pm.math.softmax(pt.stack([x, -x], axis=1), axis=1), observed=[0, 1]
    ),
    "multinomial": lambda x: pm.Multinomial(
        "y", n=5, p=pm.math.softmax(pt.stack([x, -x], axis=1), axis=1), observed=[[2, 3], [3, 2]]
    ),
    "ordered logistic": lambda x: pm.OrderedLogistic(
        "y", eta=x, cutpoints=np.array([-1.0, 0.0, 2.0]), observed=[1, 2]
    ),
    "negative binomial": lambda x: pm.NegativeBinomial("y", pt.exp(x), 2.0, observed=[1, 4]),
    "beta-binomial by hand": lambda x: pm.Binomial("y", 7, pt.sigmoid(x)[[0, 1]], observed=[3, 4]),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_do_not_saturate(name):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1000, shape=2)
        LINKS[name](x)
    values = terms_of(model, [[900.0, -900.0], [-900.0, 900.0]], "y")
    assert np.isfinite(values).all()


# PyMC 5 truncates in ways that PyTensor announces to change.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["HurdlePoisson", "HurdleNegativeBinomial"])
def test_counts_that_are_not_zero_of_a_tiny_mean(name):
    # With p(y) = c_y mu^y to first order, a count above zero is one, and two is as rare as mu.
    eta = np.array([-600.0, -200.0, -40.0])
    with pm.Model() as model:
        mean = pm.math.exp(pm.Normal("eta", 0, 100))
        more = {"alpha": 2.0} if name == "HurdleNegativeBinomial" else {}
        for seen in (1, 2):
            getattr(pm, name)(f"y{seen}", psi=0.3, mu=mean, observed=[seen], **more)
    log_two = np.log((2.0 + 1) / (2 * 2.0)) if more else -np.log(2)
    np.testing.assert_allclose(terms_of(model, eta[:, None], "y1"), np.log(0.3), rtol=1e-9)
    np.testing.assert_allclose(
        terms_of(model, eta[:, None], "y2"), np.log(0.3) + log_two + eta, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("first", "second", "scalar"),
    [
        (lambda x: -pt.softplus(-x), lambda x: -pt.softplus(x), "Softplus"),
        (lambda x: pt.exp(x), lambda x: pt.exp(x**2), "Exp"),
        (lambda x: pt.log(pt.sigmoid(x)), lambda x: pt.log(1 - pt.sigmoid(x)), "Softplus"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_function_on_both_sides_of_a_switch_is_computed_once(first, second, scalar, known):
    x, condition = pt.vector(shape=(10,)), pt.vector(dtype="bool", shape=(10,))
    mask = np.arange(10) % 3 == 0
    graph = pt.switch(pt.constant(mask) if known else condition, first(x), second(x))
    (found,) = stabilize([graph])
    kinds = [
        type(node.op.scalar_op).__name__
        for node in FunctionGraph([x, condition], [found], clone=True).apply_nodes
        if isinstance(node.op, Elemwise)
    ]
    assert kinds.count(scalar) == 1
    gradients = [pt.grad(g.sum(), x) for g in (graph, found)]
    function = pytensor.function(
        [x, condition], [graph, found, *gradients], mode="FAST_COMPILE", on_unused_input="ignore"
    )
    at = np.linspace(-8, 8, 10)  # further out log(1 - sigmoid(x)) has few digits
    before, after, slope_before, slope_after = function(at, mask)
    np.testing.assert_allclose(after, before, rtol=1e-8)
    np.testing.assert_allclose(slope_after, slope_before, rtol=1e-6)


def test_sides_of_a_switch_that_are_repeated_stay_outside():
    x = pt.vector(shape=(1,))
    graph = pt.switch(np.arange(10) % 2 == 0, pt.exp(x), pt.exp(2 * x))
    (found,) = stabilize([graph])
    assert found.owner.op == graph.owner.op
