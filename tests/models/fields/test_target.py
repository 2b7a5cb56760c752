"""A log-density as a function of a field given its parameters."""

import numpy as np
import pytest

from pymc_arm.errors import PathError
from pymc_arm.models.fields import target as module
from pymc_arm.models.fields.target import FieldTarget, LargeFieldError
from tests.models.fields.conftest import STEPS


@pytest.fixture
def fields(walk_target):
    path, target = walk_target
    prior = path.plan.layout.ravel(path.prior.draw(np.random.default_rng(0), 100), 100)
    return FieldTarget(target.view(), np.arange(1, STEPS + 1), prior)


def test_second_derivatives_of_a_walk(fields):
    """Those of neighbours are minus the precision of a step, 0.5 here."""
    point = fields.join(np.log([[0.5]]), np.ones((1, STEPS)))
    slope = fields.evaluate(point)[1][0, fields.field]
    second = fields.hessian(point[0], slope)
    expected = -(2 / 0.25 + 1 / 0.09) * np.eye(STEPS)
    expected += (np.eye(STEPS, k=1) + np.eye(STEPS, k=-1)) / 0.25
    np.testing.assert_allclose(second[1:-1, 1:-1], expected[1:-1, 1:-1], rtol=1e-5, atol=1e-5)
    assert fields.evaluations == 1 + STEPS


def test_a_search_ends_higher(fields):
    """The full step of one row leads uphill, that of the other only a part of it."""
    points = fields.join(np.log([[0.5], [0.5]]), np.ones((2, STEPS)))
    values, slopes = fields.evaluate(points)
    before = values.copy()
    step = slopes[:, fields.field] * np.array([[1e-3], [0.2]])
    moved = fields.search(points, values, slopes, np.array([0, 1]), step)
    assert moved.all()
    assert (values > before).all()
    np.testing.assert_allclose(fields.evaluate(points)[0], values)
    down = fields.search(points, values, slopes, np.array([0, 1]), -100 * step)
    assert not down.any()


def test_too_many_gradients_are_refused(fields, monkeypatch):
    monkeypatch.setattr(module, "BUDGET", 1)
    with pytest.raises(PathError, match="more than 1 gradients"):
        fields.evaluate(np.zeros((2, STEPS + 1)))


def test_a_large_field_is_no_failure_of_another_kind():
    assert issubclass(LargeFieldError, PathError)
