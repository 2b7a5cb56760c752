"""Scans on batches: values and gradients are those of PyTensor, for one particle at a time."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph

from pymc_arm.models.graph.interpret import compile_with_numpy
from pymc_arm.models.graph.loops import has_loop

STEPS = 6
NOISE = np.random.default_rng(2).normal(size=STEPS)


def scan(**arguments):
    result = pytensor.scan(**arguments, return_updates=False)
    return result


def one_lag(x):
    return scan(fn=lambda e, last: x[0] * last + e, sequences=[NOISE], outputs_info=[x[1]])


def two_lags(x):
    states = pt.stack([x[1], x[2]])
    return scan(
        fn=lambda e, second, first: x[0] * first - 0.2 * second + e,
        sequences=[NOISE],
        outputs_info=[{"initial": states, "taps": [-2, -1]}],
    )


def own_sequence(x):
    return scan(fn=lambda e: pt.exp(e) * x[0], sequences=[x * 2.0])


def state_and_output(x):
    states, outputs = scan(
        fn=lambda e, last: (x[0] * last + e, pt.tanh(last) * x[2]),
        sequences=[NOISE],
        outputs_info=[x[1], None],
    )
    return states * outputs


def last_only(x):
    return scan(fn=lambda last: pt.sin(last) + x[0], outputs_info=[x[1]], n_steps=STEPS)[-1]


def matrix_state(x):
    start = pt.outer(x, x)
    return scan(fn=lambda last: 0.5 * last @ last + x, outputs_info=[start], n_steps=3)


def nested(x):
    def inner(start):
        return scan(fn=lambda last: 0.5 * last + x[2], outputs_info=[start], n_steps=3)[-1]

    return scan(fn=lambda e, last: inner(last) + e, sequences=[NOISE], outputs_info=[x[1]])


GRAPHS = [one_lag, two_lags, own_sequence, state_and_output, last_only, matrix_state, nested]


POINTS = np.random.default_rng(3).normal(size=(5, 3)) * 0.5


def batched(graph, x):
    rows = pt.tensor(shape=(None, 3))
    program = compile_with_numpy([rows], vectorize_graph(graph, {x: rows}))
    assert program.vectorized
    return lambda points: program(points)[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", GRAPHS)
def test_a_batch_of_scans_is_what_one_after_another_gives(build):
    x = pt.tensor("x", shape=(3,))
    graph = build(x)
    found = batched(graph, x)(POINTS)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        own = pytensor.function([x], graph, mode=Mode("py", None))
        expected = np.array([own(point) for point in POINTS])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", GRAPHS)
def test_the_gradient_of_a_batch_of_scans_is_that_of_differences(build):
    """PyTensor 2.38 ends the process when it interprets some of these gradients."""
    x = pt.tensor("x", shape=(3,))
    total = pt.cos(build(x)).sum()
    value, gradient = batched(total, x), batched(pt.grad(total, x), x)
    step = 1e-6
    differences = [(value(POINTS + step * e) - value(POINTS - step * e)) for e in np.eye(3)]
    expected = np.stack(differences, axis=1) / (2 * step)
    np.testing.assert_allclose(gradient(POINTS), expected, rtol=1e-5, atol=1e-6)


def test_a_loop_is_seen_where_there_is_one():
    x = pt.vector("x", shape=(3,))
    assert has_loop([one_lag(x).sum()])
    assert not has_loop([pt.exp(x).sum()])
