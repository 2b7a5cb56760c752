"""The compiled sweeps: random numbers, the panel product, and invariance of the target."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import log_ndtr, ndtri_exp

from pymc_arm.families.gpc import GPCPath
from pymc_arm.families.gpc.ep import expectation_propagation
from pymc_arm.families.gpc.kernels import LINE_BYTES, _aligned_tiles, predict
from pymc_arm.families.gpc.microkernel import PANEL, TILE_BYTES, multiply_panel
from pymc_arm.families.gpc.normal import normal_quantile, truncated_below
from pymc_arm.families.gpc.precision import GrowingPrecision
from pymc_arm.families.gpc.random import exponentials, next_bits, seed_lanes
from pymc_arm.families.gpc.sequence import build_sequence, sites_on_z


@njit
def panel_product(matrix, values, product, depth, panel):
    multiply_panel(matrix, values, product, depth, panel)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_panel_product(real):
    rng = np.random.default_rng(0)
    lanes = TILE_BYTES // np.dtype(real).itemsize
    matrix = rng.normal(size=(3, 20, PANEL)).astype(real)
    values = rng.normal(size=(17, lanes)).astype(real)
    product = np.empty((PANEL, lanes), real)
    panel_product(matrix, values, product, 17, 2)
    np.testing.assert_allclose(product, matrix[2, :17].T @ values, atol=1e-5)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 7, 767])
def test_tiles_begin_with_a_line_of_the_cache(real, count):
    tiles = _aligned_tiles(np.empty((count, 3), real), 5)
    assert tiles.shape == (5, count, TILE_BYTES // tiles.itemsize)
    assert tiles.ctypes.data % LINE_BYTES == 0
    assert tiles.flags.c_contiguous


def test_lanes_depend_on_key_and_particle_only():
    wide, narrow = np.empty((4, 64), np.uint32), np.empty((4, 16), np.uint32)
    seed_lanes(wide, np.uint64(2**60 + 3), 128)
    seed_lanes(narrow, np.uint64(2**60 + 3), 160)
    np.testing.assert_array_equal(wide[:, 32:48], narrow)
    seed_lanes(narrow, np.uint64(2**60 + 4), 160)
    assert not np.isin(narrow, wide).any()


def test_seeds_are_philox():
    """Salmon et al.: Philox4x32-10 with counter and key zero; the last bit is set by us."""
    states = np.empty((4, 1), np.uint32)
    seed_lanes(states, np.uint64(0), 0)
    assert [hex(word) for word in states[:, 0]] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd9",
    ]


def random_bits(count, lanes=64):
    states = np.empty((4, lanes), np.uint32)
    seed_lanes(states, np.uint64(7), 0)
    bits = np.empty((count // 2, 2, lanes), np.uint32)
    for pair in bits:
        next_bits(states, pair[:1], pair[1:])
    return bits.reshape(count, lanes)


def test_numbers_are_xoshiro():
    """Blackman and Vigna: xoshiro128+, written with Python's integers."""
    states = np.empty((4, 64), np.uint32)
    seed_lanes(states, np.uint64(7), 0)
    state = [int(word) for word in states[:, 5]]
    expected = []
    for _ in range(6):
        expected.append((state[0] + state[3]) % 2**32)
        shifted = (state[1] << 9) % 2**32
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = (state[3] << 11) % 2**32 | state[3] >> 21
    np.testing.assert_array_equal(random_bits(6)[:, 5], expected)


def test_uniform_in_every_lane_and_uncorrelated():
    uniform = random_bits(4000) / 2**32
    assert min(stats.kstest(uniform[:, lane], "uniform").pvalue for lane in range(64)) > 1e-5
    correlation = np.corrcoef(uniform, rowvar=False) - np.eye(64)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(4000)
    serial = [np.corrcoef(uniform[1:, lane], uniform[:-1, lane])[0, 1] for lane in range(64)]
    assert np.abs(serial).max() < 4.5 / np.sqrt(4000)


def test_exponential_is_minus_log():
    bits = np.concatenate([random_bits(100).ravel(), np.array([0, 1, 2**31, 2**32 - 1], np.uint32)])
    out = np.empty(len(bits), np.float32)
    exponentials(bits, out)
    exact = -np.log(((bits >> 8) + 0.5) * 2.0**-24)
    np.testing.assert_allclose(out, exact, rtol=3e-6, atol=3e-7)
    assert (out > -1e-7).all()


def test_normal_quantile():
    logs = np.concatenate([-np.geomspace(1e-6, 600, 200)])
    found = [normal_quantile(probability) for probability in np.exp(logs)]
    np.testing.assert_allclose(found, stats.norm.ppf(np.exp(logs)), rtol=1e-9, atol=1e-12)


def test_truncated_below_inverts_the_distribution():
    upper = np.repeat([-1e3, -60.0, -30.1, -29.9, -8.0, -1.0, 0.0, 2.0, 9.0], 200)
    bits = np.random.default_rng(0).integers(2**32, size=len(upper), dtype=np.uint32)
    out = np.empty(len(upper))
    truncated_below(upper, bits, out)
    goal = np.log((bits + 0.5) * 2.0**-32) + log_ndtr(upper)
    np.testing.assert_allclose(out, ndtri_exp(goal), rtol=1e-9, atol=1e-9)
    assert (out <= upper).all()


