"""Tables of terms at all values of the labels that they depend on."""

import numpy as np
import pytest

from pymc_arm.models.elimination.tables import as_rows, evaluate_group, spread
from tests.models.elimination.labelled import path, some_points


@pytest.fixture(scope="module")
def density():
    return path().density


def test_each_cell_is_the_term_at_these_values(density):
    points = density.expand(some_points())
    groups = density.sums.groups
    assert sorted(np.concatenate([group.terms for group in groups])) == list(density.touched)
    for group in groups:
        table = evaluate_group(density.whole, group, points)
        assert table.shape[:2] == (len(group.values), len(group.terms))
        for column, (term, scope) in enumerate(zip(group.terms, group.scopes, strict=True)):
            assert group.shape == (2,) * len(scope)
            for cell, values in enumerate(np.ndindex(*group.shape)):
                changed = points.copy()
                changed[:, list(scope)] = values
                expected = density.whole.terms(changed, np.array([term]))[:, 0]
                np.testing.assert_allclose(table[group.rows[cell, column], column], expected)


def test_labels_that_share_no_term_are_evaluated_together(density):
    """Three labels and two values: two evaluations, of all labels at once."""
    for group in density.sums.groups:
        assert group.cells == 2
        assert len(group.values) == 2
        assert np.ptp(group.values, axis=1).max() == 0
        assert group.work == 2 * len(group.terms)


def test_spread_points_have_all_values_next_to_each_other(density):
    group = density.sums.groups[0]
    points = density.expand(some_points(3))
    many = spread(points, group)
    assert many.shape == (3 * len(group.values), points.shape[1])
    np.testing.assert_array_equal(many[: len(group.values), group.columns], group.values)
    others = np.setdiff1d(np.arange(points.shape[1]), group.columns)
    np.testing.assert_array_equal(many[::2, others], points[:, others])


def test_weights_become_rows_of_spread_points():
    weights = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    rows = as_rows(weights)
    assert rows.shape == (8, 3)
    np.testing.assert_array_equal(rows[0], weights[0, :, 0])
    np.testing.assert_array_equal(rows[1], weights[1, :, 0])
    np.testing.assert_array_equal(rows[2], weights[0, :, 1])
