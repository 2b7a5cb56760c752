"""One-dimensional integrals against exact ones, with draws and errors that agree with them."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from pymc_arm.algorithm.path import select
from pymc_arm.models.integrate import (
    Grid,
    PriorRange,
    continuous_log_density,
    discrete_log_probability,
    draw_continuous,
    draw_discrete,
    enumerate_values,
    quadrature,
)
from pymc_arm.models.support import Support

NORMAL_DRAWS = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)


def mixture(*parts):
    """Return the log-density of normal components (center, scale) with equal weights."""

    def log_density(x):
        logs = [stats.norm.logpdf(x, *part) for part in parts]
        return special.logsumexp(logs, axis=0) - np.log(len(parts))

    return log_density


def between(low, high, log_density):
    """Return a log-density that is -inf outside of an interval."""
    return lambda x: np.where((x >= low) & (x <= high), log_density(x), -np.inf)


def flat(low, high):
    return between(low, high, lambda x: np.full_like(x, -np.log(high - low)))


def log_gamma(shape):
    """Return the log-density of the log of a Gamma(shape, shape) variable."""

    def log_density(x):
        constant = shape * np.log(shape) - special.gammaln(shape)
        return constant + shape * x - shape * np.exp(np.minimum(x, 600.0))

    return log_density


def plateau(x):
    """A flat top of width 2 with exponential sides of scale 1/50, normalised."""
    return -50 * np.maximum(np.abs(x) - 1, 0) - np.log(2 + 2 / 50)


# Log-densities of mass one, and the prior draws that a search begins with.
DENSITIES = {
    "normal": mixture((0.0, 1.0)),
    "narrow": mixture((0.3, 1e-2)),
    "spike": mixture((0.7312, 1e-6)),
    "far": mixture((40.0, 0.1)),
    "two peaks": mixture((-1.0, 0.05), (1.2, 0.02)),
    "two peaks between nodes": mixture((0.1, 0.02), (0.4, 0.02)),
    "three peaks": mixture((-1.5, 0.1), (0.1, 0.1), (2.0, 0.1)),
    "peak and shoulder": mixture((0.0, 1.0), (3.0, 0.3)),
    "logistic": stats.logistic.logpdf,
    "laplace": lambda x: stats.laplace.logpdf(x, 0.2, 0.3),
    "gumbel": stats.gumbel_l.logpdf,
    "student": lambda x: stats.t.logpdf(x, 3),
    "cauchy": stats.cauchy.logpdf,
    "plateau": plateau,
    "uniform": flat(-0.5, 1.7),
    "narrow uniform": flat(0.3, 0.5),
    "mass at an edge": between(-0.5, np.inf, lambda x: np.log(20) - 20 * (x + 0.5)),
    "nothing between": lambda x: np.logaddexp(flat(-2, -0.7)(x), flat(0.7, 2)(x)) - np.log(2),
}


@pytest.mark.parametrize("noise", [1.0, 0.3, 0.1, 0.03, 0.01])
def test_both_roots_of_a_noisy_square(noise):
    """Between two peaks a density is not log-concave, so that no slope tells how high they are."""
    squares = np.linspace(0.5, 16, 63)
    prior = 0.4 + 3 * NORMAL_DRAWS

    def conditional(values, rows):
        likelihood = stats.norm.logpdf(squares[rows, None], values**2, noise)
        return stats.norm.logpdf(values, 0.4, 3) + likelihood

    grid = quadrature(conditional, PriorRange.of(prior), len(squares))
    fine = np.linspace(-8, 8, 400_001)
    for row, square in enumerate(squares):
        logs = stats.norm.logpdf(fine, 0.4, 3) + stats.norm.logpdf(square, fine**2, noise)
        exact = special.logsumexp(logs) + np.log(fine[1] - fine[0])
        assert grid.log_mass[row] == pytest.approx(exact, abs=0.01), square


def integrate(log_density, draws, size=3):
    """Return the grid of a density, and the number of evaluations for each row."""
    count = 0

    def conditional(values, rows):
        nonlocal count
        count += values.size
        assert len(values) == len(rows)
        with np.errstate(divide="ignore"):
            return log_density(values)

    reference = PriorRange.of(draws)
    return quadrature(conditional, reference, size), reference, count / size


def check(log_density, draws, largest=0.01):
    """Compare mass, error and corrected draws with a mass of one.

    The mean of 20,000 corrected draws is within 4.5 standard errors: a false alarm in 1e5 tests.
    """
    grid, reference, count = integrate(log_density, draws)
    assert np.all(np.abs(grid.log_mass) < largest)
    assert np.all(np.abs(grid.log_mass) <= grid.log_mass_error + 1e-10)
    assert np.all(grid.missed < 1e-3)
    many = select(grid, np.zeros(20_000, dtype=int))
    points, logs = draw_continuous(np.random.default_rng(1), many, reference)
    with np.errstate(divide="ignore"):
        weights = np.exp(log_density(points) - logs)
    error = weights.std() / np.sqrt(len(weights))
    assert error < 1e-3
    assert abs(weights.mean() - 1) < 4.5 * error + grid.missed[0] + 2e-9
    return count


@pytest.mark.parametrize("name", DENSITIES)
def test_masses_errors_and_draws_are_right(name):
    check(DENSITIES[name], NORMAL_DRAWS)


@pytest.mark.parametrize("shape", [0.1, 0.01, 0.001])
def test_the_log_of_a_vague_gamma(shape):
    """Draws of log tau are spread over some 1 / shape nats; data narrow it to about one."""
    rng = np.random.default_rng(0)
    draws = np.log(rng.gamma(1 + shape, size=4000)) + np.log(rng.random(4000)) / shape
    draws -= np.log(shape)
    check(log_gamma(shape), draws)
    half, squares = 5.0, 7.0
    exact = special.gammaln(shape + half) - (shape + half) * np.log(shape + squares)
    exact += shape * np.log(shape) - special.gammaln(shape)

    def posterior(x):
        return log_gamma(shape)(x) + half * x - squares * np.exp(np.minimum(x, 600.0)) - exact

    assert check(posterior, draws) < 60


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("share", [1.0, 0.01])
def test_scales_that_overflow_when_squared(scale, share):
    def log_density(x):
        return stats.norm.logpdf(x / scale, 1.0, share) - np.log(scale)

    grid, reference, _ = integrate(log_density, scale * NORMAL_DRAWS)
    np.testing.assert_allclose(grid.log_mass, 0.0, atol=1e-9)
    points, logs = draw_continuous(np.random.default_rng(1), grid, reference)
    np.testing.assert_allclose(log_density(points), logs, atol=1e-6)


@pytest.mark.parametrize("name", ["normal", "two peaks", "gumbel", "uniform", "student"])
def test_draws_have_the_distribution(name):
    """Kolmogorov and Smirnov, with weights so small that they don't matter; false alarms 1e-4."""
    grid, reference, _ = integrate(DENSITIES[name], NORMAL_DRAWS)
    many = select(grid, np.zeros(4000, dtype=int))
    points, _ = draw_continuous(np.random.default_rng(2), many, reference)
    cumulated = {
        "normal": stats.norm.cdf,
        "two peaks": lambda x: 0.5 * (stats.norm.cdf(x, -1, 0.05) + stats.norm.cdf(x, 1.2, 0.02)),
        "gumbel": stats.gumbel_l.cdf,
        "uniform": stats.uniform(-0.5, 2.2).cdf,
        "student": stats.t(3).cdf,
    }
    assert stats.kstest(points, cumulated[name]).pvalue > 1e-4


