"""A run in a fresh process, with a limit in CPU seconds that counts all processes it starts.

The module of a benchmark is run again as ``python -m MODULE --child ...``, and prints what it found
as one line of JSON, its last. Nothing that one run leaves behind (caches in memory, threads,
compiled functions) serves another, and a run that does not end takes nobody with it.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ended", "cpu_seconds", "report", "run_limited"]

# How often the CPU time of the group is read; reading it takes some 5 ms.
SECONDS_BETWEEN_LOOKS = 0.25
# A run that waits for something uses no CPU; it is ended after this many times its limit.
WALL_FACTOR = 15


@dataclass(frozen=True)
class Ended:
    """What came of a process.

    Attributes
    ----------
    status
        ``"done"``, ``"timeout"`` or ``"crash"``.
    found
        What it reported; empty where it did not end by itself.
    cpu_seconds, wall_seconds
        Of the process and of all that it started, imports included.
    message
        Why there is no report.
    """

    status: str
    found: dict[str, Any]
    cpu_seconds: float
    wall_seconds: float
    message: str = ""


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def report(found: dict[str, Any]) -> None:
    """Print what a child has found, for `run_limited` to read."""
    print(json.dumps(found), flush=True)


def run_limited(module: str, arguments: Sequence[str], limit: float) -> Ended:
    """Run ``python -m module --child arguments`` for at most so many CPU seconds.

    Parameters
    ----------
    module
        Full name of a module that has a command line.
    arguments
        What follows ``--child``.
    limit
        CPU seconds of all its processes together; where the system has no ``/proc`` to read them
        from, seconds of wall time times the number of processors.
    """
    command = [sys.executable, "-m", module, "--child", *arguments]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        with open(output, "wb") as out, open(errors, "wb") as err:
            child = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            late, used = _wait(child, limit, started)
        finally:
            # Also what a process has left behind that ended by itself, or by Ctrl-C here.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        wall = time.perf_counter() - started
        if late:
            return Ended("timeout", {}, used, wall, f"over {limit:.0f} CPU s")
        try:
            last = output.read_text(encoding="utf-8").strip().splitlines()[-1]
            return Ended("done", dict(json.loads(last)), used, wall)
        except (IndexError, ValueError):
            said = " ".join(errors.read_text(encoding="utf-8", errors="replace").split())
            message = f"the process ended with {child.returncode}: {said[-200:]}"
            return Ended("crash", {}, used, wall, message)


def _wait(child: subprocess.Popen, limit: float, started: float) -> tuple[bool, float]:
    """Wait for the end or the limit; return whether it was the limit, and the CPU seconds."""
    seen = 0.0
    while True:
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if ended:
            break
        wall = time.perf_counter() - started
        seen = max(seen, _group_cpu_seconds(child.pid, wall))
        if seen > limit or wall > WALL_FACTOR * limit:
            os.killpg(child.pid, signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            return True, max(seen, usage.ru_utime + usage.ru_stime)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    child.returncode = os.waitstatus_to_exitcode(status)
    return False, max(seen, usage.ru_utime + usage.ru_stime)


def _group_cpu_seconds(group: int, wall: float) -> float:
    """Return the CPU seconds of a process group so far, children that ended included."""
    processes = Path("/proc")
    if not processes.is_dir():
        return wall * (os.cpu_count() or 1)
    ticks = 0
    for entry in processes.iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == group:
                    ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
