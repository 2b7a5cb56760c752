"""Time, memory and precision have memory, and numbers that overflow are met before."""

import sys
import time
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_arm
from pymc_arm import Settings, TimeLimitError, TrustWarning
from pymc_arm._compat import get_group
from pymc_arm.running import memory
from pymc_arm.running.memory import available_memory, check_memory, estimate_memory, particle_bytes
from pymc_arm.testing import GaussianChain, TiltedNormals


class Slow(GaussianChain):
    """Chains that take their time: as many seconds a step as their first draw says."""

    def __init__(self, data, seconds):
        super().__init__(data)
        self.seconds = seconds

    def smooth(self, rng, n, particles):
        time.sleep(self.seconds)
        return super().smooth(rng, n, particles)


def sample(path, **options):
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progressbar": False, **options}
    return pymc_arm.sample_path(path, **options)


def test_a_run_that_is_done_in_time_is_complete():
    tree = sample(GaussianChain([0.1, 0.2]), time_limit=60)
    assert tree.attrs["ended_by"] == "chains"
    assert tree.attrs["complete"] == 1
    assert tree.attrs["time_limit"] == 60


def test_the_time_limit_leaves_unfinished_chains_out():
    path = Slow([0.1] * 4, 0.1)
    with pytest.warns(TrustWarning, match=r"The time_limit ended the run with [12] of 8 chains"):
        tree = sample(path, chains=8, cores=1, time_limit=0.8)
    assert tree.attrs["ended_by"] == "time_limit"
    assert tree.attrs["complete"] == 0
    assert tree.attrs["chains"] == len(get_group(tree, "posterior")["chain"])
    assert tree.attrs["chains_started"] == 8
    whole = sample(GaussianChain([0.1] * 4), chains=8)
    name, chains = "explore_log_marginal_likelihood", tree.attrs["chains"]
    found, expected = (get_group(one, "sample_stats")[name].values for one in (tree, whole))
    np.testing.assert_array_equal(found, expected[:chains])


def test_no_chain_in_time_is_an_error_that_can_be_resumed(tmp_path):
    path = Slow([0.1] * 4, 0.1)
    with pytest.raises(TimeLimitError, match=r"time_limit=0.1 s .* before any chain did. Give it"):
        sample(path, cores=1, time_limit=0.1)
    checkpoint = pymc_arm.Checkpoint(tmp_path, 0.0)
    with pytest.raises(TimeLimitError, match="resume=True"):
        sample(path, cores=1, time_limit=0.1, checkpoint=checkpoint)
    resumed = sample(path, checkpoint=checkpoint, resume=True)
    whole = sample(GaussianChain([0.1] * 4))
    names = "log_marginal_likelihood"
    assert resumed.attrs[names] == whole.attrs[names]


def test_chains_are_added_until_the_error_is_small_enough():
    path = TiltedNormals([0.8, 0.8])
    few = sample(path, refine=False)
    assert few.attrs["log_marginal_likelihood_se"] > 0.05
    many = sample(path, refine=False, target_se=0.03)
    assert many.attrs["log_marginal_likelihood_se"] <= 0.03
    assert many.attrs["ended_by"] == "target_se"
    assert many.attrs["complete"] == 1
    chains = many.attrs["chains"]
    assert chains > 4
    assert many.attrs["chains_started"] == chains
    error = many.attrs["log_marginal_likelihood"] - path.exact_log_evidence
    assert abs(error) < 5 * many.attrs["log_marginal_likelihood_se"]
    name = "explore_log_marginal_likelihood"
    found, expected = (get_group(one, "sample_stats")[name].values for one in (many, few))
    np.testing.assert_array_equal(found[:2], expected)


def test_a_target_is_reached_with_the_same_chains_on_any_number_of_cores():
    path = TiltedNormals([0.8, 0.8])
    one, two = (sample(path, refine=False, target_se=0.03, cores=cores) for cores in (1, 3))
    assert one.attrs["chains"] == two.attrs["chains"] > 2
    assert one.attrs["log_marginal_likelihood"] == two.attrs["log_marginal_likelihood"]


def test_a_target_that_is_met_adds_nothing():
    tree = sample(GaussianChain([0.1, 0.2]), target_se=10.0)
    assert (tree.attrs["chains"], tree.attrs["ended_by"]) == (2, "target_se")


def test_a_target_out_of_reach_ends_with_the_time(monkeypatch):
    monkeypatch.setattr(pymc_arm.running.run, "LARGEST_CHAINS", 10**6)
    with pytest.warns(TrustWarning, match=r"The standard error is .*, not 0.001"):
        tree = sample(
            TiltedNormals([0.8, 0.8]), refine=False, target_se=0.001, time_limit=1.0, cores=1
        )
    assert tree.attrs["ended_by"] == "time_limit"
    assert tree.attrs["complete"] == 0


def test_a_target_out_of_reach_ends_with_the_largest_number_of_chains(monkeypatch):
    monkeypatch.setattr(pymc_arm.running.run, "LARGEST_CHAINS", 10)
    with pytest.warns(TrustWarning, match=r"The standard error is .*, not 0.001"):
        tree = sample(TiltedNormals([0.8, 0.8]), refine=False, target_se=0.001)
    assert tree.attrs["ended_by"] == "largest number of chains"
    assert tree.attrs["chains"] <= 10