@pytest.mark.parametrize("name", ["cauchy", "two peaks", "nothing between", "gumbel"])
def test_the_density_of_draws_is_normalised(name):
    grid, reference, _ = integrate(DENSITIES[name], NORMAL_DRAWS)
    cells = np.concatenate([grid.nodes[0, :1] - 1, np.unique(grid.nodes[0])])
    points = np.concatenate(
        [np.linspace(*pair, 400, endpoint=False) for pair in itertools.pairwise(cells)]
    )
    every = select(grid, np.zeros(len(points), dtype=int))
    density = np.exp(continuous_log_density(every, reference, points))
    assert np.trapezoid(density, points) == pytest.approx(1, abs=2e-3)


def test_a_normal_conditional_takes_few_nodes():
    """However narrow it is: 60 were taken before."""
    for scale in (1.0, 0.1, 1e-2, 1e-4):
        _, _, count = integrate(mixture((0.7312, scale)), NORMAL_DRAWS)
        assert count <= 24


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("beyond", [0.0, 2.0, 8.0])
def test_peaks_beyond_the_reference_are_found(scale, beyond):
    """However few of the particles have theirs there: one of a hundred here."""
    centers = np.linspace(-2.5, 2.5, 300)
    centers[[10, 200, 299]] = np.array([-3, 3, 3]) + np.array([-beyond, beyond, 0.5 * beyond])

    def conditional(values, rows):
        return stats.norm.logpdf(values, centers[rows, None], scale)

    grid = quadrature(conditional, PriorRange.of(np.linspace(-3.0, 3.0, 101)), 300)
    np.testing.assert_allclose(grid.log_mass, 0.0, atol=1e-6)


