from collections import namedtuple

import numpy as np
import pytest
from scipy import stats

from pymc_arm import Path, run
from pymc_arm.algorithm.path import join, select
from pymc_arm.testing import GaussianChain, IsingGrid, TiltedNormals

Pair = namedtuple("Pair", ["first", "second"])


def trees():
    array = np.arange(8.0).reshape(4, 2)
    return [array, (array, array[:, 0]), {"a": array, "b": (array,)}, Pair(array, array + 1)]


@pytest.mark.parametrize("tree", trees(), ids=["array", "tuple", "dict", "namedtuple"])
def test_select_and_join_undo_each_other(tree):
    parts = [select(tree, np.array([0, 1])), select(tree, np.array([2, 3]))]
    whole = join(parts)
    assert type(whole) is type(tree)
    assert repr(whole) == repr(tree)
    assert TiltedNormals([0.0]).count(tree) == 4


def test_nothing_stays_nothing():
    assert select(None, np.array([0])) is None
    assert join([None, None]) is None


def test_particles_may_be_any_tree():
    class AsDict(TiltedNormals):
        def initialize(self, rng, size):
            particles, log_evidence = super().initialize(rng, size)
            return {"values": particles}, log_evidence

        def move(self, rng, n, particles):
            moved = super().move(rng, n, particles["values"])
            return moved._replace(particles={"values": moved.particles})

        def smooth(self, rng, n, particles):
            return super().smooth(rng, n, particles["values"])

        def augment(self, rng, n, particles, proposal):
            new, correction = super().augment(rng, n, particles["values"], proposal)
            return {"values": new}, correction

    tilts = [0.5, 1.2]
    plain = run(TiltedNormals(tilts), np.random.default_rng(1), 30)
    nested = run(AsDict(tilts), np.random.default_rng(1), 30)
    assert nested.log_evidence == plain.log_evidence
    np.testing.assert_array_equal(nested.state.particles["values"], plain.state.particles)


def test_a_path_may_choose_its_steps():
    class Halves(TiltedNormals):
        """Positions are strings, and the number of steps is not known beforehand."""

        length = None
        start = "1"

        def __init__(self, tilts):
            super().__init__(tilts)
            self.length = None

        def finished(self, n):
            return n == "111"

        def advance(self, n, particles, log_weights, threshold):
            assert len(particles) == len(log_weights)
            return n + "1"

        def describe(self, n):
            return f"step {len(n)}"

        def smooth(self, rng, n, particles):
            return super().smooth(rng, len(n), particles)

        def augment(self, rng, n, particles, proposal):
            return super().augment(rng, len(n), particles, proposal)

        def move(self, rng, n, particles):
            return super().move(rng, len(n), particles)

    result = run(Halves([0.4, 0.4]), np.random.default_rng(1), 30)
    assert result.positions == ("1", "11", "111")
    assert [info.introduced for info in result.history] == ["step 2", "step 3"]


def test_defaults():
    path = TiltedNormals([0.1, 0.1])
    assert path.start == 1
    assert path.advance(1, None, np.zeros(1), 0.7) == 2
    assert path.describe(2) == "x[2]"
    assert path.finished(3)
    assert not path.finished(2)
    assert path.posterior(np.random.default_rng(1), [[1.0]])["x"].tolist() == [[1.0]]
    with pytest.raises(TypeError):
        Path()


def test_gaussian_chain_evidence_is_a_multivariate_normal():
    data, phi, q, r = np.array([0.3, -1.0, 2.0, 0.4]), 0.8, 1.3, 0.6
    path = GaussianChain(data, persistence=phi, state_variance=q, noise_variance=r)
    transition = np.array(
        [
            [phi ** (row - column) if row >= column else 0.0 for column in range(4)]
            for row in range(4)
        ]
    )
    covariance = q * transition @ transition.T + r * np.eye(4)
    expected = stats.multivariate_normal(np.zeros(4), covariance).logpdf(data)
    assert path.exact_log_evidence == pytest.approx(expected)


def test_ising_chain_evidence_is_that_of_the_transfer_matrix():
    coupling, field, length = 0.7, 0.3, 7
    spins = np.array([-1.0, 1.0])
    transfer = np.exp(coupling * np.outer(spins, spins) + field * spins[None, :])
    total = np.exp(field * spins) @ np.linalg.matrix_power(transfer, length - 1) @ np.ones(2)
    path = IsingGrid(1, length, coupling, field)
    assert path.exact_log_evidence == pytest.approx(np.log(total))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "path",
    [GaussianChain([0.5, -1.0, 2.0]), IsingGrid(2, 2, 0.5, 0.3), TiltedNormals([0.5, 1.0])],
    ids=["gaussian", "ising", "tilted"],
)
def test_moves_leave_exact_draws_invariant(path):
    """Means and second moments, before and after. False alarms: 1e-3 a case."""
    rng = np.random.default_rng(1)
    before = path.reseed(rng, 3, 20_000)
    after = path.move(rng, 3, path.reseed(rng, 3, 20_000)).particles
    for power in (1, 2):
        difference = (before**power).mean(axis=0) - (after**power).mean(axis=0)
        error = np.sqrt(2 * (before**power).var(axis=0) / 20_000) + 1e-12
        assert np.all(np.abs(difference) < 4 * error)