def test_memory_is_estimated_before_it_is_used(monkeypatch):
    path = GaussianChain([0.1] * 100)
    assert particle_bytes(path) == 800
    settings = Settings(max_rounds=3)
    estimate = estimate_memory(path, 1000, settings, 2)
    assert estimate == 2 * 1000 * 800 * 8
    monkeypatch.setattr(memory, "available_memory", lambda: estimate)
    check_memory(path, 1000, settings, 2)
    with pytest.raises(MemoryError, match=r"draws=2000 .* 800 bytes .* Use draws=1,000 or fewer"):
        check_memory(path, 2000, settings, 2)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    check_memory(path, 10**12, settings, 2)


def test_a_run_that_cannot_fit_is_refused_before_sampling():
    assert available_memory() is None or available_memory() > 0
    with pytest.raises(MemoryError, match=r"draws=1000000000000 .* GiB are free"):
        sample(GaussianChain([0.1] * 10), draws=10**12)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are read where Linux has them")
def test_limits_of_the_process_and_of_its_group_count(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (used + 10**8, resource.RLIM_INFINITY))
    assert available_memory() <= 1.1e8
    monkeypatch.undo()
    group = tmp_path / "batch" / "job"
    group.mkdir(parents=True)
    (tmp_path / "batch" / "memory.max").write_text("5000000\n")
    (tmp_path / "batch" / "memory.current").write_text("4000000\n")
    (tmp_path / "batch" / "memory.stat").write_text("anon 1\ninactive_file 500000\n")
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("1000\n")
    lines = memory._lines
    monkeypatch.setattr(
        memory,
        "_lines",
        lambda file: ["0::/batch/job"] if file == "/proc/self/cgroup" else lines(file),
    )
    assert memory._of_groups(str(tmp_path)) == [1_500_000]


def log_z(model, draws=200, **options):
    options = {"random_seed": 1, "progressbar": False, "chains": 2, **options}
    return pymc_arm.sample(model, draws=draws, **options).attrs


@pytest.mark.parametrize("refine", [False, "auto"])
def test_likelihood_of_zero_on_part_of_the_prior(refine):
    """The density jumps to zero at its peak. False alarms: 6e-5 (4 s.e., never below 1e-3)."""
    with pm.Model() as model:
        width = pm.Uniform("width", 0, 10)
        pm.Uniform("y", 0, width, observed=[4.0, 2.0])
    found = log_z(model, refine=refine)
    error = found["log_marginal_likelihood"] - np.log((1 / 4 - 1 / 10) / 10)
    assert abs(error) < 4 * max(found["log_marginal_likelihood_se"], 1e-3)
    assert abs(error) < 0.05


@pytest.mark.parametrize("shift", [-1e10, 1e10])
def test_potentials_that_over_and_underflow(shift):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("far", shift + 0 * x)
        pm.Normal("y", x, 1, observed=0.5)
    exact = shift - 0.5 * np.log(4 * np.pi) - 0.25**2
    assert np.isclose(log_z(model)["log_marginal_likelihood"], exact, rtol=1e-6, atol=0.1)


def test_gradients_that_are_not_numbers():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", pm.math.sqrt(pm.math.abs(x)) * 0 + x, 1, observed=[0.0, 0.5])
    exact = -np.log(4 * np.pi) - 0.25**2
    assert np.isclose(log_z(model)["log_marginal_likelihood"], exact, atol=0.05)


@pytest.mark.filterwarnings("ignore::pymc_arm.TrustWarning")
def test_a_singular_cloud_of_particles():
    """Two coordinates that the data ties together: pm.sample_smc fails on their covariance."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Potential("tie", -0.5 * ((x[0] - x[1]) / 1e-6) ** 2)
    found = log_z(model)
    exact = -0.5 * np.log(2 / 1e-12 + 1)
    assert found["verdict"] != "ok" or abs(found["log_marginal_likelihood"] - exact) < 0.5


@pytest.mark.parametrize("size", [0, 1])
def test_data_of_length_zero_and_one(size):
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1, observed=np.full(size, 0.5))
    exact = 0.0 if not size else -0.5 * np.log(4 * np.pi) - 0.25**2
    assert np.isclose(log_z(model)["log_marginal_likelihood"], exact, atol=0.02)


def test_discrete_variables_that_never_move():
    with pm.Model() as model:
        label = pm.Bernoulli("label", 1.0 - 1e-12)
        pm.Normal("y", label, 1, observed=[0.3, 0.8])
    exact = -np.log(2 * np.pi) - 0.5 * (0.7**2 + 0.2**2)
    assert np.isclose(log_z(model)["log_marginal_likelihood"], exact, atol=0.01)


def test_single_precision():
    """The data are exact in it, and the density is summed in double precision."""
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            x = pm.Normal("x", 0, 1, shape=2)
            label = pm.Bernoulli("label", 0.5)
            pm.Normal("y", x + 0 * label, 1, observed=np.array([0.0, 0.5], dtype="float32"))
        tree = pymc_arm.sample(model, draws=200, chains=2, random_seed=1, progressbar=False)
    assert get_group(tree, "posterior")["x"].dtype == np.float32
    exact = -np.log(4 * np.pi) - 0.25**2
    assert np.isclose(tree.attrs["log_marginal_likelihood"], exact, atol=0.05)
