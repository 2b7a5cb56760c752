"""With which command, on which code and with which versions a file of results was measured.

``FILE.csv`` has ``FILE.json`` beside it: a list with an entry for each state of the package, of
Python and of the other packages that added runs to the file.
"""

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

__all__ = ["describe_origin", "note_origin", "versions"]

PACKAGES = (
    *("pymc", "pytensor", "numpy", "numba", "blackjax", "jax", "particles", "dynesty"),
    *("nautilus-sampler", "ultranest", "pocomc", "torch", "nutpie"),
)


def note_origin(file: Path) -> None:
    """Write beside a csv file what its next runs are made with."""
    entry = {
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "commit": _commit(),
        "processors": os.cpu_count() or 1,
        "versions": versions(),
    }
    beside = file.with_suffix(".json")
    entries = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else []
    if entry not in entries:
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps([*entries, entry], indent=1) + "\n", encoding="utf-8")


def describe_origin(file: Path) -> str:
    """Return what a csv file was measured with as text."""
    entries = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    return "; ".join(
        f"`{entry['command']}`, commit {entry['commit']}, {entry['processors']} processors, "
        f"{entry['versions']}"
        for entry in entries
    )


def versions() -> str:
    """Return the versions of Python and of the packages that take part."""
    installed = {
        package.metadata["Name"]: package.version for package in importlib.metadata.distributions()
    }
    return f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {installed[name]}" for name in PACKAGES if name in installed
    )


def _commit() -> str:
    """Return the last commit that changed the package, and whether it was changed since."""

    def git(*arguments: str) -> str:
        root = Path(__file__).resolve().parents[1]
        done = subprocess.run(
            ["git", *arguments, "--", "pymc_arm"], cwd=root, capture_output=True, text=True
        )
        return done.stdout.strip()

    commit = git("log", "-1", "--format=%h")
    return f"{commit or 'unknown'}{' and changes' if git('status', '--porcelain') else ''}"
