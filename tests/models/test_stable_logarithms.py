"""Logarithms of graphs where the graphs themselves are rounded to zero or to one."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special

from pymc_arm.models.stable_logarithms import is_positive, log1m_of, log_of

X = np.array([-2000.0, -40.0, -1.0, 0.5, 30.0, 2000.0])
# log(1 - exp(-exp(x))) is x far below zero, and zero far above.
CLOGLOG = np.array([-2000.0, -40.0, *np.log(-np.expm1(-np.exp(X[2:4]))), 0.0, 0.0])


def evaluate(graph, x):
    assert graph is not None
    with np.errstate(all="ignore"):
        return pytensor.function([x], graph, mode="FAST_COMPILE")(X)


LOGARITHMS = {
    "exponential": (lambda x: pt.exp(x), X),
    "product": (lambda x: 3.0 * pt.exp(x) * pt.sigmoid(-x), np.log(3) + X + special.log_expit(-X)),
    "quotient": (lambda x: pt.exp(x) / pt.exp(3 * x), -2 * X),
    "root": (lambda x: pt.sqrt(pt.exp(x)), 0.5 * X),
    "square": (lambda x: pt.sqr(pt.exp(x)), 2 * X),
    "sum": (lambda x: pt.exp(x) + pt.exp(-x), np.logaddexp(X, -X)),
    "sigmoid": (lambda x: pt.sigmoid(x), special.log_expit(X)),
    "survivor": (lambda x: 1 - pt.sigmoid(x), special.log_expit(-X)),
}
COMPLEMENTS = {
    "sigmoid": (lambda x: pt.sigmoid(x), special.log_expit(-X)),
    "complementary log-log": (lambda x: pt.exp(-pt.exp(x)), CLOGLOG),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_are_finite_and_exact(name):
    graph, exact = LOGARITHMS[name]
    x = pt.vector("x", shape=(len(X),))
    np.testing.assert_allclose(evaluate(log_of(graph(x)), x), exact, rtol=1e-12)


@pytest.mark.parametrize("name", COMPLEMENTS)
def test_logarithms_of_what_is_left_of_one(name):
    graph, exact = COMPLEMENTS[name]
    x = pt.vector("x", shape=(len(X),))
    np.testing.assert_allclose(evaluate(log1m_of(graph(x)), x), exact, rtol=1e-10, atol=1e-15)


def test_the_logarithm_of_a_softmax_and_of_a_part_of_it():
    x = pt.vector("x", shape=(len(X),))
    probabilities = pt.special.softmax(x)
    np.testing.assert_allclose(evaluate(log_of(probabilities), x), X - special.logsumexp(X))
    part = evaluate(log_of(probabilities[1:3]), x)
    np.testing.assert_allclose(part, (X - special.logsumexp(X))[1:3])


def test_what_has_no_better_form_is_left():
    x = pt.vector("x")
    assert log_of(x) is None
    assert log_of(pt.sin(x)) is None
    assert log_of(pt.exp(x) + x) is None
    assert log1m_of(x) is None


def test_positive_by_form_and_not_by_value():
    x = pt.vector("x")
    for graph in (
        pt.exp(x),
        pt.softplus(x) / 2,
        pt.exp(x) + 1.0,
        1 - pt.sigmoid(x),
        pt.sqrt(pt.exp(x)),
    ):
        assert is_positive(graph)
    for graph in (x, pt.sin(x), pt.exp(x) - 1.0, -pt.exp(x), pt.constant(0.0), x**2):
        assert not is_positive(graph)
