"""Each kernel by itself, against exact distributions.

Exact draws must stay exact draws, and draws of something else must become exact ones. Every check
is at 4.5 standard errors, a false-alarm rate of 7e-6; there are fewer than 300 of them, and the
seeds are fixed.
"""

import numpy as np
import pytest
from scipy import special, stats

from pymc_arm.models.moves.coordinates import SingleCoordinates
from pymc_arm.models.moves.crank_nicolson import crank_nicolson
from pymc_arm.models.moves.discrete import DiscreteGibbs, DiscreteWalk, discrete_coordinates
from pymc_arm.models.moves.fit import fit_cloud
from pymc_arm.models.moves.hamiltonian import hamiltonian
from pymc_arm.models.moves.kernel import Cloud, confirm
from pymc_arm.models.moves.student import Student
from pymc_arm.models.moves.target import MoveTarget
from pymc_arm.models.support import Support

SIZE = 20_000
STANDARD_ERRORS = 4.5
# Coordinates are mixed log-gamma(2) variables, skewed so that no fitted Student-t is exact.
SHAPE, MIXING = 2.0, np.array([[1.0, 0.0, 0.0], [2.0, 0.5, 0.0], [-1.0, 1.0, 3.0]])


def log_gamma_target(mixing=MIXING, sets=()) -> MoveTarget:
    """x = A u with u_i log-gamma(2): terms are those of u."""
    back = np.linalg.inv(mixing)

    def terms(points, selection):
        u = points @ back.T
        return (SHAPE * u - np.exp(u))[:, selection]

    def gradient(points):
        u = points @ back.T
        return (SHAPE * u - np.exp(u)).sum(axis=1), (SHAPE - np.exp(u)) @ back

    every = np.arange(len(mixing))
    return MoveTarget(
        log_density=lambda points: terms(points, every).sum(axis=1),
        terms=terms,
        continuous=every,
        sets=sets,
        discrete_sets=[],
        supports={},
        gradient=gradient,
    )


def assert_log_gamma(points, mixing=MIXING):
    """u is uniform after its own distribution function, and its parts are independent."""
    u = points @ np.linalg.inv(mixing).T
    assert_uniform_and_independent(special.gammainc(SHAPE, np.exp(u)))


def assert_uniform_and_independent(uniform):
    size = len(uniform)
    normal = (uniform - 0.5) * np.sqrt(12)
    z = [normal.mean(axis=0) * np.sqrt(size)]
    z.append((normal**2 - 1).mean(axis=0) * np.sqrt(size / 0.8))
    for share in (0.01, 0.1, 0.9, 0.99):  # tails too
        z.append(((uniform < share).mean(axis=0) - share) * np.sqrt(size / (share * (1 - share))))
    for i in range(uniform.shape[1]):
        z.extend((normal[:, [i]] * normal[:, :i]).mean(axis=0)[None] * np.sqrt(size))
    z = np.concatenate([np.ravel(part) for part in z])
    assert np.abs(z).max() < STANDARD_ERRORS, z


def start(target, points):
    fit, log_density = fit_cloud(np.random.default_rng(0), target, points)
    return fit, Cloud(points, log_density)


@pytest.mark.parametrize("factory", [crank_nicolson, hamiltonian])
@pytest.mark.parametrize("exact", [True, False])
def test_block_kernels_keep_and_reach_a_skewed_distribution(factory, exact):
    rng = np.random.default_rng(1)
    u = np.log(rng.gamma(SHAPE, size=(SIZE, 3))) if exact else rng.normal(size=(SIZE, 3))
    target = log_gamma_target()
    fit, cloud = start(target, u @ MIXING.T)
    kernel = factory(target, fit)[0]
    for _ in range(5 if exact else 40):
        before = cloud
        cloud, rate, jump_fraction = kernel.move(rng, cloud)
        moved = np.mean((cloud.points != before.points).all(axis=1))
        assert abs(moved - rate) < STANDARD_ERRORS * 0.5 / np.sqrt(SIZE)
        assert 0 < jump_fraction < 2
    np.testing.assert_allclose(cloud.log_density, target.log_density(cloud.points), rtol=1e-9)
    assert_log_gamma(cloud.points)


