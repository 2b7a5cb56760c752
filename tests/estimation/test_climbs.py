"""Climbs end at the modes of known densities, whatever their scale."""

import numpy as np
import pytest

from pymc_arm.estimation.climbs import ITERATIONS, climb, differences

WIDTHS = np.array([1.0, 1e-3, 20.0])
CENTER = np.array([0.5, -2.0, 30.0])


def log_normal_density(points):
    return -0.5 * (((points - CENTER) / WIDTHS) ** 2).sum(axis=1)


def slope(points):
    return -(points - CENTER) / WIDTHS**2


def test_differences_of_a_quadratic_are_exact():
    points = np.random.default_rng(1).normal(CENTER, WIDTHS, size=(7, 3))
    found = differences(log_normal_density, points, 0.1 * WIDTHS)
    np.testing.assert_allclose(found, slope(points), rtol=1e-9, atol=1e-9)


def test_differences_ask_for_all_points_at_once():
    asked = []

    def count(points):
        asked.append(points.shape)
        return log_normal_density(points)

    differences(count, np.zeros((4, 3)), WIDTHS)
    assert asked == [(4 * 2 * 3, 3)]


def test_modes_of_all_scales_are_reached():
    """Within a hundredth of a width in each coordinate: heights are 1e-3 apart at the end."""
    starts = CENTER + 4 * WIDTHS * np.random.default_rng(2).normal(size=(20, 3))
    points, heights = climb(log_normal_density, slope, starts, 10 * WIDTHS)
    np.testing.assert_allclose(heights, log_normal_density(points))
    assert np.all(heights > -1e-2)
    assert np.all(np.abs(points - CENTER) < 0.1 * WIDTHS)


def test_each_climb_ends_at_the_mode_of_its_side():
    """Two normals of width 0.1 at -1 and 1."""

    def log_density(points):
        return np.logaddexp(*(-50 * (points[:, 0] - at) ** 2 for at in (-1.0, 1.0)))

    def gradient(points):
        return differences(log_density, points, np.array([1e-5]))

    starts = np.array([[-1.4], [-0.7], [0.8], [1.3]])
    points, _ = climb(log_density, gradient, starts, np.array([0.2]))
    np.testing.assert_allclose(points[:, 0], [-1, -1, 1, 1], atol=0.01)


def test_those_that_have_arrived_are_left_alone():
    """All but one begin at the mode, and that one is far away: it goes on by itself."""
    starts = np.tile(CENTER, (500, 1))
    starts[123] += 40 * WIDTHS
    asked = []

    def count(points):
        asked.append(len(points))
        return log_normal_density(points)

    points, heights = climb(count, slope, starts, 10 * WIDTHS)
    assert np.all(heights > -1e-2)
    np.testing.assert_allclose(heights, log_normal_density(points))
    assert asked[:20] == [500] * 20
    assert set(asked[22:]) == {1}


def test_climbs_with_densities_of_their_own():
    """The rows that go on keep their densities when others have arrived."""
    centers = np.linspace(0.0, 500.0, 40)[:, None]

    def log_density(points, climbs):
        return -0.5 * np.square(points - centers[climbs]).sum(axis=1)

    def gradient(points, climbs):
        return centers[climbs] - points

    points, heights = climb(log_density, gradient, np.zeros((40, 1)), np.ones(1) * 10, by_row=True)
    np.testing.assert_allclose(points, centers, atol=0.1)
    assert np.all(heights > -1e-2)


def test_no_climb_goes_down_or_into_nothing():
    """Half of the space has no density, and the gradient there is not a number."""

    def log_density(points):
        return np.where(points[:, 0] > 0, -points[:, 0], -np.inf)

    def gradient(points):
        return np.where(points > 0, -1.0, np.nan)

    starts = np.array([[3.0], [0.5]])
    points, heights = climb(log_density, gradient, starts, np.array([1.0]))
    assert np.all(heights >= log_density(starts))
    assert np.all(points > 0)


@pytest.mark.parametrize("flat", [0.0, -np.inf])
def test_a_flat_density_ends_the_climb_early(flat):
    calls = []

    def log_density(points):
        calls.append(len(points))
        return np.full(len(points), flat)

    with np.errstate(invalid="ignore"):
        climb(log_density, np.zeros_like, np.ones((2, 1)), np.ones(1))
    assert len(calls) < ITERATIONS


def test_gradients_are_kept_where_a_step_was_refused():
    """Two climbs on a parabola: no point is asked for its gradient twice in a row."""
    asked = []

    def log_density(points):
        return -0.5 * np.square(points).sum(axis=1)

    def gradient(points):
        asked.append(points.copy())
        return -points

    ends, _ = climb(log_density, gradient, np.array([[3.0], [-1.7]]), np.array([1.0]))
    assert np.abs(ends).max() < 0.1
    together = np.concatenate(asked)
    assert len(np.unique(together, axis=0)) == len(together)


def test_climbs_that_have_arrived_or_are_too_low_end() -> None:
    """Of two modes one is known, and the other one is too low to be of interest."""
    starts = np.random.default_rng(4).normal(scale=4.0, size=(40, 2))
    rows = []

    def parts(at: np.ndarray) -> np.ndarray:
        high, low = np.square(at - 3).sum(axis=1), np.square(at + 3).sum(axis=1)
        return np.stack([-2 * high, -50 - 0.5 * low])

    def log_density(at: np.ndarray) -> np.ndarray:
        return np.logaddexp(*parts(at))

    def gradient(at: np.ndarray) -> np.ndarray:
        rows.append(len(at))
        first, second = np.exp(parts(at) - log_density(at))[:, :, None]
        return -4 * first * (at - 3) - second * (at + 3)

    def arrived(at: np.ndarray, heights: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        np.testing.assert_allclose(heights, log_density(at))
        return np.square(slopes).sum(axis=1) + np.square(at - 3).sum(axis=1) < 1

    scale = starts.std(axis=0)
    ends, heights = climb(log_density, gradient, starts, scale)
    whole = sum(rows)
    early, lower = climb(log_density, gradient, starts, scale, arrived=arrived, lowest=-20.0)
    assert sum(rows) - whole < 0.7 * whole
    at_mode = np.square(ends - 3).sum(axis=1) < 1
    assert 0 < at_mode.sum() < 40
    assert (np.square(early - 3).sum(axis=1) < 1.5).tolist() == at_mode.tolist()
    assert (lower > -20).tolist() == (heights > -20).tolist()
