"""A run that is killed goes on to the same bits, and only with what it began with."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm import ArmWarning, Checkpoint, CheckpointError, Settings
from pymc_arm._compat import get_group
from pymc_arm.running.chains import Chain, Task, Unfinished, run_chain
from pymc_arm.running.checkpoint.encoding import (
    decode_generator,
    encode_generator,
    encode_unfinished,
)
from pymc_arm.running.checkpoint.journal import Journal
from pymc_arm.testing import GaussianChain

OBSERVATIONS = [0.5, -1.0, 2.0, 0.1, 0.3]
PATH = GaussianChain(OBSERVATIONS)
TASK = Task(40, Settings())


def sample(directory, path=PATH, **options):
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progressbar": False, **options}
    checkpoint = Checkpoint(directory, seconds=0.0)
    return pymc_arm.sample_path(path, checkpoint=checkpoint, **options)


def assert_same(first, second):
    for group in ("posterior", "sample_stats", "arm"):
        one, two = (
            get_group(tree, group).drop_vars("sampling_time", errors="ignore")
            for tree in (first, second)
        )
        assert one.equals(two)


def stopped_after(steps, journal=None, number=0, seed=1):
    """Run a chain for some steps, as if it were killed then."""
    task = Task(40, Settings(), journal=journal)
    stop = lambda so_far: len(so_far.history) < steps  # noqa: E731
    return run_chain(PATH, task, number, np.random.default_rng(seed), stop)


@pytest.mark.parametrize(
    "kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox]
)
def test_a_generator_and_its_children_survive(kind):
    rng = np.random.Generator(kind(7))
    rng.normal(size=3), rng.spawn(2), rng.integers(10, dtype=np.uint32)
    copy = decode_generator(json.loads(json.dumps(encode_generator(rng))))
    assert copy.integers(10, dtype=np.uint32) == rng.integers(10, dtype=np.uint32)
    np.testing.assert_array_equal(copy.normal(size=9), rng.normal(size=9))
    assert copy.spawn(1)[0].random() == rng.spawn(1)[0].random()


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_chain_continues_from_any_step(tmp_path, steps):
    journal = Journal(str(tmp_path), 0.0)
    whole = run_chain(PATH, TASK, 0, np.random.default_rng(1))
    stopped_after(steps, journal)
    found = journal.load(0, PATH)
    assert isinstance(found, Unfinished)
    assert found.state.step == steps
    rest = run_chain(PATH, Task(40, Settings(), journal=journal), 0, np.random.default_rng(99))
    for one in (rest, journal.load(0, PATH)):
        assert isinstance(one, Chain)
        assert repr(one.run.history) == repr(whole.run.history)
        assert one.run.positions == whole.run.positions
        np.testing.assert_array_equal(one.draws["x"], whole.draws["x"])
        np.testing.assert_array_equal(one.particles, whole.particles)
    assert [file.name for file in tmp_path.iterdir()] == ["chain-00000-end.npz"]


def test_two_states_are_kept(tmp_path):
    stopped_after(4, Journal(str(tmp_path), 0.0))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["chain-00000-step-0000003.npz", "chain-00000-step-0000004.npz"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "not an archive"])
def test_a_damaged_file_is_noticed_and_the_one_before_used(tmp_path, damage):
    journal = Journal(str(tmp_path), 0.0)
    stopped_after(4, journal)
    file = tmp_path / "chain-00000-step-0000004.npz"
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    changed = {"truncated": content[:-100], "empty": b"", "not an archive": b"x" * 50}
    file.write_bytes(changed.get(damage, content))
    with pytest.warns(ArmWarning, match=r"step-0000004.npz of the checkpoint is damaged.*before"):
        found = journal.load(0, PATH)
    assert isinstance(found, Unfinished)
    assert found.state.step == 3


def test_files_with_pickles_are_not_loaded(tmp_path):
    journal = Journal(str(tmp_path), 0.0)
    evil = np.array([print], dtype=object)
    np.savez(tmp_path / "chain-00000-end.npz", checksum=evil, header=evil)
    with pytest.warns(ArmWarning, match="damaged"):
        assert journal.load(0, PATH) is None


@pytest.mark.parametrize("allocation", ["adaptive", "pilot"])
def test_resume_gives_the_result_of_the_whole_run(tmp_path, allocation):
    whole = pymc_arm.sample_path(
        PATH, 60, chains=2, random_seed=1, progressbar=False, allocation=allocation
    )
    first = sample(tmp_path, allocation=allocation)
    again = sample(tmp_path, allocation=allocation, resume=True)
    assert_same(whole, first)
    assert_same(whole, again)


def test_resume_of_nothing_begins(tmp_path):
    assert_same(sample(tmp_path / "new" / "place", resume=True), sample(tmp_path / "other"))


def test_a_run_without_a_seed_keeps_the_one_it_drew(tmp_path):
    first = sample(tmp_path, random_seed=None)
    assert_same(first, sample(tmp_path, random_seed=None, resume=True))
    assert_same(first, sample(tmp_path, random_seed=None, resume=True))


def test_a_directory_in_use_is_not_overwritten(tmp_path):
    sample(tmp_path)
    with pytest.raises(CheckpointError, match=r"already holds a run.*resume=True"):
        sample(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 61}, r"draws \(60 there, 61 here\)"),
        ({"chains": 3}, r"chains \(2 there, 3 here\)"),
        ({"random_seed": 2}, "random_seed"),
        ({"threshold": 0.5}, r"threshold \(0.7 there, 0.5 here\)"),
        ({"allocation": "pilot"}, "allocation"),
        ({"path": GaussianChain([0.5, -1.0, 2.0, 0.1, 0.4])}, r"path\.data"),
    ],
)
def test_another_run_is_refused_with_what_differs(tmp_path, options, message):
    sample(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        sample(tmp_path, resume=True, **options)


def test_another_version_is_refused(tmp_path, monkeypatch):
    sample(tmp_path)
    monkeypatch.setattr(pymc_arm.running.run, "versions", lambda: {"pymc_arm": "99.0"})
    with pytest.raises(CheckpointError, match=r"version of pymc_arm \('.*' there, '99.0' here\)"):
        sample(tmp_path, resume=True)


def test_a_damaged_manifest_is_refused(tmp_path):
    sample(tmp_path)
    file = tmp_path / "manifest.json"
    content = file.read_text()
    file.write_text(content.replace('"draws": 60', '"draws": 61'))
    with pytest.raises(CheckpointError, match=r"manifest.json of the checkpoint is damaged"):
        sample(tmp_path, resume=True)
    file.write_text(content[:50])
    with pytest.raises(CheckpointError, match=r"manifest.json of the checkpoint is damaged"):
        sample(tmp_path, resume=True)
    file.write_text(content.replace('"format": 4', '"format": 9'))
    with pytest.raises(CheckpointError, match="format 9; this version reads 4"):
        sample(tmp_path, resume=True)


def test_nothing_is_written_outside_of_the_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sample("inside")
    assert [file.name for file in tmp_path.iterdir()] == ["inside"]
    names = sorted(file.name for file in (tmp_path / "inside").iterdir())
    assert names == ["chain-00000-end.npz", "chain-00001-end.npz", "manifest.json"]


def test_links_out_of_the_directory_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    journal = Journal(str(run), 0.0)
    for name in ("chain-00000-end.npz", f".chain-00000-end.npz.{os.getpid()}"):
        (run / name).symlink_to(outside)
    with pytest.warns(ArmWarning, match="chain-00000-end.npz of the checkpoint is damaged"):
        chain = run_chain(PATH, replace(TASK, journal=journal), 0, np.random.default_rng(1))
    assert outside.read_text() == "mine"
    assert journal.load(0, PATH).log_evidence == chain.log_evidence
    (run / "0-a").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match=r"'0-a' in checkpoint=.* is a link"):
        Checkpoint(run).within("0-a")


def test_numbers_that_no_run_writes_are_refused(tmp_path):
    """The checksum is right: somebody has made the file."""
    journal = Journal(str(tmp_path), 0.0)
    so_far = stopped_after(2, journal)
    wrong = {
        "NaN in particles": {"particles": np.full_like(so_far.state.particles, np.nan)},
        "log_weights that are no": {"log_weights": np.full_like(so_far.state.log_weights, np.nan)},
        "log_weights of shape": {"log_weights": so_far.state.log_weights[:3]},
        "log_evidence=nan": {"log_evidence": np.nan},
    }
    for message, changes in wrong.items():
        for file in tmp_path.iterdir():
            file.unlink()
        journal.save(0, replace(so_far, state=replace(so_far.state, **changes)))
        with pytest.warns(
            ArmWarning, match=f"step-0000002.npz .* no chain of this run .*{message}"
        ):
            assert journal.load(0, PATH) is None


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_disk_that_is_full_does_not_end_a_run(tmp_path, monkeypatch, failing):
    def fail(*args):
        raise OSError(28, "No space left on device")

    def fill(so_far):
        monkeypatch.setattr(*({"write": (os, "fsync"), "rename": (os, "replace")}[failing]), fail)
        return True

    journal = Journal(str(tmp_path), 0.0)
    task = replace(TASK, journal=journal)
    with pytest.warns(ArmWarning, match="Chain 0 can't be written .*No space left") as caught:
        chain = run_chain(PATH, task, 0, np.random.default_rng(1), fill)
    assert len(caught) == 2  # a step, and the end
    whole = run_chain(PATH, TASK, 0, np.random.default_rng(1))
    assert chain.log_evidence == whole.log_evidence
    monkeypatch.undo()
    assert isinstance(journal.load(0, PATH), Unfinished)  # what was written before is there


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file.*can't be written.*Choose a directory"):
        sample(tmp_path / "file" / "run")


def test_particles_that_are_no_arrays_are_refused():
    so_far = stopped_after(1)
    for particles in ([1, 2], np.array([None, None])):
        odd = replace(so_far, state=replace(so_far.state, particles=particles))
        with pytest.raises(TypeError, match=f"type {type(particles).__name__} can't be written"):
            encode_unfinished(odd)


def build(data=(0.3, 1.2, -0.5), scale=1.0):
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.3)
        effect = pm.Normal("effect", 0, 1, shape=3)
        pm.Normal("y", effect + label, scale, observed=np.array(data))
    return model


def test_models_are_told_apart(tmp_path):
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progressbar": False}
    options |= {"checkpoint": Checkpoint(tmp_path, 0.0)}
    first = pymc_arm.sample(build(), **options)
    assert_same(first, pymc_arm.sample(build(), resume=True, **options))
    with pytest.raises(CheckpointError, match="data y, model's log-density"):
        pymc_arm.sample(build((0.3, 1.2, -0.4)), resume=True, **options)
    with pytest.raises(CheckpointError, match="differ: model's log-density"):
        pymc_arm.sample(build(scale=1.1), resume=True, **options)


SCRIPT = """
import signal, sys, time
import pymc_arm
from pymc_arm.running import backends
from pymc_arm.running.placement import Placement
from pymc_arm.testing import GaussianChain

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
backends.SECONDS_BEFORE_FORK = 0.0
class Slow(GaussianChain):
    placement = Placement.PROCESSES
    def smooth(self, rng, n, particles):
        time.sleep(0.05)
        return super().smooth(rng, n, particles)

