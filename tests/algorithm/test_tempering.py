"""How far a power is raised: known ends at any scale, and an end that is never where it was."""

import numpy as np
import pytest

from pymc_arm.algorithm.tempering import effective_fraction, furthest


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e20, 1e200])
@pytest.mark.parametrize("previous", [0.0, 0.3])
def test_ends_are_found_at_any_scale(scale, previous):
    """The effective fraction is exp(-(share scale)): its end for 1/2 is log 2 / scale."""

    def fraction_at(end):
        return float(np.exp(-(end - previous) * scale))

    end = furthest(fraction_at, previous, 0.5)
    expected = min(previous + np.log(2) / scale, 1.0)
    if previous:  # the power grows by a thousandth of itself at least
        expected = max(expected, previous * 1.001)
    np.testing.assert_allclose(end - previous, expected - previous, rtol=0.011)


def test_an_end_is_never_where_it_was():
    for previous in (0.0, 1e-250, 0.5, 0.9999999):
        assert previous < furthest(lambda end: 0.0, previous, 0.5) <= 1.0


def test_all_of_it_is_taken_where_particles_can_follow():
    assert furthest(lambda end: 0.9, 0.2, 0.9) == 1.0


def test_effective_fraction_of_known_weights():
    """Two of four equal particles are left: a half. A ratio that is no number is of weight zero."""
    equal = np.full(4, -np.log(4))
    assert effective_fraction(np.zeros(4), equal) == pytest.approx(1.0)
    assert effective_fraction(np.array([0.0, 0.0, -np.inf, np.nan]), equal) == pytest.approx(0.5)
    # Weights 1, 1, 1, 3: (6^2 / 12) / 4.
    assert effective_fraction(np.log([1.0, 1.0, 1.0, 3.0]), equal) == pytest.approx(0.75)
