"""The cell around a mode: blocks that are equal there are joined, others are told apart."""

import numpy as np
import pytest

from pymc_arm.models.symmetry.anchors import find_cell
from pymc_arm.models.symmetry.find import Found
from pymc_arm.models.symmetry.group import Extension, Symmetry

WIDTH = 0.3


def wells(mode, symmetry):
    """A density with a normal peak at each image of a mode, and the symmetry."""
    generator = np.random.default_rng(0)
    images = symmetry.apply(np.tile(mode, (4000, 1)), *symmetry.draw(generator, 4000))
    images = np.unique(images.round(12), axis=0)

    def log_density(points):
        squares = ((points[:, None] - images[None]) ** 2).sum(axis=2)
        return np.logaddexp.reduce(-0.5 * squares / WIDTH**2, axis=1)

    draws = mode + WIDTH * np.random.default_rng(1).normal(size=(200, len(mode)))
    return Found(Extension(len(mode)), (symmetry,)), log_density, mode, draws


def labels(count, signs=1):
    return Symmetry("x", np.arange(count)[:, None], np.array([float(signs)]), True)


@pytest.mark.parametrize(
    ("mode", "signs", "images"),
    [
        ((-2.0, 0.0, 2.0), 1, 6),
        ((-2.0, 2.0, 2.0), 1, 3),
        ((-2.0, 2.0, 2.1, 2.0), 1, 4),
        ((-2.0, 0.0, 3.0), -1, 24),
        ((2.0, -2.0, 4.0), -1, 24),
        ((0.0, 0.0, 3.0), -1, 6),
    ],
)
def test_images_are_counted_once_where_blocks_are_equal(mode, signs, images):
    cell = find_cell(*wells(np.array(mode), labels(len(mode), signs)))
    assert cell.images == images
    folded = cell.fold(cell.scatter(np.random.default_rng(2), np.tile(mode, (500, 1))))
    assert cell.contains(folded).all()
    # The mode has one image in the cell, but for the order and the signs of joined blocks.
    shown = np.sort(np.abs(folded) if signs < 0 else folded, axis=1)
    np.testing.assert_allclose(shown, np.tile(shown[0], (500, 1)))


def test_there_is_no_cell_around_a_mode_that_is_its_own_image():
    assert find_cell(*wells(np.array([1.0, 1.0, 1.1]), labels(3))) is None


def test_a_symmetry_that_does_not_hold_around_the_mode_is_refused():
    found, log_density, mode, draws = wells(np.array([-2.0, 0.0, 2.0]), labels(3))

    def tilted(points):
        return log_density(points) + 1e-5 * points[:, 0]

    assert find_cell(found, tilted, mode, draws) is None


def test_only_usable_coordinates_decide():
    symmetry = Symmetry("x", np.array([[0, 3], [1, 4], [2, 5]]), np.ones(2), True)
    given = wells(np.array([-2.0, 0.0, 2.0, 5.0, 1.0, 3.0]), symmetry)
    (anchor,) = find_cell(*given, usable=np.arange(3)).anchors
    np.testing.assert_array_equal(anchor.columns, [0])
    assert find_cell(*given, usable=np.arange(2)) is None
