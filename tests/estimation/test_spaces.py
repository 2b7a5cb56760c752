"""The space of all coordinates is the path's own density; protocols are told by their methods."""

import numpy as np
import pytest

from pymc_arm.estimation.spaces import FullSpace, Refinable, Searchable, StartedElsewhere


class Line:
    """A path of one positive coordinate x, refined in z = log x: f(z) = exp(z - exp(z))."""

    work = 3

    def spaces(self, particles):
        return [FullSpace(self)]

    def continuous(self, particles):
        return np.log(particles)

    def log_density(self, points):
        return (points - np.exp(points))[:, 0]

    def score(self, points):
        return 1 - np.exp(points)


class Plane(Line):
    """Its particles are points already."""

    def continuous(self, particles):
        return particles


PARTICLES = np.array([[0.5], [1.0], [3.0]])
RNG = np.random.default_rng(1)


def test_ratios_are_the_density_at_transformed_particles():
    space = FullSpace(Line())
    np.testing.assert_allclose(space.points(PARTICLES), np.log(PARTICLES))
    exact = np.log(PARTICLES[:, 0]) - PARTICLES[:, 0]
    np.testing.assert_allclose(space.log_ratio(PARTICLES), exact)
    points = space.points(PARTICLES)
    np.testing.assert_allclose(space.draw_log_ratio(RNG, points), exact)
    np.testing.assert_allclose(space.score(points), 1 - PARTICLES)
    assert space.work == 3


@pytest.mark.parametrize(("path", "same"), [(Line(), False), (Plane(), True)])
def test_points_are_particles_where_a_path_stores_them_so(path, same):
    space = FullSpace(path).fit_to(PARTICLES)
    particles, log_ratio = space.draw_particles(RNG, PARTICLES)
    assert (particles is PARTICLES) == same
    np.testing.assert_array_equal(log_ratio, path.log_density(PARTICLES))


def test_protocols_are_what_a_path_can_do():
    assert isinstance(Line(), Refinable)
    assert not isinstance(Line(), Searchable)
    assert not isinstance(Line(), StartedElsewhere)
    assert not isinstance(object(), Refinable)
