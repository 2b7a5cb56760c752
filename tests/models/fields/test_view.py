"""The coordinates in which a field is standard normal."""

import numpy as np
import pytest

from pymc_arm.models.fields.fit import fit_field_view
from pymc_arm.models.fields.view import FieldMap


@pytest.fixture(scope="module")
def view(walk_target):
    return fit_field_view(*walk_target, np.random.default_rng(1))[0]


def test_points_come_back(view):
    points = np.random.default_rng(2).normal(size=(20, view.target.dimension))
    inside, log_volume = view.to_model(points)
    back, other = view.from_model(inside)
    np.testing.assert_allclose(back, points, atol=1e-9)
    np.testing.assert_allclose(other, log_volume, atol=1e-9)


def test_densities_differ_by_the_jacobian(view):
    points = np.random.default_rng(3).normal(size=(20, view.target.dimension))
    inside, log_volume = view.to_model(points)
    np.testing.assert_allclose(
        view.log_density(points), view.target.log_density(inside) + log_volume, rtol=1e-12
    )
    step = 1e-5
    columns = [
        (view.to_model(points[:1] + step * e)[0] - view.to_model(points[:1] - step * e)[0])[0]
        for e in np.eye(points.shape[1])
    ]
    expected = np.linalg.slogdet(np.array(columns) / (2 * step))[1]
    assert log_volume[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("far", [1.0, 3.0])
def test_gradients_are_differences(view, far):
    rng = np.random.default_rng(4)
    points = far * rng.normal(size=(10, view.target.dimension))
    values, gradients = view(points)
    directions, step = rng.normal(size=points.shape), 1e-6
    ends = [view.log_density(points + sign * step * directions) for sign in (1, -1)]
    np.testing.assert_allclose(values, view.log_density(points), rtol=1e-10)
    np.testing.assert_allclose(
        (gradients * directions).sum(axis=1), (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-3
    )


def test_the_field_of_normal_data_is_standard_normal(view):
    # Given the parameter, log f falls by half the square of the noise, wherever the parameter is.
    rng = np.random.default_rng(5)
    points = rng.normal(size=(200, view.target.dimension))
    center = points.copy()
    center[:, view.map.field] = 0.0
    fall = view.log_density(center) - view.log_density(points)
    expected = 0.5 * (points[:, view.map.field] ** 2).sum(axis=1)
    assert np.quantile(np.abs(fall - expected), 0.9) < 0.2


def test_functions_go_through_their_values(view):
    own = view.map
    whitened = np.sinh(own.nodes)
    modes, numbers = own.at(whitened)
    again = FieldMap.through(
        whitened,
        np.concatenate([modes, numbers], axis=1),
        own.low,
        own.high,
        field=own.field,
        parameters=own.parameters,
        factor=own.factor,
        center=own.center,
        whitener=own.whitener,
        tails=own.tails,
    )
    inside = ((whitened > own.low) & (whitened < own.high)).all(axis=1)  # beyond they are constant
    assert inside.sum() > 10
    np.testing.assert_allclose(again.at(whitened)[0][inside], modes[inside], atol=1e-6)
