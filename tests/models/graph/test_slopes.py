"""Derivatives with respect to shapes, against PyTensor's own series."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out
from scipy import special, stats

import pymc_arm
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.graph.slopes import Slope, use_differences

FUNCTIONS = {
    "lower gamma": lambda a, b, x: pt.gammainc(a, 4 * x),
    "upper gamma": lambda a, b, x: pt.gammaincc(a, 4 * x),
    "beta": lambda a, b, x: pt.betainc(a, b, x),
}
SHAPES = np.array([0.02, 0.5, 1.0, 3.3, 20.0]), np.array([4.0, 0.7, 1.0, 2.2, 9.0])
VALUES = np.array([0.1, 0.3, 0.5, 0.7, 0.95])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_are_those_of_pytensor(name):
    inputs = [pt.vector(letter, dtype="float64") for letter in "abx"]
    graph = pt.log(FUNCTIONS[name](*inputs))
    fgraph = FunctionGraph(inputs, [graph], clone=True)
    in2out(use_differences, ignore_newtrees=True).rewrite(fgraph)

    def gradients(graph, wrt):
        return compile_with_numpy(
            wrt, *pytensor.grad(graph.sum(), wrt, disconnected_inputs="ignore")
        )

    own = gradients(graph, inputs)(*SHAPES, VALUES)
    program = gradients(fgraph.outputs[0], list(fgraph.inputs))
    assert program.vectorized
    for found, expected in zip(program(*SHAPES, VALUES), own, strict=True):
        # The series end early: that of the lower gamma function is good to 2e-5.
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-9)


def test_slopes_are_those_of_finer_differences():
    slope = Slope(pt.gammainc.scalar_op, 0)

    def difference(step):
        ends = [special.gammainc(SHAPES[0] * (1 + sign * step), VALUES) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step * SHAPES[0])

    exact = (4 * difference(5e-4) - difference(1e-3)) / 3  # Richardson's extrapolation
    np.testing.assert_allclose(slope.impl(SHAPES[0], VALUES), exact, rtol=1e-6)


def test_one_number_at_a_time_is_the_same():
    slope = Slope(pt.gammainc.scalar_op, 0)
    whole = slope.impl(SHAPES[0], VALUES)
    single = [slope.impl(a, x) for a, x in zip(SHAPES[0], VALUES, strict=True)]
    np.testing.assert_array_equal(whole, single)


def test_censored_lifetimes_have_a_quick_gradient():
    """Within 4 standard errors of a sum over a grid: one false alarm in 16,000."""
    rows = np.minimum(np.random.default_rng(2).gamma(2.0, 1.0, size=60), 2.5)
    with pm.Model() as model:
        shape, rate = pm.Gamma("shape", 2, 1), pm.Gamma("rate", 2, 1)
        pm.Censored("y", pm.Gamma.dist(shape, rate), lower=None, upper=2.5, observed=rows)
    idata = pymc_arm.sample(model, random_seed=1, progressbar=False)
    grid = np.linspace(0.01, 8, 400)
    first, second = (axis.ravel() for axis in np.meshgrid(grid, grid))
    logs = stats.gamma.logpdf(first, 2) + stats.gamma.logpdf(second, 2)
    for row in rows:
        own = stats.gamma.logsf if row == 2.5 else stats.gamma.logpdf
        logs += own(row, first, scale=1 / second)
    exact = np.logaddexp.reduce(logs) + 2 * np.log(grid[1] - grid[0])
    error = idata.attrs["log_marginal_likelihood"] - exact
    assert abs(error) < 4 * idata.attrs["log_marginal_likelihood_se"] + 1e-4
    assert idata.attrs["verdict"] == "ok"


@pytest.mark.filterwarnings("ignore:Scan return signature")
def test_a_truncated_count_is_possible_at_a_tiny_mean():
    """Log P(y = 1 | y > 0) is 0 there, and it was infinite: chains ended there."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 50)
        pm.Truncated("y", pm.Poisson.dist(pt.exp(mean)), lower=1, observed=[1, 3])
    density = compile_model(model).density
    found = density.terms(np.array([[-60.0], [-900.0], [-1.0]]))[:, 1:]
    np.testing.assert_allclose(found[:2, 0], 0.0, atol=1e-9)
    np.testing.assert_allclose(found[:2, 1], [-120 - np.log(6), -1800 - np.log(6)])
    exact = stats.poisson.logpmf([1, 3], np.exp(-1)) - stats.poisson.logsf(0, np.exp(-1))
    np.testing.assert_allclose(found[2], exact)
    assert density.gradient.available()
