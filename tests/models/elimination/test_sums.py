"""Sums over labels, their gradients and draws, against two labels written out."""

import numpy as np
import pytest

from tests.models.elimination.labelled import label_probabilities, log_joint, path, some_points


@pytest.fixture(scope="module")
def density():
    return path().density


def order(density):
    """Return the element of each component of F."""
    first = int(np.setdiff1d(np.arange(7), density.kept)[0])
    return [component[0] - first for component in density.sums.full.schedule.components]


def test_log_f_and_log_p_are_the_sums_over_both_labels(density):
    points = some_points()
    full, prior = density.sums(density.expand(points))
    own, data = log_joint(points)
    expected = np.logaddexp.reduce(own + data, axis=2)
    np.testing.assert_allclose(full, expected[:, order(density)], rtol=1e-10)
    np.testing.assert_allclose(
        np.sort(prior, axis=1), np.sort(np.logaddexp.reduce(own, axis=2), axis=1), atol=1e-10
    )


def test_gradients_are_those_of_differences(density):
    points, rng = some_points(), np.random.default_rng(2)
    weights = rng.uniform(0.5, 1.5, 3), rng.uniform(0.5, 1.5, 3)

    def value(points):
        full, prior = density.sums(density.expand(points))
        return full @ weights[0] + prior @ weights[1]

    gradient = density.sums.differentiate(density.expand(points), *weights)[2][:, density.kept]
    step = 1e-6 * rng.normal(size=points.shape)
    difference = 0.5 * (value(points + step) - value(points - step))
    np.testing.assert_allclose((gradient * step).sum(axis=1), difference, rtol=1e-5, atol=1e-13)


def test_labels_are_drawn_from_their_conditionals(density):
    """Each of three means within four standard errors of 4000 draws: false alarms 2e-4."""
    points = some_points(1)
    exact = label_probabilities(points)[0]
    drawn = density.sums.draw(np.random.default_rng(3), density.expand(np.repeat(points, 4000, 0)))
    labels = np.delete(drawn, density.kept, axis=1)
    assert set(np.unique(labels)) == {0.0, 1.0}
    error = np.sqrt(exact * (1 - exact) / 4000)
    assert np.all(np.abs(labels.mean(axis=0) - exact) < 4 * error)
