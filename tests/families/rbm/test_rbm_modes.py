"""Modes by mean-field ascents, and machines without data, against enumeration."""

from dataclasses import replace

import numpy as np
import pytest

import pymc_arm
from pymc_arm.estimation.estimate import Evidence
from pymc_arm.families.rbm import Machine, TemperedRBMPath, rbm, tempered_path
from pymc_arm.families.rbm.modes import (
    ascend,
    draw_from,
    join_modes,
    modes_near,
    particle_shares,
    random_hidden,
    search,
    weigh,
)
from tests.replicates import first_with_every_version

UNITS = 60
HIDDEN = (np.arange(8)[:, None] >> np.arange(3)) & 1


@pytest.fixture(scope="module")
def deep():
    """A machine with a mode for each state of three hidden units, many flips apart."""
    rng = np.random.default_rng(0)
    patterns = np.where(rng.random((UNITS, 3)) < [0.3, 0.5, 0.7], 1.0, -1.0)
    weights, biases = 4.0 * patterns, np.full(UNITS, -0.5)
    together = Machine(weights, biases).transposed().log_density(HIDDEN)
    single = together[[1, 2, 4]] - together[0]
    return Machine(weights, biases, np.log([0.5, 0.3, 0.2]) - single)


def exact_shares(machine):
    """Return the shares of the states of the hidden units, largest first."""
    log_density = machine.transposed().log_density(HIDDEN)
    return np.sort(np.exp(log_density - machine.exact_log_evidence()))[::-1]


@pytest.mark.one_version
def test_a_bound_is_a_bound():
    rng = np.random.default_rng(1)
    machine = Machine(rng.normal(0, 1.5, (12, 6)), rng.normal(size=12), rng.normal(size=6))
    modes = ascend(machine, random_hidden(machine, rng, 50))
    assert (modes.bounds <= machine.exact_log_evidence()).all()
    assert (np.diff(modes.bounds) <= 0).all()


@pytest.mark.one_version
def test_independent_units_have_one_mode_and_its_bound_is_exact():
    machine = Machine(np.zeros((5, 3)), np.linspace(-2, 1, 5), np.ones(3))
    modes = ascend(machine, random_hidden(machine, np.random.default_rng(0), 20))
    assert len(modes.bounds) == 1
    np.testing.assert_allclose(modes.bounds[0], machine.exact_log_evidence(), atol=1e-5)


@pytest.mark.one_version
def test_ascents_find_all_modes_and_the_mixture_weighs_them(deep):
    rng = np.random.default_rng(2)
    modes = ascend(deep, random_hidden(deep, rng, 50))
    weighed = weigh(deep, modes, rng)
    error = max(weighed.standard_error, 1e-3)
    assert abs(weighed.log_evidence - deep.exact_log_evidence()) < 4.4 * error
    shares = exact_shares(deep)
    np.testing.assert_allclose(np.sort(weighed.shares)[::-1][:3], shares[:3], atol=0.05)
    assert shares[1] > 0.1
    near = modes_near(deep, draw_from(modes, np.zeros(40, dtype=int), rng), rng)
    assert len(near.bounds) == 1
    assert len(join_modes(modes, near).bounds) == len(modes.bounds)


@pytest.mark.one_version
def test_a_search_reports_modes_without_particles(deep):
    rng = np.random.default_rng(3)
    modes = ascend(deep, random_hidden(deep, rng, 50))
    best = draw_from(modes, np.zeros(300, dtype=int), rng)
    np.testing.assert_allclose(particle_shares(modes, best)[0], 1.0, atol=1e-6)
    exact, share = deep.exact_log_evidence(), exact_shares(deep)[0]
    found = search(deep, modes, best, Evidence(exact + np.log(share), 0.01, 4))
    np.testing.assert_allclose(found["missed_log_mass"], exact + np.log1p(-share), atol=0.1)
    np.testing.assert_allclose(found["missed_expected_share"], 1 - share, atol=0.05)
    assert found["missed_found_share"] < 0.01
    assert "missed_log_mass" not in search(deep, modes, best, Evidence(exact, 0.01, 4))


class Blind(TemperedRBMPath):
    """A path whose last particles all sit in the best mode, with its part of Z."""

    def search(self, particles, positions, evidence):
        bits = draw_from(self.modes, np.zeros(200, dtype=int), np.random.default_rng(0))
        moved = [chain._replace(bits=bits) for chain in particles]
        low = replace(evidence, log_evidence=evidence.log_evidence + np.log(0.5))
        return super().search(moved, positions, low)


def test_missed_modes_reach_the_verdict(deep):
    found = tempered_path(deep, threads=1)
    path = Blind(deep, found._base, found.modes, found.data_bias_strength, threads=1)
    with pytest.warns(pymc_arm.TrustWarning, match="There is a mode"):
        found = pymc_arm.sample_path(path, draws=100, random_seed=1, progressbar=False)
    assert found.attrs["verdict"] == "failed"
    assert found.attrs["modes_found"] >= 3


def clusters(units, hidden_units, seed):
    """Return a machine whose hidden units each stand for a pattern of some visible units."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 1.2, (units, hidden_units)) * (rng.random((units, hidden_units)) < 0.5)
    return Machine(weights, rng.normal(-1, 1, units), rng.normal(-1, 1, hidden_units))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "machine",
    first_with_every_version([clusters(40, 10, 1), clusters(9, 60, 2), clusters(300, 8, 3)]),
    ids=["40 x 10", "more hidden than visible", "300 x 8"],
)
def test_without_data_within_four_standard_errors(machine):
    found = rbm(machine, draws=300, random_seed=1, threads=1, progressbar=False).attrs
    error = found["log_marginal_likelihood"] - machine.exact_log_evidence()
    # At least one per cent: a t distribution with three degrees of freedom has heavy tails.
    assert abs(error) < 4 * max(found["log_marginal_likelihood_se"], 0.01)
    assert found["log_marginal_likelihood_se"] < 0.2
    assert found["verdict"] == "ok"


@pytest.mark.one_version
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_modes_that_no_move_connects_are_found_or_missed_aloud(deep):
    found = rbm(deep, draws=300, random_seed=2, threads=1, progressbar=False).attrs
    error = abs(found["log_marginal_likelihood"] - deep.exact_log_evidence())
    assert error < 4 * max(found["log_marginal_likelihood_se"], 0.01) or found["verdict"] != "ok"


@pytest.mark.one_version
def test_the_path_of_a_machine_does_not_depend_on_seeds_or_threads():
    machine = clusters(20, 6, 4)
    first, second = (tempered_path(machine, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(first._base.visible, second._base.visible)
    np.testing.assert_array_equal(first.modes.rates, second.modes.rates)
    assert first.data_bias_strength == second.data_bias_strength


def test_weights_may_be_sparse():
    from scipy import sparse

    weights = clusters(12, 5, 5).W
    np.testing.assert_array_equal(Machine(sparse.csr_matrix(weights)).W, weights)