def covariance_of(size, seed=0):
    inputs = np.random.default_rng(seed).normal(size=(size, 2))
    squares = np.sum((inputs[:, None] - inputs) ** 2, axis=-1)
    return 4 * np.exp(-0.5 * squares) + 0.01 * np.eye(size)


def unpack(matrix, count):
    return matrix.transpose(0, 2, 1).reshape(-1, matrix.shape[1])[:count, :count]


def test_precision_grows_without_sites():
    covariance, mean = covariance_of(23), np.linspace(-1, 1, 23)
    sequence = build_sequence(np.linalg.cholesky(covariance), mean)
    growing = GrowingPrecision(sequence, np.float64)
    for count in (1, 2, 7, 12, 23, 5):
        matrix, shift = growing.at(count)
        precision = np.linalg.inv(covariance[:count, :count])
        np.testing.assert_allclose(unpack(matrix, count), precision, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(shift, precision @ mean[:count], rtol=1e-6, atol=1e-6)


def test_precision_grows_with_sites():
    """S^(n), h^(n) and log masses against direct Gaussian algebra on all variables."""
    covariance, mean = covariance_of(11) + np.eye(11), np.linspace(-1, 1, 11)
    sites = sites_on_z(expectation_propagation(covariance - np.eye(11), mean))
    sequence = build_sequence(np.linalg.cholesky(covariance), mean, sites)
    growing = GrowingPrecision(sequence, np.float64)
    prior = np.linalg.inv(covariance)
    for count in (1, 4, 6, 11):
        future = np.arange(11) >= count
        precision = prior + np.diag(np.where(future, sites.precision, 0))
        marginal = np.linalg.inv(precision)[:count, :count]
        location = np.linalg.solve(precision, prior @ mean + np.where(future, sites.shift, 0))
        matrix, shift = growing.at(count)
        np.testing.assert_allclose(unpack(matrix, count), np.linalg.inv(marginal), atol=1e-9)
        np.testing.assert_allclose(marginal @ shift, location[:count], atol=1e-9)
    everything = prior + np.diag(sites.precision)
    natural = prior @ mean + sites.shift
    log_mass = 0.5 * (
        natural @ np.linalg.solve(everything, natural)
        - mean @ prior @ mean
        - np.linalg.slogdet(everything)[1]
        + np.linalg.slogdet(prior)[1]
    )
    assert sequence.log_mass == pytest.approx(log_mass)


def test_growth_does_not_depend_on_the_steps():
    sequence = build_sequence(np.linalg.cholesky(covariance_of(30)), np.ones(30))
    direct, stepwise = (GrowingPrecision(sequence, np.float32) for _ in range(2))
    matrix, shift = direct.at(29)
    for count in (3, 4, 11, 12, 29):
        other_matrix, other_shift = stepwise.at(count)
    np.testing.assert_array_equal(unpack(matrix, 29), unpack(other_matrix, 29))
    np.testing.assert_array_equal(shift, other_shift)


def test_predict():
    rng = np.random.default_rng(0)
    row, particles = rng.normal(size=9), rng.normal(size=(9, 1200)).astype(np.float32)
    out = np.empty(1200)
    predict(row, particles, out)
    np.testing.assert_allclose(out, row @ particles.astype(float), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["slice", "overrelaxed"])
@pytest.mark.parametrize("lookahead", [None, "ep"])
@pytest.mark.parametrize("representation", ["z", "x"])
def test_moves_leave_the_target_invariant(representation, lookahead, kernel, dtype):
    """First and second moments of weighted exact draws, before and after three moves.

    The draws are independent (no resampling), so the difference of moments has a known standard
    error, at most that of two independent sets; 4.5 of them at 40 comparisons a case.
    """
    size, count, total = 8, 5, 40_000
    labels = np.array([1, 0, 0, 1, 1, 0, 1, 0])
    path = GPCPath(
        covariance_of(size),
        labels,
        mean=0.3,
        representation=representation,
        kernel=kernel,
        lookahead=lookahead,
        dtype=dtype,
    )
    rng = np.random.default_rng(3)
    particles, _ = path.initialize(rng, total)
    log_weights = np.zeros(total)
    for n in range(2, count + 1):
        log_ratio, proposal = path.smooth(rng, n, particles)
        log_weights += log_ratio
        particles, _ = path.augment(rng, n, particles, proposal)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    moved = particles
    for _ in range(3):
        moved = path.move(rng, count, moved).particles
    assert moved.dtype == np.dtype(dtype)
    if representation == "z":
        assert (moved >= 0).all()
    products = [(i, j) for i in range(count) for j in range(i + 1)]
    for statistic in [lambda x, i=i: x[i] for i in range(count)] + [
        lambda x, i=i, j=j: x[i] * x[j] for i, j in products
    ]:
        before, after = statistic(particles.astype(float)), statistic(moved.astype(float))
        mean = weights @ before
        error = np.sqrt(weights**2 @ ((before - mean) ** 2 + (after - mean) ** 2))
        assert abs(weights @ after - mean) < 4.5 * error
