"""Densities in pieces: masses against quadrature, draws against their distribution."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from pymc_arm.models.assessment import Line, assess
from pymc_arm.models.new_nodes import propose
from pymc_arm.models.pieces import (
    LOG_ZERO,
    draw_places,
    geometric_log_masses,
    is_zero,
    log_sum,
    parabolic_log_masses,
)
from pymc_arm.models.search import find_pieces

SHAPES = [
    (0.0, 0.0),
    (3.0, 0.0),
    (-2.0, 5.0),
    (40.0, 7.0),
    (1.0, -4.0),
    (-30.0, -6.0),
    (0.0, 900.0),
]


@pytest.mark.parametrize(("rise", "bend"), SHAPES)
def test_masses_are_integrals(rise, bend):
    """log f = left + rise t + bend t (1 - t) / 2 over a piece of width 0.3."""

    def density(t):
        return np.exp(rise * t + 0.5 * bend * t * (1 - t) - max(rise, 0.0) - max(bend, 0.0) / 8)

    exact = scipy.integrate.quad(density, 0, 1, points=[0.5], epsabs=0, epsrel=1e-11)[0]
    found = parabolic_log_masses(*(np.array([[v]]) for v in (0.3, -1.0, rise - 1.0, bend)))
    expected = np.log(0.3 * exact) - 1.0 + max(rise, 0.0) + max(bend, 0.0) / 8
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-9)


@pytest.mark.parametrize(("rise", "bend"), SHAPES)
def test_draws_have_the_distribution_of_the_piece(rise, bend):
    """A Kolmogorov-Smirnov test of 2000 draws: a false alarm once in 10,000."""
    uniform = np.random.default_rng(1).random(2000)
    drawn = draw_places(uniform, np.full(2000, rise), np.full(2000, bend))
    grid = np.linspace(0, 1, 20_001)
    log_density = rise * grid + 0.5 * bend * grid * (1 - grid)
    density = np.exp(log_density - log_density.max())
    distribution = scipy.integrate.cumulative_trapezoid(density, grid, initial=0.0)
    test = scipy.stats.kstest(drawn, lambda t: np.interp(t, grid, distribution / distribution[-1]))
    assert test.pvalue > 1e-4


def test_sums_over_whole_numbers_are_geometric():
    count, left, right = (np.array([[v]]) for v in (5.0, 0.0, -2.0))
    expected = np.logaddexp.reduce(-0.4 * np.arange(5))
    np.testing.assert_allclose(geometric_log_masses(count, left, right), [[expected]])
    assert is_zero(geometric_log_masses(np.zeros((1, 1)), left, right)).all()


def test_log_sum_of_nothing_is_minus_infinity():
    found = log_sum(np.array([[LOG_ZERO, LOG_ZERO], [0.0, np.log(3.0)]]))
    np.testing.assert_allclose(found, [-np.inf, np.log(4.0)])


def search(log_density, line=None, start=(-2.0, -1.0, 0.0, 1.0, 2.0)):
    evaluations = []

    def conditional(values, rows):
        evaluations.append(values.size)
        return log_density(values)

    return find_pieces(conditional, line or Line(), np.array(start), 3), evaluations


@pytest.mark.parametrize("scale", [1.0, 1e-5, 50.0])
def test_a_normal_density_is_found_at_any_scale(scale):
    pieces, _ = search(lambda x: scipy.stats.norm.logpdf(x, 0.7, scale))
    np.testing.assert_allclose(pieces.log_total, 0.0, atol=5e-3)
    assert (pieces.missed < 1e-4).all()


def test_two_far_peaks_are_found():
    def log_density(x):
        sides = [scipy.stats.norm.logpdf(x, place, 0.05) for place in (-1.4, 1.4)]
        return np.logaddexp(*sides) - np.log(2)

    pieces, _ = search(log_density)
    np.testing.assert_allclose(pieces.log_total, 0.0, atol=5e-3)


def test_counts_are_summed():
    line = Line(low=0.0, whole=True)
    start = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
    pieces, _ = search(lambda x: scipy.stats.poisson.logpmf(x, 6.3), line, start)
    np.testing.assert_allclose(pieces.log_total, 0.0, atol=5e-3)


def test_what_is_settled_asks_for_no_more_nodes():
    nodes = np.tile(np.linspace(-9.0, 9.0, 60), (2, 1))
    settled = assess(nodes, scipy.stats.norm.logpdf(nodes), Line())
    assert not settled.unfinished.any()
    assert propose(settled, Line()) == []


def test_doubts_ask_for_nodes_inside_and_outward():
    nodes = np.tile(np.array([-1.0, 0.0, 1.0]), (2, 1))
    rough = assess(nodes, scipy.stats.norm.logpdf(nodes), Line())
    assert rough.open_low.all()
    assert rough.open_high.all()
    places = np.concatenate([places.ravel() for _, places in propose(rough, Line())])
    assert places.min() < -1.0
    assert places.max() > 1.0


def test_an_end_of_the_support_is_not_passed():
    pieces, _ = search(lambda x: np.where(x < 0, -np.inf, -x), Line(low=0.0), (0.0, 1.0, 3.0))
    assert pieces.nodes.min() >= 0.0
    np.testing.assert_allclose(pieces.log_total, 0.0, atol=5e-3)