def test_a_hidden_peak_is_not_claimed():
    """What no node shows is not found; what nodes contradict is an error, and it is stated."""

    def comb(x):  # 3000 peaks of equal height: too many for the rounds of a search
        return 20 * np.cos(2000 * x) + stats.norm.logpdf(x)

    grid, _, _ = integrate(comb, NORMAL_DRAWS)
    assert np.all(grid.missed > 0.1)


def test_a_density_without_an_end_is_not_claimed():
    """It is flat, or grows: nothing is known of what is beyond the last node."""
    reference = PriorRange.of(NORMAL_DRAWS)
    for log_density in (np.zeros_like, lambda x: 0.1 * np.log1p(np.abs(x))):
        grid = quadrature(lambda x, rows, f=log_density: f(x), reference, 1)
        assert grid.missed[0] >= 1


def test_densities_that_fall_as_a_triple_exponential():
    """The second of two ordered logarithms: beyond the last nodes it falls by 1e34 nats at once."""
    offsets = np.linspace(-30.0, 1.0, 500)[:, None]

    def conditional(x, rows):
        with np.errstate(over="ignore"):
            log_value = offsets[rows] + np.exp(x)
            return x + log_value - 0.5 * np.exp(2 * log_value)

    draws = np.log(stats.expon.ppf((np.arange(2000) + 0.5) / 2000))
    grid = quadrature(conditional, PriorRange.of(draws), len(offsets))
    # With u = exp(offset + exp(x)), it is the integral of exp(-u^2 / 2) from exp(offset) on.
    exact = 0.5 * np.log(2 * np.pi) + stats.norm.logsf(np.exp(offsets[:, 0]))
    assert np.all(np.abs(grid.log_mass - exact) < 0.01)
    assert np.all(grid.missed < 1e-4)


def test_rows_without_mass_have_none():
    def conditional(values, rows):
        inside = (rows[:, None] % 2 == 0) & np.ones_like(values, dtype=bool)
        return np.where(inside, stats.norm.logpdf(values), -np.inf)

    reference = PriorRange.of(NORMAL_DRAWS)
    grid = quadrature(conditional, reference, 6)
    assert np.array_equal(np.isfinite(grid.log_mass), [True, False] * 3)
    points, logs = draw_continuous(np.random.default_rng(0), grid, reference)
    assert np.isfinite(points).all()
    assert np.isfinite(logs).all()


def test_draws_of_rows_without_mass_are_inside_of_the_support():
    """Elsewhere in a model they may be indices."""
    support = Support(0, 2, True, True)
    grid = enumerate_values(lambda values, rows: np.full(values.shape, -np.inf), support, 1000)
    drawn, _ = draw_discrete(np.random.default_rng(0), grid, support)
    assert set(drawn) <= {0.0, 1.0, 2.0}


