"""A cell holds exactly one of the images of a point, and random images of its draws are draws."""

import itertools

import numpy as np
import pytest
from scipy import stats

from pymc_arm.models.symmetry.cell import Anchor, Cell
from pymc_arm.models.symmetry.group import Extension, Symmetry
from tests.models.symmetry.test_group import all_elements


def cell_of(permuted, signed, count=4, columns=3, joined=None, seed=0):
    """A cell of blocks with generic centres, of which two may be joined."""
    rng = np.random.default_rng(seed)
    symmetry = Symmetry(
        "x",
        np.arange(count * columns).reshape(count, columns),
        np.where(np.arange(columns) < signed, -1.0, 1.0),
        permuted,
    )
    center, images = rng.normal(size=(count, columns)), symmetry.order
    if joined:
        center[joined[1]] = center[joined[0]]
        images //= 2
    anchor = Anchor(symmetry, np.arange(columns), center, images)
    return Cell(Extension(count * columns), (anchor,))


@pytest.mark.parametrize(
    ("permuted", "signed", "joined", "inside"),
    [(True, 0, None, 1), (True, 2, None, 1), (False, 3, None, 1), (True, 0, (1, 3), 2)],
)
def test_one_image_is_inside_or_one_for_each_order_of_joined_blocks(
    permuted, signed, joined, inside
):
    cell = cell_of(permuted, signed, joined=joined)
    (anchor,) = cell.anchors
    for point in np.random.default_rng(1).normal(size=(20, 1, 12)):
        images = [anchor.symmetry.apply(point, *g) for g in all_elements(anchor.symmetry)]
        assert cell.contains(np.concatenate(images)).sum() == inside
        folded = cell.fold(np.concatenate(images))
        assert cell.contains(folded).all()
        assert len(np.unique(folded.round(12), axis=0)) == inside


def test_two_symmetries_that_share_coordinates_have_one_image_inside():
    """Rows and columns of a matrix, each told apart by a variable of its own."""
    matrix = np.arange(9).reshape(3, 3)
    rows = Symmetry("r", np.column_stack([matrix, [9, 10, 11]]), np.ones(4), True)
    columns = Symmetry("c", np.column_stack([matrix.T, [12, 13, 14]]), -np.ones(4), True)
    rng = np.random.default_rng(2)
    anchors = tuple(
        Anchor(each, np.array([3]), rng.normal(size=(3, 1)), each.order) for each in (rows, columns)
    )
    cell = Cell(Extension(15), anchors)
    assert cell.images == 6 * 48
    point = rng.normal(size=(1, 15))
    images = [
        columns.apply(rows.apply(point, *g), *h)
        for g, h in itertools.product(all_elements(rows), all_elements(columns))
    ]
    assert cell.contains(np.concatenate(images)).sum() == 1


def test_points_in_the_cell_stay_as_they_are():
    cell = cell_of(True, 1)
    points = np.random.default_rng(3).normal(size=(500, 12))
    folded = cell.fold(points)
    np.testing.assert_array_equal(cell.fold(folded), folded)


def test_the_cell_has_its_share_of_a_symmetric_density():
    """The fraction of standard normal draws inside is one over the images, within 4 errors."""
    for joined, images in ((None, 24), ((0, 2), 12)):
        cell = cell_of(True, 0, joined=joined)
        inside = cell.contains(np.random.default_rng(4).normal(size=(200_000, 12)))
        assert cell.images == images
        error = np.sqrt(inside.mean() * (1 - inside.mean()) / len(inside))
        assert abs(inside.mean() - 1 / images) < 4 * error


def test_random_images_of_draws_in_the_cell_are_draws_of_the_whole():
    """Kolmogorov and Smirnov for each coordinate: a false alarm in one of 1000 runs, in all 12."""
    cell = cell_of(True, 1)
    rng = np.random.default_rng(5)
    draws = cell.scatter(rng, cell.fold(rng.normal(size=(5000, 12))))
    smallest = min(stats.kstest(column, "norm").pvalue for column in draws.T)
    assert smallest > 1e-3 / 12


def test_images_that_reach_into_the_cell_are_found_with_their_share():
    cell = cell_of(True, 0, count=2, columns=1)
    (anchor,) = cell.anchors
    mode = anchor.center[:, 0] * 0.5
    draws = mode + np.random.default_rng(6).normal(size=(20_000, 2))
    ((matrix, share),) = cell.images_reached(draws, 0.01)
    np.testing.assert_array_equal(matrix, [[0, 1], [1, 0]])
    beyond = stats.norm.cdf(-abs(mode[0] - mode[1]) / np.sqrt(2))
    assert share == pytest.approx(beyond, abs=4 * np.sqrt(0.25 / 20_000))


def test_the_plan_says_what_is_exchanged():
    cell = cell_of(True, 1, count=2, columns=1)
    assert cell.describe() == "labels and signs of 2 blocks of x: 8 images"
