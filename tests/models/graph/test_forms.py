"""What a graph is by its form, however PyTensor has written it."""

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as scalar

from pymc_arm.models.graph.forms import (
    are_equal,
    is_constant,
    joined_parts,
    last_slice,
    minus_one,
    opposite_of,
    rebuild,
    scalar_kind,
)

x, y = pt.vector("x"), pt.vector("y")


def test_constants_are_seen_through_broadcasts():
    assert is_constant(pt.constant(1.0), 1)
    assert is_constant(pt.alloc(pt.constant(1.0), 3), 1)
    assert is_constant(pt.ones_like(x), 1)
    assert not is_constant(pt.constant([1.0, 2.0]), 1)
    assert not is_constant(x, 1)


def test_equal_graphs():
    assert are_equal(x, x)
    assert are_equal(pt.constant(2.0), pt.alloc(pt.constant(2.0), 3))
    assert not are_equal(x, y)
    assert not are_equal(pt.constant([1.0, 2.0]), pt.constant([1.0, 2.0]))


def test_opposites_in_each_way_to_write_them():
    number = pt.scalar("number")
    assert opposite_of(-number) is number
    assert opposite_of(-1.0 * number) is number
    assert opposite_of(number) is None
    assert opposite_of(2.0 * number) is None
    assert opposite_of(-0.5 * number).eval({number: 4.0}) == 2.0


def test_what_is_added_to_one():
    assert minus_one(1.0 + x) is x
    assert minus_one(x + 1.0) is x
    assert minus_one(x + 2.0) is None
    assert minus_one(x) is None


def test_kinds_of_scalar_operations():
    assert scalar_kind(pt.exp(x).owner) is scalar.Exp
    assert scalar_kind(x[1:].owner) is None


def test_joined_parts_are_without_the_axis():
    assert joined_parts(pt.join(0, x, y).owner) == [x, y]


def test_slices_of_the_last_axis():
    matrix = pt.matrix()
    assert last_slice(x[1:].owner) == (1, None)
    assert last_slice(matrix[:, :-1].owner) == (None, -1)
    assert last_slice(matrix[1:, :-1].owner) is None
    assert last_slice(x[::2].owner) is None


def test_a_structural_operation_on_another_input():
    found = rebuild(x[1:].owner, y)
    np.testing.assert_array_equal(found.eval({y: np.arange(3.0)}), [1.0, 2.0])
    assert rebuild(x[1:].owner, None) is None
