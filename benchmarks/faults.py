"""What runs survive: hostile numbers, models, files, places, signals, disks, too little memory.

``python -m benchmarks faults [PART ...]`` runs all parts, or those that are named, and prints for
each how many trials there were, how many were survived, and what was lost:

- ``numerics``, ``models``: hostile numbers and models against exact values (`--draws`, `--quick`);
- ``files``: mutated checkpoints and results (`--files 10000`);
- ``places``: threads, copies of a process, pools, Dask, after JAX;
- ``stages``, ``signals``, ``limits``, ``disks``: exceptions and interrupts at any call, SIGTERM,
  time limits, disks that fail;
- ``memory``: estimates against what is used, and limits;
- ``killed``, ``workers``: SIGKILL at random moments (`--runs 50`), Dask workers (`--workers 20`).
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable

from benchmarks.hostile.concurrency import tally_places
from benchmarks.hostile.files import tally_checkpoints, tally_results
from benchmarks.hostile.interruptions import (
    tally_disks,
    tally_signals,
    tally_stages,
    tally_time_limits,
)
from benchmarks.hostile.killed import tally_killed_runs, tally_killed_workers
from benchmarks.hostile.memory import tally_memory
from benchmarks.hostile.models import model_cases
from benchmarks.hostile.numerics import numeric_cases
from benchmarks.hostile.tally import Tally, tally_cases

__all__ = ["COMMANDS"]


def main_faults(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="no model of many data")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=20)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    seeds = range(1, options.seeds + 1)
    parts: dict[str, Callable[[], list[Tally]]] = {
        "numerics": lambda: [
            tally_cases("hostile numbers", list(numeric_cases(options.quick)), options.draws, seeds)
        ],
        "models": lambda: [
            tally_cases("hostile models", list(model_cases()), options.draws, seeds)
        ],
        "files": lambda: [
            tally_checkpoints(options.files),
            tally_results(options.files // 10),
        ],
        "places": lambda: [tally_places()],
        "stages": lambda: [tally_stages(options.moments)],
        "signals": lambda: [tally_signals(options.moments)],
        "limits": lambda: [tally_time_limits(options.moments)],
        "disks": lambda: [tally_disks()],
        "memory": lambda: [tally_memory()],
        "killed": lambda: [tally_killed_runs(options.runs)],
        "workers": lambda: [tally_killed_workers(options.workers)],
    }
    unknown = set(options.parts) - set(parts)
    if unknown:
        parser.error(f"{sorted(unknown)} are not among {', '.join(parts)}")
    lost = 0
    for name in options.parts or parts:
        started = time.perf_counter()
        for tally in parts[name]():
            print(f"{tally} in {time.perf_counter() - started:.0f} s", flush=True)
            print(*(f"  {each[:300]}" for each in tally.lost), sep="\n", end="", flush=True)
            lost += len(tally.lost)
    sys.exit(bool(lost))


COMMANDS = {"faults": main_faults}
