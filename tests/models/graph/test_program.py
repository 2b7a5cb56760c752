"""A list of array operations: run, bound, trimmed, and measured."""

import pickle
import threading

import numpy as np
import pytest

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.program import Instruction, Program, Single, serialized, trim


class Add:
    """Stands for the kind of an operation."""


def instruction(function, sources, target):
    return Instruction(lambda *values: (function(*values),), tuple(sources), (target,), Add)


def example():
    """Places 0 and 1 are inputs, 2 is the constant 10: 3 = x + 10, 4 = w^2, 5 = 3 * 4, 6 = -x."""
    instructions = [
        instruction(np.add, (0, 2), 3),
        instruction(np.square, (1,), 4),
        instruction(np.multiply, (3, 4), 5),
        instruction(np.negative, (0,), 6),
    ]
    return Program([0, 1], [5, 6], {2: 10.0}, instructions, vectorized=True)


X, W = np.array([1.0, 2.0]), np.array([3.0, -1.0])


def test_outputs_are_evaluated():
    product, negative = example()(X, W)
    np.testing.assert_array_equal(product, (X + 10) * W**2)
    np.testing.assert_array_equal(negative, -X)


def test_what_is_bound_is_evaluated_once():
    calls = []

    def square(values):
        calls.append(1)
        return values**2

    program = Program(
        [0, 1],
        [3],
        {},
        [instruction(square, (1,), 2), instruction(np.multiply, (0, 2), 3)],
        vectorized=True,
    )
    bound = program.bind(W)
    for _ in range(3):
        np.testing.assert_array_equal(bound(X)[0], X * W**2)
    assert len(calls) == 1
    assert len(bound.instructions) == 1
    # The program that was bound is as it was.
    np.testing.assert_array_equal(program(X, 2 * W)[0], X * (2 * W) ** 2)


def multiply(a, b):
    """Return two results."""
    return [a * b, a]


def test_operations_with_one_and_with_two_results():
    """The results of an operation are one or two, or not used; constants and inputs are outputs."""
    program = Program(
        [0, 1],
        [6, 2, 0, 4],
        {2: 10.0},
        [
            Instruction(Single(np.add), (0, 2), (3,), Add),
            Instruction(np.divmod, (3, 1), (4, 5), Add),
            Instruction(multiply, (3, 4), (6, 7), Add),
        ],
        vectorized=True,
    )
    expected = [(X + 10) * ((X + 10) // W), 10.0, X, (X + 10) // W]
    for own in (program, pickle.loads(pickle.dumps(program))):
        for found, right in zip(own(X, W), expected, strict=True):
            np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("last", [0, 1, 2])
def test_a_program_in_two_parts_gives_the_same(last):
    before, rest = example().split(last)
    inputs = [X, W]
    free = len(inputs) - last
    assert [len(before.instructions), len(rest.instructions)] == [[0, 4], [1, 3], [4, 0]][last]
    product, negative = rest(*inputs[:free], *before(*inputs[free:]))
    np.testing.assert_array_equal(product, (X + 10) * W**2)
    np.testing.assert_array_equal(negative, -X)


def test_some_outputs_need_some_instructions():
    bound = example().bind(W, outputs=[1])
    assert len(bound.instructions) == 1
    np.testing.assert_array_equal(bound(X)[0], -X)
    assert bound.constants == {}


def test_arrays_are_given_up_where_they_are_last_used():
    kept = trim(example().instructions, [5], [0, 1, 2])
    assert [each.targets for each in kept] == [(3,), (4,), (5,)]
    assert [set(each.done) for each in kept] == [set(), set(), {3, 4}]


def test_the_elements_of_a_point_are_those_of_the_largest_array_that_grows():
    program = Program(
        [0],
        [3],
        {1: np.ones((1, 7)), 2: np.zeros(1000)},
        [
            instruction(lambda x, ones: x[:, None] * ones, (0, 1), 4),
            instruction(lambda big: big + 1, (2,), 5),
            instruction(lambda table, big: table.sum() + big.sum(), (4, 5), 3),
        ],
        vectorized=True,
    )
    assert program.elements_per_point(X) == 7


def test_threads_go_one_at_a_time_into_what_is_serialized():
    inside, most = [], []

    def call(value):
        inside.append(value)
        most.append(len(inside))
        inside.remove(value)
        return 2 * value

    function, found = serialized(call), []
    threads = [threading.Thread(target=lambda k=k: found.append(function(k))) for k in range(8)]
    with COMPILING:
        for thread in threads:
            thread.start()
        assert most == []
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert sorted(found) == [2 * k for k in range(8)]


def test_as_many_inputs_as_there_are():
    with pytest.raises(ValueError, match="zip"):
        example()(X)
