"""AIS for Boltzmann machines and plain SMC, against enumeration."""

import numpy as np
import pytest

from benchmarks.baselines import RBMAnnealing, ais, moment_averages, particles_for, smc
from benchmarks.baselines.boltzmann import exact_draws
from pymc_arm.families.rbm import Machine, RBMPath
from pymc_arm.testing import GaussianChain


@pytest.mark.statistical
@pytest.mark.parametrize("knots", [0, 4])
@pytest.mark.parametrize("schedule", ["linear", "adaptive"])
def test_annealing_is_right_in_both_directions(small_machine, knots, schedule, errors_off):
    between = (
        moment_averages(
            small_machine, knots=knots, chains=300, transitions=100, updates=100, random_seed=1
        )
        if knots
        else ()
    )
    exact = small_machine.exact_log_evidence()
    result = ais(
        RBMAnnealing(small_machine, knots=between),
        300,
        temperatures=60,
        schedule=schedule,
        direction="both",
        random_seed=3,
        progressbar=False,
    )
    assert abs(errors_off(result, exact)) < 4
    error = result.attrs["reverse_log_marginal_likelihood_se"]
    assert abs(result.attrs["reverse_log_marginal_likelihood"] - exact) < 4 * error
    assert error < 0.05


def test_base_rates_come_from_data(small_machine, errors_off):
    data = exact_draws(small_machine, np.random.default_rng(1), 500)
    road = RBMAnnealing(small_machine, data=data)
    assert abs(road.base_rates - data.mean(axis=0)).max() < 0.01
    result = ais(road, 300, temperatures=60, schedule="linear", random_seed=2, progressbar=False)
    assert abs(errors_off(result, small_machine.exact_log_evidence())) < 4
    draws = result.posterior["x"].values.reshape(-1, 12)
    error = np.sqrt(0.25 / len(draws) + 0.25 / len(data))
    assert (np.abs(draws.mean(axis=0) - data.mean(axis=0)) < 5 * error).all()


def test_log_ratios_are_those_of_the_interpolated_machines(small_machine):
    rng = np.random.default_rng(4)
    middle = Machine(rng.normal(size=(12, 6)), rng.normal(size=12), rng.normal(size=6))
    road = RBMAnnealing(small_machine, knots=[middle])

    def log_density(bits, beta):
        low, high = (road._machines[0], middle) if beta <= 0.5 else (middle, small_machine)
        share = 2 * beta if beta <= 0.5 else 2 * beta - 1
        parts = [(1 - share) * getattr(low, part) + share * getattr(high, part) for part in "Wab"]
        return Machine(*parts).log_density(bits)

    units, _ = road.draw_base(rng, 20)
    for old, new in ((0.0, 0.3), (0.3, 0.301), (0.301, 0.5), (0.5, 0.9), (0.9, 1.0), (1.0, 0.6)):
        ratio, units = road.log_ratio(units, old, new)
        expected = log_density(units.bits, new) - log_density(units.bits, old)
        np.testing.assert_allclose(ratio, expected, atol=2e-5)
    step = 1e-4
    ratio, _ = road.log_ratio(units, 0.6, 0.6 + step)
    np.testing.assert_allclose(road.energy(units, 0.6), ratio / step, rtol=1e-2, atol=0.05)


def test_knots_are_on_the_grid(small_machine):
    road = RBMAnnealing(small_machine, knots=[small_machine, small_machine])
    assert road.on_grid(np.linspace(0, 1, 7)).length == 7
    assert road.on_grid(np.linspace(1, 0, 6)).length == 8


def test_averaged_moments_are_reached():
    machine = Machine([[1.5, -1.0], [1.0, 2.0], [-1.0, 1.0]], [0.2, -0.5, 0.1], [0.3, -0.2])
    (middle,) = moment_averages(
        machine, knots=1, chains=4000, transitions=1000, updates=2000, rate=0.5, random_seed=1
    )

    def visible_means(machine):
        states = (np.arange(8)[:, None] >> np.arange(3)) & 1
        weights = np.exp(machine.log_density(states) - machine.exact_log_evidence())
        return weights @ states

    wanted = 0.5 * 0.5 + 0.5 * visible_means(machine)
    np.testing.assert_allclose(visible_means(middle), wanted, atol=0.02)


def test_reverse_refuses_machines_it_cannot_draw_from():
    road = RBMAnnealing(Machine(np.zeros((25, 25))))
    with pytest.raises(Exception, match="target_draws"):
        ais(road, 10, direction="reverse", schedule="linear", progressbar=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gibbs_steps": 0}, "gibbs_steps=0"),
        ({"base_rates": np.zeros(12)}, r"base_rates\[0\] is 0.0"),
        ({"base_rates": np.ones(3)}, "base_rates has shape"),
        ({"base_rates": np.full(12, 0.5), "data": np.ones((2, 12))}, "both given"),
        ({"knots": [Machine(np.zeros((2, 2)))]}, r"knots\[0\]"),
    ],
)
def test_wrong_arguments_are_named(small_machine, options, message):
    with pytest.raises(ValueError, match=message):
        RBMAnnealing(small_machine, **options)


def test_smc_without_moves_is_right_and_never_moves(small_machine, errors_off):
    path = RBMPath(small_machine)
    result = smc(path, 2000, random_seed=1, progressbar=False)
    assert abs(errors_off(result, small_machine.exact_log_evidence())) < 4
    assert (result.arm["kernel_calls"].values == 0).all()


def test_smc_of_a_classifier(six, errors_off):
    from pymc_arm.families.gpc import GPCPath

    path = GPCPath(six.covariance, six.labels, mean=six.mean)
    result = smc(path, 2000, random_seed=1, progressbar=False)
    assert abs(errors_off(result, six.log_evidence)) < 4


def test_smc_at_a_budget():
    path = GaussianChain(np.zeros(30))
    assert particles_for(path, 0.2, most=2000) <= 2000
    assert particles_for(path, 1e-9) == 1
    with pytest.raises(ValueError, match="seconds=0"):
        particles_for(path, 0)
    with pytest.raises(ValueError, match="move='always'"):
        smc(path, 10, move="always")