@pytest.mark.parametrize("exact", [True, False])
def test_single_coordinates_keep_and_reach_a_skewed_distribution(exact):
    """Two of three coordinates move; the third, which shares no term with them, stays."""
    rng = np.random.default_rng(2)
    u = np.log(rng.gamma(SHAPE, size=(SIZE, 3)))
    if not exact:
        u[:, :2] = rng.normal(size=(SIZE, 2))
    both = np.arange(2)
    target = log_gamma_target(np.eye(3), [(both, both, both)])
    fit, cloud = start(target, u)
    kernel = SingleCoordinates(target, target.sets[0], fit.plain)
    for _ in range(5 if exact else 60):
        cloud = kernel.move(rng, cloud).cloud
    np.testing.assert_allclose(cloud.log_density, target.log_density(cloud.points), rtol=1e-9)
    assert_log_gamma(cloud.points, np.eye(3))
    assert (cloud.points[:, 2] == u[:, 2]).all()
    assert (cloud.points[:, 0] != u[:, 0]).mean() > 0.8


def discrete_target(terms, count, sets, supports) -> MoveTarget:
    every = np.arange(count)
    return MoveTarget(
        log_density=lambda points: terms(points, every).sum(axis=1),
        terms=terms,
        continuous=np.zeros(0, int),
        sets=[],
        discrete_sets=sets,
        supports=supports,
    )


def assert_frequencies(found, expected):
    """Counts of each cell against their probabilities."""
    total = found.sum()
    z = (found - total * expected) / np.sqrt(total * expected * (1 - expected))
    assert np.abs(z).max() < STANDARD_ERRORS, z


