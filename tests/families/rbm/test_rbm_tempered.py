"""The tempered path against enumeration.

Tolerances are in standard errors of the replicates; 4.4 of them fail by chance once in 10^5, but
seeds are fixed.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

import pymc_arm
from pymc_arm.families.rbm import Machine, rbm, tempered_path
from pymc_arm.families.rbm.knots import Knots
from pymc_arm.families.rbm.pilots import DATA_BIAS_STRENGTHS
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS, Temperature

STATES = ((np.arange(2**9)[:, None] >> np.arange(9)) & 1).astype(np.uint8)


@pytest.fixture(scope="module")
def machine():
    rng = np.random.default_rng(2)
    return Machine(rng.normal(0, 1.0, (9, 5)), rng.normal(size=9), rng.normal(size=5))


@pytest.fixture(scope="module")
def data():
    """Examples that the machine has not seen: base rates need not be its own."""
    return np.random.default_rng(3).integers(2, size=(200, 9))


@pytest.fixture(scope="module")
def path(machine, data):
    return tempered_path(machine, data, threads=1, name="pixels")


def all_particles(path):
    products = (STATES @ path.machine.W).astype(np.float32)
    particles, _ = path.initialize(np.random.default_rng(0), 1)
    seeds = np.repeat(particles.seeds, len(STATES))
    return type(particles)(STATES, products, path._schedule(particles).linear(STATES), seeds)


@pytest.mark.one_version
@pytest.mark.statistical
@pytest.mark.parametrize("variant", ["arm", "rm", "anticipate"])
def test_matches_enumeration(machine, path, variant):
    settings = TEMPERED_SETTINGS | {"variant": variant}
    if variant == "anticipate":
        settings |= {"threshold": 0.9, "max_rounds": 3}
    estimates = [
        pymc_arm.run(path, np.random.default_rng(seed), 200, **settings).log_evidence
        for seed in range(24)
    ]
    ratios = np.exp(np.array(estimates) - machine.exact_log_evidence())
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    # Choosing steps by the particles is worth less than one per cent at this R.
    assert abs(ratios.mean() - 1) < 4.4 * error + 0.01
    assert ratios.std() < 0.3


@pytest.mark.one_version
@pytest.mark.statistical
def test_the_steps_of_a_pilot_are_unbiased_with_few_particles(machine, path):
    first = pymc_arm.run(path, np.random.default_rng(1), 100, threshold=0.9, max_rounds=0)
    following = dict(pairwise(first.positions))
    fixed = tempered_path(machine, STATES[:2], threads=1)
    fixed.__dict__ |= vars(path)
    fixed.advance = lambda n, *_: following[n]
    settings = {"resample_threshold": 0.9, "max_rounds": 0, "move": "adaptive"}
    estimates = [
        pymc_arm.run(fixed, np.random.default_rng(seed), 5, **settings).log_evidence
        for seed in range(400)
    ]
    ratios = np.exp(np.array(estimates) - machine.exact_log_evidence())
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(len(ratios))


@pytest.mark.one_version
def test_ratios_add_up_to_the_density_of_the_machine(machine, path):
    particles = all_particles(path)
    rng = np.random.default_rng(0)
    betas = [0.0, 0.1, 0.5, 0.7, 0.9, 1.0]
    total = sum(
        path.smooth(rng, Temperature(new, old), particles).log_ratio for old, new in pairwise(betas)
    )
    base, _ = path.initialize(rng, 1)
    knots = path._schedule(particles).knots
    start = STATES @ knots.visible[0] + np.logaddexp(0, knots.hidden[0]).sum()
    np.testing.assert_allclose(start + total, machine.log_density(STATES), atol=1e-4)
    # The first density is that of the draws, and its Z is known.
    _, log_evidence = path.initialize(rng, 1)
    np.testing.assert_allclose(np.logaddexp.reduce(start), log_evidence)
    assert base.bits.shape == (1, 9)


@pytest.mark.one_version
@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.3, 0.8, 1.0])
def test_gibbs_leaves_each_distribution_invariant(path, beta):
    particles = all_particles(path)
    rng = np.random.default_rng(8)
    ratio = path.smooth(rng, Temperature(beta, 0.0), particles).log_ratio
    log_density = STATES @ path._schedule(particles).knots.visible[0] + ratio
    probability = np.exp(log_density - np.logaddexp.reduce(log_density))
    draws = 40_000
    chosen = path.select(particles, rng.choice(512, size=draws, p=probability))
    moved = path.move(rng, Temperature(beta), chosen).particles
    np.testing.assert_allclose(moved.products, moved.bits @ path.machine.W, atol=1e-4)
    counts = np.bincount(moved.bits @ (1 << np.arange(9)), minlength=512)
    expected = draws * probability
    often = expected > 5
    statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
    degrees = often.sum()
    assert statistic < degrees + 4.4 * np.sqrt(2 * degrees) + 10


def test_result_does_not_depend_on_the_number_of_threads(machine, data):
    found = [
        pymc_arm.run(
            tempered_path(machine, data, threads=threads),
            np.random.default_rng(1),
            600,
            **TEMPERED_SETTINGS | {"threshold": 0.5},
        ).log_evidence
        for threads in (1, 2)
    ]
    assert found[0] == found[1]


@pytest.mark.one_version
def test_steps_are_as_long_as_the_threshold_allows(path):
    settings = TEMPERED_SETTINGS | {"threshold": 0.95, "resample_threshold": 1.0}
    result = pymc_arm.run(path, np.random.default_rng(4), 2000, **settings)
    fractions = [info.effective_fraction for info in result.history]
    assert min(fractions) > 0.92
    assert np.median(fractions) < 0.97
    assert {0.5, 0.8} <= {position.beta for position in result.positions}
    assert result.positions[0] == Temperature(0.0)
    assert result.positions[-1].beta == 1.0
    assert result.history[-1].introduced == "beta = 1"


@pytest.mark.one_version
def test_a_threshold_of_one_still_arrives(path):
    particles, _ = path.initialize(np.random.default_rng(0), 20)
    log_weights = np.full(20, -np.log(20))
    following = path.advance(Temperature(0.5, 0.4), particles, log_weights, 1.0)
    assert following.beta > 0.5 + 1e-4


@pytest.mark.one_version
def test_independent_units_take_few_steps():
    machine = Machine(np.zeros((6, 3)), np.linspace(-1, 1, 6), np.ones(3))
    rates = 1 / (1 + np.exp(-machine.a))
    data = (np.random.default_rng(0).random((20_000, 6)) < rates).astype(np.uint8)
    path = tempered_path(machine, data)
    result = pymc_arm.run(path, np.random.default_rng(0), 100, **TEMPERED_SETTINGS)
    np.testing.assert_allclose(result.log_evidence, machine.exact_log_evidence(), atol=0.05)
    assert len(result.history) < 50


@pytest.mark.one_version
def test_biases_on_the_way_keep_the_means_near_those_of_the_data():
    rng = np.random.default_rng(5)
    machine = Machine(rng.normal(0, 1.5, (9, 4)), np.full(9, -2.0), np.full(4, -1.0))
    probability = np.exp(machine.log_density(STATES) - machine.exact_log_evidence())
    data = STATES[rng.choice(512, size=5000, p=probability)]
    path = tempered_path(machine, data, data_bias_strength=1.0)

    def distance(visible_bias, hidden_bias):
        tempered = Machine(0.5 * machine.W, visible_bias, hidden_bias)
        weights = np.exp(tempered.log_density(STATES) - tempered.exact_log_evidence())
        return np.abs(weights @ STATES - data.mean(axis=0)).mean()

    _, visible, hidden = path._schedule(path.initialize(np.random.default_rng(1), 1)[0]).knots
    straight = distance((visible[0] + visible[-1]) / 2, (hidden[0] + hidden[-1]) / 2)
    assert distance(visible[1], hidden[1]) < 0.6 * straight


@pytest.mark.one_version
def test_every_chain_learns_biases_of_its_own(path):
    first, again, other = (path.initialize(np.random.default_rng(seed), 1)[0] for seed in (1, 1, 2))
    assert path._schedule(first) is path._schedule(again)
    assert (
        np.abs(path._schedule(first).knots.visible - path._schedule(other).knots.visible).max()
        > 0.01
    )
    # In another process, where nothing is kept, they are the same.
    anew = tempered_path(path.machine, STATES[:2], threads=1)
    anew.__dict__ |= vars(path) | {"_schedules": {}}
    np.testing.assert_array_equal(
        anew._schedule(first).knots.visible, path._schedule(first).knots.visible
    )


def test_the_strength_is_found_by_pilot_runs_or_given():
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 1, (12, 4))
    machine = Machine(weights, rng.normal(-1, 1, 12))
    hidden = rng.integers(2, size=(500, 4))
    own = rng.random((500, 12)) < expit(hidden @ weights.T + machine.a)
    assert tempered_path(machine, own).data_bias_strength in DATA_BIAS_STRENGTHS
    assert tempered_path(machine, own, data_bias_strength=0.3).data_bias_strength == 0.3
    with pytest.raises(ValueError, match=r"data_bias_strength=1\.5 must be between"):
        tempered_path(machine, own, data_bias_strength=1.5)


@pytest.mark.one_version
def test_knots_between_a_straight_line_and_those_of_the_data():
    knots = Knots(np.array([0.0, 0.5, 1.0]), np.array([[0.0], [3.0], [2.0]]), np.zeros((3, 1)))
    np.testing.assert_allclose(knots.between(0.0).visible.ravel(), [0, 1, 2])
    np.testing.assert_allclose(knots.between(0.5).visible.ravel(), [0, 2, 2])
    np.testing.assert_allclose(knots.between(1.0).visible, knots.visible)


@pytest.mark.one_version
def test_biases_are_linear_between_knots():
    knots = Knots(np.array([0.0, 0.5, 1.0]), np.zeros((3, 1)), np.zeros((3, 1)))
    for beta, shares in ((0.0, [1, 0, 0]), (0.25, [0.5, 0.5, 0]), (0.5, [0, 1, 0])):
        np.testing.assert_allclose(knots.shares(beta), shares)
    np.testing.assert_allclose(knots.shares(0.9), [0, 0.2, 0.8])
    np.testing.assert_allclose(knots.shares(1.0), [0, 0, 1])


def test_posterior_has_the_means_of_the_machine(machine, path):
    rng = np.random.default_rng(0)
    result = pymc_arm.run(path, rng, 4000, **TEMPERED_SETTINGS | {"threshold": 0.9})
    bits = path.posterior(rng, result.state.particles)["pixels"]
    assert bits.dtype == np.uint8
    weights = np.exp(result.state.log_weights)
    means = np.exp(machine.log_density(STATES) - machine.exact_log_evidence()) @ STATES
    # Particles are correlated: three times the error of independent ones.
    error = 3 * np.sqrt(means * (1 - means) * (weights**2).sum())
    np.testing.assert_array_less(np.abs(weights @ bits - means), 4.4 * error)


def test_an_interrupted_run_goes_on(machine, data, tmp_path):
    options = {"data": data, "draws": 50, "chains": 2, "random_seed": 1, "progressbar": False}
    plain = rbm(machine, **options)
    for resume in (False, True):
        found = rbm(machine, checkpoint=tmp_path, resume=resume, **options)
        assert found.attrs["log_marginal_likelihood"] == plain.attrs["log_marginal_likelihood"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "scenic"}, "path='scenic'"),
        ({"path": "tempered", "data": [[1] * 9], "strength": 0.5}, 'strength .* path="units"'),
        ({"data": [[1] * 9], "gibbs_steps": 0}, "gibbs_steps=0"),
        ({"data": [[0.5] * 9]}, r"data\[0, 0\] is 0.5"),
    ],
)
def test_bad_options_are_named(machine, options, message):
    with pytest.raises(ValueError, match=message):
        rbm(machine, **options)