def test_grids_of_different_lengths_are_joined():
    grids = [integrate(DENSITIES[name], NORMAL_DRAWS)[0] for name in ("normal", "three peaks")]
    reference = PriorRange.of(NORMAL_DRAWS)
    joined = Grid.join(grids)
    for points in np.linspace(-4, 4, 9):
        at = np.full(3, points)
        alone = [continuous_log_density(grid, reference, at) for grid in grids]
        both = continuous_log_density(joined, reference, np.full(6, points))
        np.testing.assert_array_equal(both, np.concatenate(alone))
    draws = [draw_continuous(np.random.default_rng(3), joined, reference)[0] for _ in range(2)]
    np.testing.assert_array_equal(*draws)


def poisson(rate):
    return lambda values: stats.poisson.logpmf(values, rate)


COUNTS = {
    "few": (poisson(5.0), Support(0, 40, True, False)),
    "many": (poisson(1e5), Support(0, 110_000, True, False)),
    "beyond the prior": (poisson(900.0), Support(0, 40, True, False)),
    "two peaks": (
        lambda values: np.logaddexp(poisson(10)(values), poisson(300)(values)),
        Support(0, 400, True, False),
    ),
    "squared": (lambda values: -0.5 * ((values**2 - 900) / 40) ** 2, Support(-9, 9, False, False)),
    "both sides": (
        lambda values: stats.skellam.logpmf(values, 50, 30),
        Support(-5, 9, False, False),
    ),
    "heavy": (lambda values: stats.zipf.logpmf(values, 3.0), Support(1, 200, True, False)),
    "an end inside": (
        lambda values: stats.binom.logpmf(values, 100, 0.9),
        Support(0, 400, True, False),
    ),
    "an edge": (
        lambda values: np.where((values >= 3) & (values <= 250), 0.0, -np.inf),
        Support(0, 400, True, False),
    ),
    "too many zeros": (
        lambda values: np.where(
            values == 0, np.log(0.3), np.log(0.7) + poisson(200)(np.maximum(values, 0))
        ),
        Support(0, 300, True, False),
    ),
    "large and finite": (
        lambda values: stats.binom.logpmf(values, 100_000, 0.3),
        Support(0, 100_000, True, True),
    ),
    "one value": (lambda values: np.full_like(values, -1.0), Support(3, 3, True, True)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_whole_numbers(name):
    """Mass, error, and the mean of 20,000 corrected draws, within 4.5 standard errors."""
    log_density, support = COUNTS[name]
    values = np.arange(-2000, 120_001, dtype=float)
    inside = (values >= support.low) | (not support.bounded_below)
    inside &= (values <= support.high) | (not support.bounded_above)
    exact = special.logsumexp(log_density(values[inside]))
    grid = enumerate_values(lambda some, rows: log_density(some), support, 3)
    error = np.abs(grid.log_mass - exact)
    assert np.all(error < 0.01)
    assert np.all(error <= grid.log_mass_error + 1e-9)
    many = select(grid, np.zeros(20_000, dtype=int))
    drawn, logs = draw_discrete(np.random.default_rng(1), many, support)
    assert np.array_equal(drawn, np.rint(drawn))
    weights = np.exp(log_density(drawn) - logs - exact)
    error = weights.std() / np.sqrt(len(weights))
    assert error < 1e-3
    assert abs(weights.mean() - 1) < 4.5 * error + grid.missed[0] + 1e-9


@pytest.mark.parametrize("name", ["few", "two peaks", "an end inside", "both sides", "an edge"])
def test_probabilities_add_up(name):
    log_density, support = COUNTS[name]
    grid = enumerate_values(lambda some, rows: log_density(some), support, 1)
    values = np.arange(-3000.0, 3000.0)
    every = select(grid, np.zeros(len(values), dtype=int))
    logs = discrete_log_probability(every, support, values)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-9)
    drawn, found = draw_discrete(np.random.default_rng(5), every, support)
    np.testing.assert_allclose(found, logs[(drawn + 3000).astype(int)])