@pytest.mark.parametrize("sweeps", [1, 10])
def test_discrete_gibbs_reaches_a_table(sweeps):
    """x_0 and x_2 are independent given x_1: a chain of three with three values each."""
    support = Support(0, 2, True, True)
    field = np.array([0.0, 0.7, -0.4])

    def terms(points, selection):
        x = points.astype(int)
        parts = [field[x[:, 0]], (x[:, 0] == x[:, 1]) * 0.8, field[::-1][x[:, 1]]]
        parts += [(x[:, 1] == x[:, 2]) * -1.1, x[:, 2] * 0.3]
        return np.stack(parts, axis=1)[:, selection]

    outer = (np.array([0, 2]), np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1]))
    middle = (np.array([1]), np.array([1, 2, 3]), np.array([0, 0, 0]))
    target = discrete_target(terms, 5, [outer, middle], dict.fromkeys(range(3), support))
    cells = np.stack(np.meshgrid(*[range(3)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    probability = special.softmax(target.log_density(cells.astype(float)))
    rng = np.random.default_rng(3)
    points = cells[rng.choice(27, size=SIZE, p=probability)].astype(float)
    if sweeps > 1:
        points = rng.integers(3, size=(SIZE, 3)).astype(float)
    fit, cloud = start(target, points)
    kernels = discrete_coordinates(target, fit)
    assert all(isinstance(kernel, DiscreteGibbs) for kernel in kernels)
    for _ in range(sweeps):
        for kernel in kernels:
            cloud = kernel.move(rng, cloud).cloud
    np.testing.assert_allclose(cloud.log_density, target.log_density(cloud.points), rtol=1e-9)
    found = np.bincount((cloud.points @ [9, 3, 1]).astype(int), minlength=27)
    assert_frequencies(found, probability)


@pytest.mark.parametrize("exact", [True, False])
def test_a_walk_over_counts_reaches_a_poisson(exact):
    """From a wrong start too, and never below zero, where the density would not be defined."""

    def terms(points, selection):
        assert (points >= 0).all()
        return stats.poisson.logpmf(points, [1.5, 8.0])[:, selection]

    support = Support(0, 20, True, False)
    both = np.arange(2)
    target = discrete_target(terms, 2, [(both, both, both)], dict.fromkeys(range(2), support))
    rng = np.random.default_rng(4)
    points = rng.poisson([1.5, 8.0] if exact else [4.0, 4.0], size=(SIZE, 2)).astype(float)
    fit, cloud = start(target, points)
    (kernel,) = discrete_coordinates(target, fit)
    assert isinstance(kernel, DiscreteWalk)
    for _ in range(5 if exact else 60):
        cloud = kernel.move(rng, cloud).cloud
    for column, rate in enumerate([1.5, 8.0]):
        found = np.bincount(np.minimum(cloud.points[:, column], 15).astype(int), minlength=16)
        expected = stats.poisson.pmf(np.arange(16), rate)
        expected[-1] = stats.poisson.sf(14, rate)
        assert_frequencies(found[expected > 1e-3], expected[expected > 1e-3])


def test_confirmation_keeps_the_distribution_when_a_scope_was_missed():
    """A term of both coordinates that the set does not know: invariance is not lost."""

    def terms(points, selection):
        corner = np.where((points > 0.5).all(axis=1), -1.5, 0.0)
        return np.stack([-0.5 * points[:, 0] ** 2, -0.5 * points[:, 1] ** 2, corner], 1)[
            :, selection
        ]

    both = np.arange(2)
    target = MoveTarget(
        log_density=lambda points: terms(points, np.arange(3)).sum(axis=1),
        terms=terms,
        continuous=both,
        sets=[(both, both, both)],
        discrete_sets=[],
        supports={},
    )
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(3 * SIZE, 2))
    kept = np.log(rng.random(len(draws))) < terms(draws, np.array([2]))[:, 0]
    points = draws[kept][:SIZE]
    fit, cloud = start(target, points)
    kernel = SingleCoordinates(target, target.sets[0], fit.plain)
    for _ in range(20):
        cloud = kernel.move(rng, cloud).cloud
    assert (cloud.points != points).mean() > 0.9
    tail = stats.norm.sf(0.5)
    inside = tail**2 * np.exp(-1.5)
    cells = np.array([inside, tail * (1 - tail), tail * (1 - tail), (1 - tail) ** 2])
    corner = (cloud.points > 0.5) @ [2, 1]
    found = np.bincount(corner, minlength=4)[[3, 2, 1, 0]]
    assert_frequencies(found, cells / cells.sum())


def test_confirmation_takes_back_only_what_differs():
    target = log_gamma_target(np.eye(3))
    before = np.zeros((3, 3))
    before_density = target.log_density(before)
    after = before + np.array([1.0, 0.0, 0.0])
    change = target.log_density(after) - before_density
    before_density[2] = -np.inf  # from nowhere every place is better
    wrong = change + np.array([0.0, 1e-3, 1e-3])
    cloud = confirm(target, Cloud(before, before_density), after, wrong)
    np.testing.assert_array_equal(cloud.points[:, 0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(cloud.log_density, target.log_density(cloud.points))


@pytest.mark.parametrize("unit", [1e30, 1e12, 1e-12, 1e-30])
@pytest.mark.parametrize("with_scores", [False, True])
def test_a_fit_does_not_depend_on_the_units_of_a_column(unit, with_scores):
    """A mean in units of 1e30 stood beside a scale in logarithms that was never moved."""
    plain = np.random.default_rng(1).normal(size=(400, 3)) @ np.triu(np.ones((3, 3)))
    units = np.array([unit, 1.0, 1.0])
    scores = -plain @ np.linalg.inv(np.cov(plain.T)) if with_scores else None
    expected = Student.fit(plain, scores)
    found = Student.fit(plain * units, None if scores is None else scores / units)
    np.testing.assert_allclose(found.mean / units, expected.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        found.conditional_deviation / units, expected.conditional_deviation, rtol=1e-6
    )
    covariance = found.factor @ found.factor.T / np.outer(units, units)
    np.testing.assert_allclose(covariance, expected.factor @ expected.factor.T, rtol=1e-6)


def test_columns_without_spread_are_moved_a_little():
    points = np.random.default_rng(1).normal(size=(400, 2)) * np.array([1e20, 0.0]) + 3.0
    assert 0 < Student.fit(points).conditional_deviation[1] < 1e15


def test_a_cloud_of_huge_coordinates_is_fitted():
    """Scales with vague priors send particles to 1e150, whose squares overflow."""
    rng = np.random.default_rng(1)
    plain = rng.normal(size=(400, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0, 0, 1.0]])
    unit = np.array([1e150, 1e150, 1e150])
    expected, found = Student.fit(plain), Student.fit(plain * unit)
    np.testing.assert_allclose(found.mean, expected.mean * unit, rtol=1e-6)
    np.testing.assert_allclose(found.factor[0], expected.factor[0] * unit[0], rtol=1e-6)
    assert np.isfinite(found.inverse_factor).all()
    assert found.freedom == pytest.approx(expected.freedom, rel=1e-3)