Slow.__module__ = "script"
options = dict(draws=60, chains=2, cores=2, random_seed=1, progressbar=False, resume=True)
checkpoint = pymc_arm.Checkpoint(sys.argv[1], seconds=0.0)
print("ready", flush=True)
result = pymc_arm.sample_path(Slow([0.1 * k for k in range(40)]), checkpoint=checkpoint, **options)
print(result.attrs["log_marginal_likelihood"].hex(), float(result["posterior"]["x"].sum()).hex())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_resume_after_kill_and_after_interrupt(tmp_path, blow):
    """Hit in the middle, parent only: its workers must notice, and leave no mess."""

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    with start() as process:
        wait_for(lambda: latest_step(tmp_path) >= 10)
        os.kill(process.pid, blow)
    assert latest_step(tmp_path) < 39
    resumed = start().communicate(timeout=60)[0].split()
    path = GaussianChain([0.1 * k for k in range(40)])
    whole = pymc_arm.sample_path(path, 60, chains=2, random_seed=1, progressbar=False)
    draws = float(whole["posterior"]["x"].sum())
    assert resumed == [whole.attrs["log_marginal_likelihood"].hex(), draws.hex()]


def latest_step(directory: Path) -> int:
    return max((int(f.stem[-7:]) for f in directory.glob("chain-*-step-*.npz")), default=0)


def wait_for(condition, seconds=60):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end
        time.sleep(0.01)
