"""Sweeps: when they end, what they freeze, and how they see funnels."""

import pickle

import numpy as np
import pymc as pm
import pytest

from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.settings import Settings
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.moves import KERNELS, MoveTarget, Sweep, sweep
from pymc_arm.models.moves.decorrelation import Decorrelation
from pymc_arm.models.moves.fit import fit_cloud
from pymc_arm.models.moves.hamiltonian import Hamiltonian
from pymc_arm.models.moves.kernel import Cloud
from pymc_arm.models.moves.standardized import Standardized
from pymc_arm.models.moves.steps import FLOOR, StepSizes
from pymc_arm.models.moves.student import independent_halves
from pymc_arm.running.pilot import ReplayedPath, pilot

SIZE, DIMENSION = 1000, 4
LIMIT = max(sweep.MAX_AUTOCORRELATION, sweep.MARGIN + sweep.CHANCE / np.sqrt(SIZE))


def memory(start, *later):
    """Return what is left of a cloud after some more, with a standard normal as target."""
    depth = [-0.5 * (points**2).sum(axis=1) for points in (start, *later)]
    measure = Decorrelation(start, depth[0], np.arange(start.shape[1]))
    return [measure.worst(*cloud) for cloud in zip(later, depth[1:], strict=True)][-1]


def normal(seed):
    return np.random.default_rng(seed).normal(size=(SIZE, DIMENSION))


@pytest.mark.one_version
def test_independent_clouds_are_told_as_such():
    """Of 40 pairs none is beyond the limit: it leaves more than 4 standard errors for chance."""
    assert max(memory(normal(i), normal(i + 100)) for i in range(40)) < LIMIT


@pytest.mark.one_version
def test_a_single_coordinate_that_stays_is_seen():
    now = normal(1)
    now[:, 3] = normal(0)[:, 3]
    assert memory(normal(0), now) > 0.95


@pytest.mark.one_version
def test_a_collective_variable_that_stays_is_seen():
    """Spins of the same mean flip freely: no single one remembers more than a sixth."""
    rng = np.random.default_rng(2)
    field = 0.4 * rng.choice([-1.0, 1.0], size=(SIZE, 1))
    clouds = [np.sign(field + rng.uniform(-1, 1, size=(SIZE, 60))) for _ in range(2)]
    single = [np.corrcoef(clouds[0][:, i], clouds[1][:, i])[0, 1] for i in range(60)]
    assert np.mean(single) < 0.2
    assert memory(*clouds) > 0.6


@pytest.mark.one_version
def test_tails_that_stay_are_seen():
    start, now = normal(0), normal(1)
    far = np.argsort((start**2).sum(axis=1))[-60:]
    now[far] = start[far]
    assert memory(start, now) > LIMIT


@pytest.mark.one_version
def test_a_cloud_that_drifts_has_not_arrived():
    """Each particle forgets where it was in the cloud; the cloud itself goes on and on."""
    first = np.eye(4)[0]
    clouds = [normal(i) + 0.4 * i * first for i in range(5)]
    assert memory(*clouds) > 0.9
    assert memory(*clouds, *(normal(i) + 1.6 * first for i in range(5, 12))) < LIMIT


@pytest.mark.one_version
def test_small_steps_keep_their_share():
    steps = StepSizes([1.0, 0.5, 0.1, 0.01])
    choice = np.repeat(np.arange(4), 250)
    steps.learn(choice, np.array([1.0, 0.1, 1e-3, 0.0])[choice])
    assert steps.weights.min() >= FLOOR
    np.testing.assert_allclose(steps.weights.sum(), 1.0)
    assert steps.weights.argmax() == 0
    # A few who go very far do not outweigh the many who do not move at all.
    squares = np.where(np.arange(1000) % 250 < 5, 100.0, 0.0)
    squares[choice == 1] = 0.5
    steps.learn(choice, squares)
    assert steps.weights.argmax() == 1
    steps.freeze(np.full(4, 0.25))
    steps.learn(choice, squares)
    np.testing.assert_array_equal(steps.weights, 0.25)


def funnel_target(dimension=4) -> MoveTarget:
    """u ~ N(0, 1.5^2), x_i ~ N(u, e^(2u))."""

    def gradient(points):
        u, x = points[:, :1], points[:, 1:]
        z = (x - u) * np.exp(-u)
        value = -0.5 * (u[:, 0] / 1.5) ** 2 - 0.5 * (z**2).sum(axis=1)
        value = value - (dimension - 1) * u[:, 0]
        slope = -u / 2.25 + (z * np.exp(-u) + z**2 - 1).sum(axis=1, keepdims=True)
        return value, np.hstack([slope, -z * np.exp(-u)])

    return MoveTarget(
        log_density=lambda points: gradient(points)[0],
        terms=lambda points, selection: gradient(points)[0][:, None],
        continuous=np.arange(dimension),
        sets=[],
        discrete_sets=[],
        supports={},
        gradient=gradient,
    )


def funnel_draws(rng, size, dimension=4):
    u = 1.5 * rng.normal(size=(size, 1))
    return np.hstack([u, u + np.exp(u) * rng.normal(size=(size, dimension - 1))])


