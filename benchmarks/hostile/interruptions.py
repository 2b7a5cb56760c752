"""Exceptions, Ctrl-C, SIGTERM, time limits and disks that fail, at every stage of a run.

A black box counts how often it is called: the first calls compile the model, later ones explore,
refine and search. Whatever happens at a call, chains that had ended are the result, or an error
says what happened; and with a checkpoint the run goes on to the same bits.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.hostile.killed import digest
from benchmarks.hostile.models import black_box_model, log_likelihood
from benchmarks.hostile.tally import Tally, has_a_sentence
from pymc_arm import ArmWarning, CheckpointError, TimeLimitError
from pymc_arm.testing import GaussianChain

__all__ = ["tally_disks", "tally_signals", "tally_stages", "tally_time_limits"]

OPTIONS: dict[str, Any] = {
    "draws": 60,
    "chains": 2,
    "cores": 1,
    "random_seed": 1,
    "progressbar": False,
}
# A step or a compilation can't be ended in its middle: that of a small model takes up to 3 s.
PATIENCE = 10.0


class Counted:
    """A log-likelihood that does something at one of its calls."""

    def __init__(self, act: Callable[[], None] = lambda: None, at: int = -1) -> None:
        self.calls, self._act, self._at = 0, act, at

    def __call__(self, x: np.ndarray) -> float:
        self.calls += 1
        if self.calls == self._at:
            self._act()
        return log_likelihood(x)


def _sample(model: pm.Model, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pymc_arm.sample(model, **{**OPTIONS, **options})


def tally_stages(moments: int) -> Tally:
    """Raise an exception, or interrupt, at moments that are spread over all calls of a run."""
    tally = Tally("exceptions and interrupts at any stage")
    whole = Counted()
    _sample(black_box_model(whole))
    for moment in np.linspace(0, 1, moments, endpoint=False):
        for kind in (ValueError, KeyboardInterrupt):

            def act(kind: type[BaseException] = kind) -> None:
                raise kind("at this call")

            at = 1 + int(moment * whole.calls)
            try:
                found = _sample(black_box_model(Counted(act, at))).attrs
            except KeyboardInterrupt:
                lost = "" if kind is KeyboardInterrupt else "interrupted"
                tally.add("interrupted before a chain had ended", lost)
            except Exception as error:
                told = has_a_sentence(error) and "at this call" in str(error)
                tally.add("said", "" if told else f"call {at}: {type(error).__name__}: {error}")
            else:
                # A compiler that fails gives way to another; else the run is not complete.
                early = at < 10
                flagged = early or not found["complete"]
                tally.add("kept", "" if flagged else f"call {at}: {kind.__name__} was swallowed")
    return tally


def tally_signals(trials: int) -> Tally:
    """Kill a run with two workers by SIGTERM, resume it, and look for processes that stay."""
    tally = Tally("runs ended by SIGTERM and resumed")
    moments = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        expected, seconds = _run_child(Path(folder) / "whole", None)
        for number in range(trials):
            place = Path(folder) / str(number)
            _run_child(place, float(moments.uniform(0.05, 1.0)) * seconds)
            found, _ = _run_child(place, None)
            tally.add("same bits", "" if found == expected else f"other bits: {found}")
    return tally


def _run_child(directory: Path, kill_after: float | None) -> tuple[str, float]:
    """Run in a process group of its own; return its digest, and the seconds after its imports."""
    command = [sys.executable, "-m", "benchmarks.hostile.interruptions", str(directory)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        started = time.perf_counter()
        if kill_after is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(kill_after)
            child.terminate()
        said = child.stdout.read().split()
        child.wait()
        seconds = time.perf_counter() - started
        _wait_for_the_group(child.pid)
    return (said[-1] if said else ""), seconds


def _wait_for_the_group(group: int) -> None:
    """Return when no process of a group is left; those that stay are ended, and it is an error."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    raise RuntimeError(f"processes were left behind for {PATIENCE} s")


def tally_time_limits(trials: int) -> Tally:
    """Give a slow model too little time: a result in time, or an error that says so."""
    tally = Tally("time limits")

    class Slow(Counted):
        def __call__(self, x: np.ndarray) -> float:
            time.sleep(0.001)
            return super().__call__(x)

    for limit in np.geomspace(0.1, 20, trials):
        started = time.monotonic()
        kind = "result"
        try:
            _sample(black_box_model(Slow()), time_limit=float(limit))
        except TimeLimitError:
            kind = "no chain in time"
        over = time.monotonic() - started - limit
        tally.add(kind, "" if over < PATIENCE else f"{limit:.1f} s took {over:.1f} s more")
    return tally


