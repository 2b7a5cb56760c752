"""Degrees of freedom from distances."""

import numpy as np
import pytest

from pymc_arm.estimation.approximation.tails import degrees_of_freedom


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 5])
@pytest.mark.parametrize("freedom", [12.0, 20.0])
def test_those_of_a_student_are_found(dimension, freedom):
    """The kurtosis of t with 12 degrees and more has a finite variance; its own error is 3 %."""
    rng = np.random.default_rng(1)
    size = 400_000
    points = rng.normal(size=(size, dimension))
    points *= np.sqrt((freedom - 2) / rng.chisquare(freedom, size))[:, None]
    found = degrees_of_freedom((points**2).sum(axis=1), dimension, 4.5, 200.0)
    assert found == pytest.approx(freedom, rel=0.1)


def test_bounds():
    normal = np.random.default_rng(2).normal(size=(10_000, 3))
    assert degrees_of_freedom(0.9 * (normal**2).sum(axis=1), 3, 5.0, 200.0) == 200.0
    assert degrees_of_freedom(np.array([0.0] * 99 + [300.0]), 3, 5.0, 200.0) == 5.0
