"""Ctrl-C keeps what is finished: chains, models and checkpoints."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_arm
from pymc_arm.running import run as running
from pymc_arm.testing import GaussianChain

ROOT = Path(__file__).parents[2]
OPTIONS = {"draws": 60, "random_seed": 1, "progressbar": False, "refine": False}
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


class Interrupted(GaussianChain):
    """A path that the user interrupts in the last step of its third chain."""

    started = 0
    patience = 2

    def initialize(self, rng, count):
        self.started += count > 1  # one particle is how the memory is measured
        return super().initialize(rng, count)

    def augment(self, rng, position, particles, proposal):
        if self.started > self.patience and position == 3:
            raise KeyboardInterrupt
        return super().augment(rng, position, particles, proposal)


def sample_path(path, **options):
    with pytest.warns(pymc_arm.TrustWarning):
        return pymc_arm.sample_path(path, cores=1, **{**OPTIONS, **options})


def test_chains_that_ended_are_the_result():
    result = sample_path(Interrupted([0.5, -1.0, 2.0]))
    assert result.attrs["ended_by"] == "interruption"
    assert not result.attrs["complete"]
    assert (result.attrs["chains"], result.attrs["chains_started"]) == (2, 4)
    assert "The interruption ended the run with 2 of 4 chains" in result.attrs["verdict_reasons"]
    # The first two chains are those of a run that nobody interrupts.
    whole = pymc_arm.sample_path(GaussianChain([0.5, -1.0, 2.0]), cores=1, **OPTIONS)
    kept, all_chains = (x["sample_stats"]["log_marginal_likelihood"] for x in (result, whole))
    np.testing.assert_array_equal(kept, all_chains[:2])


def test_without_a_chain_it_is_raised_with_a_note(tmp_path):
    path = Interrupted([0.5, -1.0, 2.0])
    path.patience = 0
    with pytest.raises(KeyboardInterrupt) as caught:
        pymc_arm.sample_path(path, cores=1, **OPTIONS)
    assert "nothing is kept" in caught.value.__notes__[0]
    with pytest.raises(KeyboardInterrupt) as caught:
        pymc_arm.sample_path(path, cores=1, checkpoint=tmp_path / "run", **OPTIONS)
    assert "resume=True" in caught.value.__notes__[0]


def make_model(scale):
    with pm.Model() as model:
        m = pm.Normal("m", 0.0, scale)
        pm.Normal("y", m, 1.0, observed=[0.3, 1.2])
    return model


def test_refining_can_be_interrupted(monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "refine_run", interrupt)
    options = {"draws": 60, "random_seed": 1, "progressbar": False, "cores": 1}
    with pytest.warns(
        pymc_arm.TrustWarning, match="The interruption ended the run after its 4 of 4"
    ):
        result = pymc_arm.sample(make_model(1.0), start="prior", **options)
    # y is normal with covariance 1 + the identity: determinant 3, inverse (2 -1 / -1 2) / 3.
    exact = -np.log(2 * np.pi) - 0.5 * np.log(3) - (0.3**2 - 0.3 * 1.2 + 1.2**2) / 3
    error = result.attrs["log_marginal_likelihood_se"]
    assert result.attrs["log_marginal_likelihood"] == pytest.approx(exact, abs=4 * error + 0.01)


def test_an_error_in_refining_keeps_the_chains(monkeypatch):
    def fail(*args, **options):
        raise ValueError("the simulator can't take this")

    monkeypatch.setattr(running, "refine_run", fail)
    options = {"draws": 60, "random_seed": 1, "progressbar": False, "cores": 1}
    with (
        pytest.warns(pymc_arm.TrustWarning, match="The error in refining ended the run"),
        pytest.warns(pymc_arm.ArmWarning, match="ValueError: the simulator can't take this"),
    ):
        result = pymc_arm.sample(make_model(1.0), start="prior", **options)
    assert result.attrs["chains"] == 4
    assert not result.attrs["complete"]


def test_models_that_ended_are_in_the_error(monkeypatch):
    calls = []
    begin = pymc_arm.model_call.ModelCall.begin

    def interrupt(self):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return begin(self)

    monkeypatch.setattr(pymc_arm.model_call.ModelCall, "begin", interrupt)
    models = {name: make_model(scale) for name, scale in {"a": 1.0, "b": 2.0, "c": 3.0}.items()}
    options = {"draws": 60, "random_seed": 1, "progressbar": False, "cores": 1}
    with pytest.raises(pymc_arm.ComparisonError, match="interrupted") as caught:
        pymc_arm.compare(models, **options)
    assert list(caught.value.finished) == ["a", "b"]
    assert list(pymc_arm.compare(caught.value.finished).index) == ["a", "b"]


SCRIPT = """
    import signal, sys, time, warnings
    import pymc_arm
    from pymc_arm.running.placement import Placement
    from pymc_arm.testing import GaussianChain
    warnings.simplefilter("ignore")
    # Where the tests run in the background of a shell, processes ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Slow(GaussianChain):
        placement = Placement.PROCESSES

        def augment(self, *args):
            time.sleep(0.03)
            return super().augment(*args)

    path = Slow([0.1] * 30)
    print("go", flush=True)
    try:
        result = pymc_arm.sample_path(
            path, draws=50, chains=12, cores=2, random_seed=1, progressbar=False, **OPTIONS
        )
    except KeyboardInterrupt as error:
        print("raised", *getattr(error, "__notes__", []))
    else:
        print("kept", result.attrs["ended_by"], result.attrs["chains"], result.attrs["complete"])
"""


@needs_signals
@pytest.mark.parametrize("seconds", [0.2, 1.2, 2.9])
@pytest.mark.parametrize("no_fork", ["", "1"])
def test_at_any_stage_something_is_kept_or_said(seconds, no_fork, tmp_path):
    options = {"checkpoint": str(tmp_path / "run"), "refine": False}
    script = textwrap.dedent(SCRIPT).replace("**OPTIONS", f"**{options!r}")
    environment = {
        **os.environ,
        "PYMC_ARM_NO_FORK": no_fork,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    word, *rest = said.split()
    assert process.returncode == 0
    assert word in ("kept", "raised")
    if word == "kept":
        assert rest[0] == "interruption"
        assert 1 <= int(rest[1]) <= 12
        assert rest[2] in ("0", "False")
    else:
        assert "resume=True" in said or not rest
    # Whatever was interrupted goes on to the end: the checkpoint is whole.
    assert (tmp_path / "run" / "manifest.json").exists() or not rest