def tally_disks() -> Tally:
    """Write checkpoints to disks that are full, read-only, slow, or can't rename."""
    tally = Tally("disks that fail")
    path = GaussianChain([0.1 * k for k in range(8)])
    expected = digest(_sample_path(path))
    for name, broken in DISKS.items():
        for during in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = pymc_arm.Checkpoint(Path(folder) / "run", 0.0)
                trial = f"{name}, {'in the midst' if during else 'from the start'}"
                tally.add(*_try_disk(path, checkpoint, broken, during, trial, expected))
    return tally


def _sample_path(path: Any, **options: Any) -> Any:
    return pymc_arm.sample_path(path, **{**OPTIONS, "refine": False, **options})


def _try_disk(
    path: Any,
    checkpoint: pymc_arm.Checkpoint,
    broken: Callable[[Path], Any],
    during: bool,
    trial: str,
    expected: str,
) -> tuple[str, str]:
    """Run on a disk that fails; then on one that works again, from what is there."""
    directory = Path(checkpoint.directory)
    with contextlib.ExitStack() as failing, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not during:
            failing.enter_context(broken(directory))
        else:
            path = _BreaksLater(path, lambda: failing.enter_context(broken(directory)))
        try:
            found = digest(_sample_path(path, checkpoint=checkpoint))
        except CheckpointError as error:
            return "refused", "" if not during and "written" in str(error) else f"{trial}: {error}"
        except Exception as error:
            return "crash", f"{trial}: {type(error).__name__}: {error}"
    if found != expected:
        return "other bits", f"{trial}: other bits"
    warned = any(issubclass(each.category, ArmWarning) for each in caught)
    resumed = digest(_sample_path(path, checkpoint=checkpoint, resume=True))
    kind = "went on with a warning" if warned else "went on"
    return kind, "" if resumed == expected else f"{trial}: other bits after resuming"


class _BreaksLater(GaussianChain):
    """A chain in whose third step something happens, once."""

    def __init__(self, path: GaussianChain, act: Callable[[], Any]) -> None:
        super().__init__(path.data)
        self._act: Callable[[], Any] | None = act

    def smooth(self, rng: np.random.Generator, n: Any, particles: Any) -> Any:
        """Break at the third step."""
        if self._act is not None and n == 3:
            self._act()
            self._act = None
        return super().smooth(rng, n, particles)


@contextlib.contextmanager
def _replaced(name: str, function: Callable[..., Any]) -> Iterator[None]:
    before = getattr(os, name)
    setattr(os, name, function)
    try:
        yield
    finally:
        setattr(os, name, before)


def _raises(number: int) -> Callable[..., Any]:
    def fail(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@contextlib.contextmanager
def _largest_file(directory: Path) -> Iterator[None]:
    """Let no file be larger than a manifest: a write ends in its middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def _file_in_its_place(directory: Path) -> Iterator[None]:
    """Make the directory vanish; root may write to what is read-only."""
    aside = directory.with_name("aside")
    if directory.exists():
        directory.rename(aside)
    directory.write_text("")
    try:
        yield
    finally:
        directory.unlink()
        if aside.exists():
            aside.rename(directory)


@contextlib.contextmanager
def _slow(directory: Path) -> Iterator[None]:
    before = os.fsync

    def later(stream: int) -> None:
        time.sleep(0.1)
        before(stream)

    with _replaced("fsync", later):
        yield


@contextlib.contextmanager
def _clock_set_back(directory: Path) -> Iterator[None]:
    before, turned = time.time, threading.Event()
    time.time = lambda: before() - (3600.0 if turned.is_set() else 0.0)  # type: ignore[method-assign]
    turned.set()
    try:
        yield
    finally:
        time.time = before  # type: ignore[method-assign]


DISKS: dict[str, Callable[[Path], Any]] = {
    "full (no space for any file)": lambda directory: _replaced("fsync", _raises(28)),
    "full (files are cut)": _largest_file,
    "read-only": lambda directory: _replaced("replace", _raises(30)),
    "without rename": lambda directory: _replaced("replace", _raises(18)),
    "gone": _file_in_its_place,
    "slow": _slow,
    "clock set back": _clock_set_back,
}


def _child(directory: str) -> None:
    """Run with two workers and a checkpoint, and print the digest."""
    from pymc_arm.running import backends
    from pymc_arm.running.placement import Placement

    backends.SECONDS_BEFORE_FORK = 0.0

    class Slow(GaussianChain):
        placement = Placement.PROCESSES

        def smooth(self, rng: np.random.Generator, n: Any, particles: Any) -> Any:
            time.sleep(0.02)
            return super().smooth(rng, n, particles)

    print("ready", flush=True)
    checkpoint = pymc_arm.Checkpoint(directory, 0.0)
    options = {"cores": 2, "chains": 4, "checkpoint": checkpoint, "resume": True}
    print(digest(_sample_path(Slow([0.1 * k for k in range(30)]), **options)), flush=True)


if __name__ == "__main__":
    _child(sys.argv[1])
