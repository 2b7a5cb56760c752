import numpy as np
import pytest
from scipy.special import expit, logsumexp

import pymc_arm
from pymc_arm.algorithm.arm import run
from pymc_arm.families.rbm import Machine, tempered_path
from pymc_arm.families.rbm.fantasies import CHAINS, Fantasies, own_rates
from pymc_arm.families.rbm.tempered import TEMPERED_SETTINGS, Temperature, TemperedRBMPath
from pymc_arm.families.rbm.threads import TilePool

pytestmark = pytest.mark.one_version


@pytest.fixture(scope="module")
def machine():
    rng = np.random.default_rng(4)
    return Machine(rng.normal(0, 0.7, (12, 5)), rng.normal(0, 1, 12), rng.normal(0, 1, 5))


@pytest.fixture(scope="module")
def states(machine):
    """All visible states, and their probabilities."""
    bits = ((np.arange(2**12)[:, None] >> np.arange(12)) & 1).astype(np.uint8)
    return bits, np.exp(machine.log_density(bits) - machine.exact_log_evidence())


@pytest.mark.statistical
def test_own_rates_are_those_of_the_machine(machine, states):
    bits, probabilities = states
    start = np.zeros((10, 12), dtype=np.uint8)
    found = own_rates(machine, start, np.random.default_rng(1), TilePool(1))
    visible = probabilities @ bits
    hidden = probabilities @ expit(bits @ machine.W + machine.b)
    # As if the states of a chain were one draw: one failure in a thousand, of 17 rates.
    error = 4.2 * np.sqrt(visible * (1 - visible) / CHAINS)
    assert (np.abs(found.visible - visible) < error + 1 / CHAINS).all()
    assert (np.abs(found.hidden - hidden) < 4.2 * 0.5 / np.sqrt(CHAINS)).all()


def test_chains_go_on_in_place_and_hidden_rates_are_given_the_bits(machine):
    chains = Fantasies(machine, np.zeros((20, 12)), TilePool(1))
    same = chains.go_on(np.random.default_rng(2), 3)
    assert same is chains
    assert chains.bits.any()
    exact = expit(chains.bits @ machine.W + machine.b).mean(axis=0)
    np.testing.assert_allclose(chains.hidden_rates, exact, atol=1e-5)


@pytest.mark.statistical
def test_runs_back_from_exact_draws_estimate_one_over_z(machine, states):
    bits, probabilities = states
    rng = np.random.default_rng(3)
    path = tempered_path(machine, threads=1)
    forwards = run(path, rng, 200, **TEMPERED_SETTINGS)
    starts = bits[rng.choice(len(bits), size=2000, p=probabilities)]
    seed = int(forwards.state.particles.seeds[0])
    log_weights = path.run_back(rng, starts, seed, forwards.positions)
    ratios = np.exp(machine.exact_log_evidence() - log_weights)
    # One failure in a thousand.
    assert abs(ratios.mean() - 1) < 3.3 * ratios.std() / np.sqrt(len(ratios))
    assert logsumexp(log_weights) - np.log(len(starts)) > machine.exact_log_evidence()


class Hasty(TemperedRBMPath):
    """A path whose chains are taken for ones that jumped to the machine in a single step."""

    def search(self, particles, positions, evidence):
        return super().search(particles, [Temperature(1.0)], evidence)


def test_what_particles_have_not_seen_reaches_the_verdict():
    rng = np.random.default_rng(6)
    machine = Machine(rng.normal(0, 1, (60, 20)), rng.normal(-1, 1, 60), rng.normal(0, 1, 20))
    sound = tempered_path(machine, threads=1)
    path = Hasty(machine, sound._base, sound.modes, sound.data_bias_strength, threads=1)
    with pytest.warns(pymc_arm.TrustWarning, match="Runs back to the start show"):
        found = pymc_arm.sample_path(path, draws=100, random_seed=1, progressbar=False).attrs
    assert found["verdict"] == "caution"
    assert found["unseen_share"] > 0.05
