"""The path against enumeration: every variant, order and look-ahead.

Tolerances are in standard errors of the replicates; 4.4 of them fail by chance once in 10^5, but
seeds are fixed.
"""

import numpy as np
import pytest

import pymc_arm
from pymc_arm.families.rbm import Machine, RBMPath

VARIANTS = ["rm", "arm", "anticipate", "reseed"]


@pytest.fixture(scope="module")
def machine():
    rng = np.random.default_rng(2)
    return Machine(rng.normal(0, 1.0, (9, 5)), rng.normal(size=9), rng.normal(size=5))


@pytest.fixture(scope="module")
def data(machine):
    states = ((np.arange(2**9)[:, None] >> np.arange(9)) & 1).astype(np.uint8)
    probability = np.exp(machine.log_density(states) - machine.exact_log_evidence())
    return states[np.random.default_rng(3).choice(2**9, size=500, p=probability)]


def relative_evidence(path, exact, replicates, particles, **settings):
    estimates = [
        pymc_arm.run(path, np.random.default_rng(seed), particles, **settings).log_evidence
        for seed in range(replicates)
    ]
    return np.exp(np.array(estimates) - exact)


@pytest.mark.statistical
@pytest.mark.parametrize("lookahead", [None, "data", "mean-field"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_matches_enumeration(machine, data, variant, lookahead):
    path = RBMPath(machine, data=data, lookahead=lookahead, reseed_transitions=50, threads=1)
    ratios = relative_evidence(
        path, machine.exact_log_evidence(), 24, 300, variant=variant, threshold=0.9
    )
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    # The stopping rule of the generate loop is worth up to one per cent at this R.
    slack = 0.0 if variant == "rm" else 0.01
    assert abs(ratios.mean() - 1) < 4.4 * error + slack
    assert ratios.std() < 0.3


@pytest.mark.statistical
@pytest.mark.parametrize("order", ["given", "random", "active", np.arange(9)[::-1]])
def test_every_order_gives_the_same_evidence(machine, data, order):
    path = RBMPath(machine, data=data, order=order, random_seed=5, threads=1)
    ratios = relative_evidence(path, machine.exact_log_evidence(), 24, 300)
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1) < 4.4 * error + 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("lookahead", [None, "data", "mean-field"])
def test_hidden_units_may_come_in_instead(machine, data, lookahead):
    path = RBMPath(machine, layer="hidden", data=data, lookahead=lookahead, threads=1)
    assert path.length == 5
    ratios = relative_evidence(path, machine.exact_log_evidence(), 24, 300, variant="rm")
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(len(ratios))


def test_strength_scales_the_base_rates(machine, data):
    half, given = (
        RBMPath(machine, data=data, threads=1, **options)
        for options in (
            {"lookahead": "data", "strength": 0.5},
            {"lookahead": 0.5 * data.mean(axis=0), "strength": 0.1},
        )
    )
    first, second = (
        pymc_arm.run(path, np.random.default_rng(1), 50).log_evidence for path in (half, given)
    )
    assert first == second


@pytest.mark.statistical
@pytest.mark.parametrize("lookahead", [None, "data"])
def test_adaptive_resampling_without_rounds_is_unbiased(machine, data, lookahead):
    """The defaults of ``rbm``; 4.4 standard errors, one false alarm in about 10^4."""
    path = RBMPath(machine, data=data, lookahead=lookahead, gibbs_steps=1, threads=1)
    settings = {"variant": "arm", "threshold": 0.97, "max_rounds": 0}
    ratios = relative_evidence(path, machine.exact_log_evidence(), 400, 20, **settings)
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(400)


@pytest.mark.statistical
@pytest.mark.parametrize("lookahead", [None, "data"])
def test_resample_move_is_unbiased_with_few_particles(machine, data, lookahead):
    path = RBMPath(machine, data=data, lookahead=lookahead, gibbs_steps=1, threads=1)
    ratios = relative_evidence(path, machine.exact_log_evidence(), 300, 5, variant="rm")
    assert abs(ratios.mean() - 1) < 4.4 * ratios.std(ddof=1) / np.sqrt(len(ratios))


@pytest.mark.statistical
@pytest.mark.parametrize("layer", ["visible", "hidden"])
def test_posterior_has_the_means_of_the_machine_in_the_order_of_its_rows(machine, layer):
    states = ((np.arange(2**9)[:, None] >> np.arange(9)) & 1).astype(np.uint8)
    probability = np.exp(machine.log_density(states) - machine.exact_log_evidence())
    path = RBMPath(machine, layer=layer, order="random", random_seed=1, name="bits")
    rng = np.random.default_rng(0)
    result = pymc_arm.run(path, rng, 4000, variant="rm")
    bits = path.posterior(rng, result.state.particles)["bits"]
    assert bits.dtype == np.uint8
    assert bits.shape == (4000, 9)
    weights = np.exp(result.state.log_weights)
    means = probability @ states
    # Particles are correlated: three times the error of independent ones.
    error = 3 * np.sqrt(means * (1 - means) * (weights**2).sum())
    np.testing.assert_array_less(np.abs(weights @ bits - means), 4.4 * error)


def test_the_first_distribution_is_exact(machine):
    for rates in (None, np.full(9, 0.4)):
        path = RBMPath(machine, lookahead=rates)
        particles, log_evidence = path.initialize(np.random.default_rng(0), 10)
        mu = np.zeros(9) if rates is None else rates
        bias = machine.b + mu[1:] @ machine.W[1:]
        entropy = -(mu * np.log(mu + 1e-300) + (1 - mu) * np.log(1 - mu))
        constant = (mu * machine.a + entropy)[1:].sum()
        terms = [machine.a[0] * x + np.logaddexp(0, bias + machine.W[0] * x).sum() for x in (0, 1)]
        np.testing.assert_allclose(log_evidence, constant + np.logaddexp(*terms))
        assert path.count(particles) == 10


def test_smooth_and_augment_follow_the_equation(machine):
    path = RBMPath(machine)
    rng = np.random.default_rng(1)
    particles, _ = path.initialize(rng, 200)
    for n in range(2, 10):
        log_ratio, log_odds = path.smooth(rng, n, particles)
        before = machine.W[: n - 1].T @ particles.bits.T + machine.b[:, None]
        joined = before + machine.W[n - 1][:, None]
        on = machine.a[n - 1] + (np.logaddexp(0, joined) - np.logaddexp(0, before)).sum(axis=0)
        np.testing.assert_allclose(log_ratio, np.logaddexp(0, on), atol=1e-5)
        np.testing.assert_allclose(log_odds, on, atol=1e-5)
        particles, correction = path.augment(rng, n, particles, log_odds)
        assert correction == 0
        exact = particles.bits @ machine.W[:n] + machine.b
        np.testing.assert_allclose(particles.activations, exact, atol=1e-5)


def test_a_look_ahead_at_the_truth_makes_every_weight_equal():
    machine = Machine(np.zeros((7, 3)), np.linspace(-1, 1, 7), np.ones(3))
    path = RBMPath(machine, lookahead="mean-field", strength=1.0)
    result = pymc_arm.run(path, np.random.default_rng(0), 50)
    np.testing.assert_allclose(result.log_evidence, machine.exact_log_evidence(), atol=1e-6)
    np.testing.assert_allclose([info.log_increment for info in result.history], 0, atol=1e-6)


def test_one_visible_unit_needs_no_step():
    machine = Machine([[1.0, 2.0]], [0.5], [0.1, 0.2])
    result = pymc_arm.run(RBMPath(machine), np.random.default_rng(0), 10)
    np.testing.assert_allclose(result.log_evidence, machine.exact_log_evidence())


def test_describe_names_the_row_of_the_weights(machine):
    path = RBMPath(machine, order=[8, 7, 6, 5, 4, 3, 2, 1, 0], name="pixel")
    assert path.describe(1) == "pixel[8]"


def test_reseeding_warns_when_chains_from_data_do_not_mix():
    # Two copies of one strong mode far apart: a chain never leaves the one it starts in.
    weights = np.full((20, 2), 4.0)
    machine = Machine(weights, np.full(20, -4.0), np.full(2, -38.0))
    path = RBMPath(machine, data=np.ones((10, 20)), reseed_transitions=20)
    with pytest.warns(pymc_arm.TrustWarning, match="have not mixed"):
        path.reseed(np.random.default_rng(0), 20, 100)


def test_reseeding_a_machine_that_mixes_is_silent(machine, data):
    path = RBMPath(machine, data=data, reseed_transitions=200)
    particles = path.reseed(np.random.default_rng(0), 9, 300)
    assert particles.bits.shape == (300, 9)


def test_reseeding_needs_data(machine):
    with pytest.raises(ValueError, match="give data"):
        RBMPath(machine).reseed(np.random.default_rng(0), 3, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "alphabetical"}, "order='alphabetical'"),
        ({"order": "active"}, "give data"),
        ({"order": [0, 0, 1]}, "each of the indices 0 to 8"),
        ({"lookahead": "data"}, "give data"),
        ({"lookahead": "oracle"}, "lookahead='oracle'"),
        ({"lookahead": [0.5]}, "each of the 9 units"),
        ({"lookahead": np.full(9, 1.5)}, "between 0 and 1"),
        ({"lookahead": "mean-field", "strength": 2.0}, "strength=2.0 must be between"),
        ({"layer": "third"}, "layer='third'"),
        ({"gibbs_steps": 0}, "gibbs_steps=0"),
        ({"reseed_transitions": 1.5}, "reseed_transitions=1.5"),
        ({"threads": 0}, "threads=0"),
        ({"data": np.full((3, 9), 0.5)}, r"data\[0, 0\] is 0.5"),
        ({"data": np.ones((3, 8))}, r"data has shape \(3, 8\)"),
    ],
)
def test_bad_options_are_named(machine, options, message):
    with pytest.raises(ValueError, match=message):
        RBMPath(machine, **options)
