from dataclasses import replace

import numpy as np
import pytest

from pymc_arm import Moved, Settings, Smoothed, ZeroEvidenceWarning, run
from pymc_arm.algorithm.arm import initialize
from pymc_arm.algorithm.resampling import normalize
from pymc_arm.running.backends import Request, run_chains
from pymc_arm.running.chains import Task, equally_weighted, spawn_generators
from pymc_arm.running.pilot import pilot
from pymc_arm.running.placement import Placement
from pymc_arm.testing import GaussianChain, TiltedNormals

PATH = GaussianChain([0.5, -1.0, 2.0, 0.1])
# gamma = exp(-a^2) tends to the default threshold, 0.7: the worst case of the stopping rule.
TILT_AT_THRESHOLD = float(np.sqrt(-np.log(0.7)))


def test_the_number_of_cores_does_not_change_the_result():
    one, two = (
        run_chains(Request(PATH, Task(50, Settings()), spawn_generators(1, 3)[:3]), cores=cores)
        for cores in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        assert first.log_evidence == second.log_evidence
        np.testing.assert_array_equal(first.draws["x"], second.draws["x"])
    assert len({chain.log_evidence for chain in one}) == 3


def test_a_path_with_its_own_threads_runs_one_chain_after_another():
    class Alone(GaussianChain):
        placement = Placement.SERIAL
        running = 0

        def initialize(self, rng, size):
            self.running += 1
            assert self.running == 1
            return super().initialize(rng, size)

        def posterior(self, rng, particles):
            self.running -= 1
            return super().posterior(rng, particles)

    task = Task(20, Settings())
    request = Request(Alone([0.1, 0.2]), task, spawn_generators(1, 3))
    assert len(run_chains(request, cores=3)) == 4


def test_generators_are_one_a_chain_and_one_more():
    first = [rng.random() for rng in spawn_generators(1, 2)]
    assert len(first) == 3
    assert first == [rng.random() for rng in spawn_generators(1, 2)]
    assert first[:2] == [rng.random() for rng in spawn_generators(1, 1)]
    assert len(spawn_generators(np.random.default_rng(1), 2)) == 3
    assert len(spawn_generators([1, 2], 2)) == 3
    assert spawn_generators(None, 1)[0].random() != spawn_generators(None, 1)[0].random()


@pytest.mark.statistical
@pytest.mark.parametrize("resample_threshold", [0.0, 1.0])
def test_draws_are_equally_weighted(resample_threshold):
    """The tilted mean comes out. False alarms: 6e-5 a coordinate (4 s.e. of 2000 draws)."""
    path, size = TiltedNormals([0.8, 0.5]), 2000
    settings = Settings(resample_threshold=resample_threshold)
    rng = np.random.default_rng(1)
    state = run(path, rng, size, **vars(settings)).state
    draws, families, _ = equally_weighted(path, rng, state, size, settings)
    assert families.shape == (size,)
    assert draws.shape == (size, 3)
    assert np.all(np.abs(draws.mean(axis=0) - [0.8, 0.5, 0.0]) < 4 / np.sqrt(size))


def test_draws_have_the_size_asked_for():
    rng = np.random.default_rng(1)
    state = run(PATH, rng, 30).state
    assert equally_weighted(PATH, rng, state, 70, Settings())[0].shape == (70, 4)


@pytest.mark.parametrize(("size", "moves"), [(1000, 0), (2000, 1)])
def test_copies_are_moved_apart_only_where_there_are_more_than_a_few(size, moves):
    """The mean comes out. False alarms: 6e-5 (4 s.e. of the weights and of the resampling)."""

    class Counted(GaussianChain):
        calls = 0

        def move(self, rng, n, particles):
            self.calls += 1
            return Moved(particles, 1.0)

    path, rng = Counted([0.5]), np.random.default_rng(3)
    state = initialize(path, rng, 2000)
    # Standard normal draws, weighted to become normal with mean 0.5: 78 % of them are effective.
    particles = rng.normal(size=(2000, 1))
    state = replace(state, particles=particles, log_weights=normalize(0.5 * particles[:, 0]))
    draws, _, _ = equally_weighted(path, rng, state, size, Settings(resampling="systematic"))
    assert path.calls == moves
    if not moves:
        assert len(np.unique(draws)) > 0.95 * size
        error = np.sqrt(1 / 1000 + 1.25 * np.exp(0.25) / 2000)
        assert abs(draws.mean() - 0.5) < 4 * error


def test_a_chain_without_particles_has_no_draws():
    class Impossible(GaussianChain):
        def smooth(self, rng, n, particles):
            return Smoothed(np.full(len(particles), -np.inf))

    with pytest.warns(ZeroEvidenceWarning):
        chains = run_chains(
            Request(Impossible([0.1, 0.2]), Task(10, Settings()), spawn_generators(1, 0))
        )
    assert chains[0].log_evidence == -np.inf
    assert chains[0].draws == {}
    assert chains[0].predicted_variance == np.inf
    with (
        pytest.warns(ZeroEvidenceWarning),
        pytest.raises(ValueError, match="lost all of its particles"),
    ):
        pilot(Impossible([0.1, 0.2]), 10, np.random.default_rng(1), Settings())
