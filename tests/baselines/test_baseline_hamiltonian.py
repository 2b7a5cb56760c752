"""Both Hamiltonian kernels: gradients, reversibility, volume, and detailed balance."""

import numpy as np
import pytest

from benchmarks.baselines import GPCAnnealing
from benchmarks.baselines.hamiltonian import leapfrog, potential
from benchmarks.baselines.riemannian import hamiltonian, inverse_diagonal, trajectory


def roads(classifier, kernel, **options):
    for base in ("prior", "ep"):
        yield GPCAnnealing(
            classifier.covariance,
            classifier.labels,
            mean=classifier.mean,
            base=base,
            kernel=kernel,
            **options,
        )


def follow(road, v, momentum, beta, step_size, steps):
    """Run the dynamics from (v, p)."""
    return trajectory(
        v,
        momentum,
        True,
        road.covariance,
        road.factor,
        np.ascontiguousarray(road.factor.T),
        road.mean,
        (1 - beta) * road.site_precision,
        (1 - beta) * road.site_shift,
        beta,
        step_size,
        steps,
    )


def dense(road, v, momentum, beta):
    sites = ((1 - beta) * road.site_precision, (1 - beta) * road.site_shift)
    return hamiltonian(v, momentum, road.covariance, road.factor, road.mean, sites, beta)


@pytest.mark.parametrize("size", [5, 64, 150])
def test_inverse_diagonal_in_blocks(size):
    rng = np.random.default_rng(size)
    matrix = rng.normal(size=(size, size))
    matrix = np.eye(size) + matrix @ matrix.T / size
    found = inverse_diagonal(np.linalg.cholesky(matrix))
    np.testing.assert_allclose(found, np.linalg.inv(matrix).diagonal(), rtol=1e-9)


@pytest.mark.parametrize("beta", [0.03, 0.5, 1.0])
def test_riemannian_energy_and_forces_are_those_of_the_dense_hamiltonian(six, beta):
    rng = np.random.default_rng(1)
    for road in roads(six, "rmhmc"):
        v, momentum = rng.normal(size=(2, 6))
        step = 1e-5
        moved, pushed, before, after, converged = follow(road, v, momentum, beta, step, 1)
        assert converged
        np.testing.assert_allclose(before, dense(road, v, momentum, beta), rtol=1e-10)
        np.testing.assert_allclose(after, dense(road, moved, pushed, beta), rtol=1e-10)
        shift = 1e-5 * np.eye(6)
        forces = [
            (dense(road, v + e, momentum, beta) - dense(road, v - e, momentum, beta)) / 2e-5
            for e in shift
        ]
        velocity = [
            (dense(road, v, momentum + e, beta) - dense(road, v, momentum - e, beta)) / 2e-5
            for e in shift
        ]
        np.testing.assert_allclose((pushed - momentum) / step, -np.array(forces), atol=2e-3)
        np.testing.assert_allclose((moved - v) / step, velocity, atol=2e-3)


def test_riemannian_trajectories_are_reversible(six):
    rng = np.random.default_rng(2)
    for road in roads(six, "rmhmc"):
        for _ in range(20):
            v, momentum = rng.normal(size=(2, 6))
            moved, pushed, *_, converged = follow(road, v, momentum, 1.0, 0.2, 10)
            back, returned, *_, converged_back = follow(road, moved, -pushed, 1.0, 0.2, 10)
            assert converged
            assert converged_back
            np.testing.assert_allclose(back, v, atol=1e-6)
            np.testing.assert_allclose(returned, -momentum, atol=1e-6)


def test_riemannian_trajectories_preserve_volume(three):
    road = next(roads(three, "rmhmc"))
    start = np.random.default_rng(3).normal(size=6)
    columns = []
    for shift in 1e-4 * np.eye(6):
        ends = []
        for sign in (1, -1):
            place = start + sign * shift
            moved, pushed, *_ = follow(road, place[:3].copy(), place[3:].copy(), 1.0, 0.3, 5)
            ends.append(np.concatenate([moved, pushed]))
        columns.append((ends[0] - ends[1]) / 2e-4)
    assert abs(np.linalg.det(np.array(columns)) - 1) < 1e-4


def test_riemannian_energy_error_is_of_second_order(six):
    road = next(roads(six, "rmhmc"))
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(20):
        v, momentum = rng.normal(size=(2, 6))
        errors = []
        for step, steps in ((0.04, 10), (0.02, 20)):
            *_, before, after, _ = follow(road, v, momentum, 1.0, step, steps)
            errors.append(abs(after - before))
        ratios.append(errors[0] / errors[1])
    assert 3.5 < np.median(ratios) < 4.5


def test_leapfrog_is_reversible_and_follows_the_potential(six):
    rng = np.random.default_rng(5)
    for road in roads(six, "hmc"):
        beta = 0.4
        sites = ((1 - beta) * road.site_precision, (1 - beta) * road.site_shift)
        target = (road._precision, road.mean, sites, beta)
        points, momentum = rng.normal(size=(2, 7, 6))
        moved, pushed = leapfrog(points, momentum, *target, 0.05, 30)
        back, returned = leapfrog(moved, -pushed, *target, 0.05, 30)
        np.testing.assert_allclose(back, points, atol=1e-9)
        np.testing.assert_allclose(returned, -momentum, atol=1e-9)
        step = 1e-6
        _, kicked = leapfrog(points, 0 * momentum, *target, step, 1)
        forces = [
            (potential(points + e, *target) - potential(points - e, *target)) / 2e-5
            for e in 1e-5 * np.eye(6)
        ]
        np.testing.assert_allclose(-kicked / step, np.transpose(forces), atol=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("hmc", {"step_size": 0.8, "leapfrog_steps": 4}),
        ("rmhmc", {"step_size": 0.7, "leapfrog_steps": 3}),
    ],
)
def test_kernels_are_in_detailed_balance(three, kernel, options):
    """E[f(x) g(x')] is symmetric in f and g; steps so long that proposals are rejected too.

    Six statistics at four standard errors: a false alarm in 2600 seeds.
    """
    rng = np.random.default_rng(6)
    before = three.exact_draws(rng, 6000)
    road = next(roads(three, kernel, **options))
    after, rate, *_ = road.transition(rng, 1.0, before)
    assert 0.3 < rate < 0.99
    functions = [lambda u: u[:, 0], lambda u: u[:, 1] ** 2, lambda u: np.tanh(u[:, 2])]
    for index, first in enumerate(functions):
        change = first(after) - first(before)
        assert abs(change.mean()) < 4 * change.std() / np.sqrt(len(change))
        for second in functions[index + 1 :]:
            odd = first(before) * second(after) - second(before) * first(after)
            assert abs(odd.mean()) < 4 * odd.std() / np.sqrt(len(odd))
