"""A pilot decides, and others repeat its decisions."""

import pickle

import numpy as np
import pytest

from pymc_arm import Settings, run
from pymc_arm.running.memory import particle_bytes
from pymc_arm.running.pilot import Replay, ReplayedPath, pilot
from pymc_arm.running.placement import Placement, placement_of
from pymc_arm.testing import GaussianChain, TiltedNormals
from tests.replicates import deviation

# The tilt at which gamma = exp(-a^2) tends to the default threshold, 0.7.
TILT_AT_THRESHOLD = float(np.sqrt(-np.log(0.7)))


def test_a_pilot_hands_on_its_particles_and_its_positions():
    path = TiltedNormals([0.1, 1.5, 0.1])
    replay, counts = pilot(path, 200, np.random.default_rng(1), Settings())
    assert counts == [200, 600, 200]
    assert [replay.advance(n, None, None, 0.7) for n in (1, 2, 3)] == [2, 3, 4]
    result = run(replay, np.random.default_rng(2), counts=counts, variant="rm")
    assert [info.particles for info in result.history] == counts
    assert replay.path is path


def test_an_optimal_pilot_spends_the_budget_on_the_hard_step():
    path = TiltedNormals([0.1, 1.5, 0.1])
    _, counts = pilot(path, 200, np.random.default_rng(1), Settings(), optimal=True)
    assert sum(counts) <= 600
    assert counts[1] > 450
    _, counts = pilot(path, 200, np.random.default_rng(1), Settings(), optimal=True, budget=60)
    assert sum(counts) <= 60


def test_a_pilot_of_one_distribution():
    path = GaussianChain([0.3])
    for optimal in (False, True):
        replay, counts = pilot(path, 20, np.random.default_rng(1), Settings(), optimal=optimal)
        assert counts == []
        result = run(replay, np.random.default_rng(1), 20, counts=counts, variant="rm")
        assert len(result.state.log_weights) == 20


@pytest.mark.one_version
@pytest.mark.statistical
@pytest.mark.parametrize("optimal", [False, True])
def test_a_run_after_a_pilot_is_unbiased_where_the_stopping_rule_is_not(optimal):
    """Given the pilot, nothing depends on the run itself. False alarms: 6e-5 a case (4 s.e.).

    ARM itself is 10 standard errors too low here (tests/algorithm/test_generators.py).
    """
    path, ratios = TiltedNormals([TILT_AT_THRESHOLD] * 2), []
    for rng in np.random.default_rng(1).spawn(1000):
        replay, counts = pilot(path, 10, rng, Settings(), optimal=optimal)
        log_evidence = run(replay, rng, counts=counts, variant="rm").log_evidence
        ratios.append(np.exp(log_evidence - path.exact_log_evidence))
    assert deviation(np.array(ratios)) < 4


def test_what_others_ask_is_asked_of_the_path_itself():
    path = GaussianChain([0.1, 0.2])
    path.placement = Placement.SERIAL
    replay = ReplayedPath(path, {1: 2})
    assert placement_of(replay) is Placement.SERIAL
    assert particle_bytes(replay) == particle_bytes(path)
    assert replay.spaces(np.zeros((3, 2))) == []
    assert replay.continuous(np.zeros((3, 2))) is None
    again = pickle.loads(pickle.dumps(Replay(lambda_free_path, {1: 2})))()
    assert again.following == {1: 2}


def lambda_free_path():
    return GaussianChain([0.1, 0.2])