def test_a_funnel_is_standardized_and_back():
    rng = np.random.default_rng(3)
    points = funnel_draws(rng, SIZE)
    halves = independent_halves(rng, points)
    view = Standardized.fit(halves, points, np.arange(4))
    seen, log_scale = view.forward(points)
    assert abs(np.corrcoef(seen[:, 0], np.log(seen[:, 1] ** 2))[0, 1]) < 0.2
    back, same = view.inverse(seen)
    np.testing.assert_allclose(back, points, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(same, log_scale)
    target = funnel_target()
    pulled = view.pull_gradients(seen, target.gradient(points)[1])
    for column in range(4):
        ahead, behind = seen.copy(), seen.copy()
        ahead[:, column] += 1e-6
        behind[:, column] -= 1e-6
        values = []
        for place in (ahead, behind):
            at, scale = view.inverse(place)
            values.append(target.log_density(at) + scale)
        numeric = (values[0] - values[1]) / 2e-6
        close = np.isclose(pulled[:, column], numeric, rtol=1e-3, atol=1e-3)
        assert close.mean() > 0.995  # but where means bend
    assert Standardized.fit(halves, normal(0), np.arange(4)) is None


@pytest.mark.one_version
@pytest.mark.statistical
def test_hamiltonian_moves_in_a_standardized_funnel_leave_it_invariant():
    """Moments of u and of the innovations at 4.5 standard errors, 1e-4 false alarms in all."""
    rng = np.random.default_rng(4)
    size = 10_000
    target, points = funnel_target(), funnel_draws(rng, size)
    fit, log_density = fit_cloud(rng, target, points)
    view = fit.views[-1]
    assert view.name == "standardized"
    kernel = Hamiltonian(target, view.view, view.student)
    cloud = Cloud(points, log_density)
    for _ in range(4):
        cloud, rate, _ = kernel.move(rng, cloud)
        assert rate > 0.3
    u = cloud.points[:, :1]
    white = np.hstack([u / 1.5, (cloud.points[:, 1:] - u) * np.exp(-u)])
    z = [white.mean(axis=0) * np.sqrt(size), (white**2 - 1).mean(axis=0) * np.sqrt(size / 2)]
    tilt = (white[:, [0]] * (white[:, 1:] ** 2 - 1)).mean(axis=0) * np.sqrt(size / 2)
    assert np.abs(np.concatenate([*z, tilt])).max() < 4.5


def regression() -> tuple[pm.Model, float]:
    """Two coefficients, known noise, exact log Z."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(30, 2))
    data = rows @ [1.0, -1.0] + rng.normal(size=30)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 3, shape=2)
        pm.Potential("y", pm.logp(pm.Normal.dist(pm.math.dot(rows, b), 1.0), data).sum())
    covariance = np.eye(30) + 9 * rows @ rows.T
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
    return model, -0.5 * (log_determinant + data @ np.linalg.solve(covariance, data))


@pytest.mark.one_version
@pytest.mark.statistical
def test_frozen_moves_repeat_a_pilot_and_give_the_truth():
    """Z-hat over 40 chains within 4.5 standard errors, and the kernels can be pickled."""
    model, truth = regression()
    path = compile_model(model)
    replay, counts = pilot(path, 200, np.random.default_rng(6), Settings(resample_threshold=0.9))
    assert path.recorded_moves is None
    assert replay.recorded_moves
    copied = pickle.loads(pickle.dumps(replay.recorded_moves))
    runs = [
        run(replay, rng, counts=counts, variant="rm") for rng in np.random.default_rng(7).spawn(40)
    ]
    ratios = np.exp([r.log_evidence - truth for r in runs])
    assert abs(ratios.mean() - 1) < 4.5 * ratios.std(ddof=1) / np.sqrt(len(ratios))
    replay = ReplayedPath(path.with_frozen_moves(copied), replay.following)
    again = run(replay, np.random.default_rng(7).spawn(1)[0], counts=counts, variant="rm")
    assert again.log_evidence == runs[0].log_evidence
    # A number of particles that the pilot did not have.
    other = run(replay, np.random.default_rng(8), 150, variant="rm")
    assert np.isfinite(other.log_evidence)


def test_a_sweep_says_what_is_left():
    rng = np.random.default_rng(9)
    target = funnel_target(3)
    points = funnel_draws(rng, SIZE, 3)
    moved = Sweep(target, KERNELS).run(rng, points)
    assert moved.autocorrelation < LIMIT
    stuck = MoveTarget(
        log_density=lambda p: np.where((p == points).all(axis=1), 0.0, -np.inf),
        terms=target.terms,
        continuous=target.continuous,
        sets=[],
        discrete_sets=[],
        supports={},
    )
    moved = Sweep(stuck, KERNELS).run(rng, points)
    assert moved.autocorrelation == 1.0
    assert (moved.particles == points).all()


def test_log_likelihoods_of_any_range_are_tempered_in():
    """Four coordinates with a prior of 1e9 and noise of 1e-3: log-likelihoods range over 1e24."""
    data = np.array([1.0, -2.0, 3.0, 0.5])
    rotation = np.linalg.qr(normal(11)[:4])[0]
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1e9, shape=4)
        pm.Normal("y", pm.math.dot(rotation, x), 1e-3, observed=data)
    result = run(compile_model(model), np.random.default_rng(10), 300)
    truth = -0.5 * 4 * np.log(2 * np.pi * 1e18)
    assert result.history[0].introduced.endswith("e-25)")
    assert abs(result.log_evidence - truth) < 2.0  # a collapsed cloud is off by 1e10 and more
