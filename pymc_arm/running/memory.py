"""How much memory a run needs, known before it is used."""

import os
from pathlib import Path as FilePath
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings

try:
    import resource
except ImportError:  # there are no such limits on Windows
    resource = None  # type: ignore[assignment]

__all__ = ["Measured", "available_memory", "check_memory", "estimate_memory"]

# Copies of the particles that are alive at the same time in a step: the set it began with, the one
# being moved, its proposals, the moved batch and the joined set.
COPIES = 5
# Control groups of the first version write a number of pages near 2**63 where there is no limit.
NO_LIMIT = 2**60


@runtime_checkable
class Measured(Protocol):
    """A path that knows how much memory it takes."""

    def particle_bytes(self) -> int:
        """Return about how much a particle takes at p_N."""

    def fixed_bytes(self) -> int:
        """Return about how much a chain takes besides its particles."""


def particle_bytes(path: Path) -> int:
    """Return about how much memory a particle takes at p_N: if need be by what a step adds."""
    if isinstance(path, Measured):
        return path.particle_bytes()
    rng = np.random.default_rng(0)
    first, _ = path.initialize(rng, 1)
    if path.length is None or path.finished(path.start):
        return _bytes(first)
    following = path.advance(path.start, first, np.zeros(1), 0.0)
    proposal = path.smooth(rng, following, first).proposal
    second, _ = path.augment(rng, following, first, proposal)
    return _bytes(first) + (path.length - 1) * (_bytes(second) - _bytes(first))


def fixed_bytes(path: Path) -> int:
    """Return about how much memory a chain takes besides its particles, as far as is known."""
    return path.fixed_bytes() if isinstance(path, Measured) else 0


def _bytes(tree: Any) -> int:
    if isinstance(tree, dict | tuple):
        return sum(_bytes(leaf) for leaf in (tree.values() if isinstance(tree, dict) else tree))
    return int(getattr(tree, "nbytes", 0))


def estimate_memory(path: Path, draws: int, settings: Settings, workers: int) -> int:
    """Return the bytes that a run needs at most.

    A worker needs particles x dimension x rounds, and what does not depend on the particles.
    """
    return workers * (fixed_bytes(path) + draws * _bytes_of_draw(path, settings))


def _bytes_of_draw(path: Path, settings: Settings) -> int:
    rounds = 1 if settings.variant == "rm" else max(settings.max_rounds, 1)
    return particle_bytes(path) * (rounds + COPIES)


def available_memory() -> int | None:
    """Return the bytes that can still be used, if the system says so.

    That is the least of what the machine has left, of what the group of processes may take
    (containers and batch systems set such limits), and of what this process may map (``ulimit
    -v``).
    """
    known = [_of_machine(), _of_process(), *_of_groups()]
    return min((room for room in known if room is not None), default=None)


def _of_machine() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_process() -> int | None:
    """Return what is left of the address space, where that has a limit."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _lines("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not used:
        return None
    return max(0, limit - int(used[0].split()[0]) * os.sysconf("SC_PAGE_SIZE"))


def _of_groups(root: str = "/sys/fs/cgroup") -> list[int]:
    """Return what is left to each control group that this process is in, where it has a limit."""
    found = []
    for line in _lines("/proc/self/cgroup"):
        _, controllers, place = line.strip().split(":", 2)
        if controllers not in ("", "memory"):
            continue
        folder = FilePath(root, controllers)
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        names = names if controllers else ("memory.max", "memory.current")
        # A container sees its own group as the root, whatever it is called outside.
        for group in {folder, *(folder / part for part in _with_parents(place))}:
            limit, used = ([_number(line) for line in _lines(group / name)] for name in names)
            if limit and used and limit[0] is not None and used[0] is not None:
                found.append(max(0, limit[0] - used[0] + _reclaimable(group)))
    return found


def _with_parents(place: str) -> list[FilePath]:
    inside = FilePath(place.strip("/"))
    return [inside, *inside.parents]


def _reclaimable(group: FilePath) -> int:
    """Return how much of what a group uses are files that the system can drop."""
    names = ("inactive_file", "total_inactive_file")
    sizes = [line.split() for line in _lines(group / "memory.stat")]
    return max((int(size) for name, size in sizes if name in names), default=0)


def _number(text: str) -> int | None:
    """Return a limit, or None for "max" and for the number that stands for none."""
    number = int(text) if text.strip().isdigit() else None
    return None if number is None or number >= NO_LIMIT else number


def _lines(file: str | FilePath) -> list[str]:
    """Return the lines of a file of the system; none if there is no such file."""
    try:
        return FilePath(file).read_text().splitlines()
    except OSError:
        return []


def check_memory(path: Path, draws: int, settings: Settings, workers: int) -> None:
    """Refuse a run that can't fit.

    Raises
    ------
    MemoryError
        With what the run needs, what there is, and what would fit.
    """
    needed, available = estimate_memory(path, draws, settings, workers), available_memory()
    if available is None or needed <= available:
        return
    room = available / workers - fixed_bytes(path)
    fitting = int(room / _bytes_of_draw(path, settings))
    remedies = [f"draws={fitting:,} or fewer"] if fitting > 0 else []
    if workers > 1:
        remedies.append("fewer cores")
    elif fitting > 0:
        remedies.append("a smaller max_rounds")
    else:
        remedies.append("a machine with more memory, or a model of fewer variables")
    gigabytes = 1024.0**3
    share = f" on cores={workers}" if workers > 1 else ""
    raise MemoryError(
        f"draws={draws} particles of {particle_bytes(path):,} bytes in up to "
        f"{settings.max_rounds} rounds{share}, and {fixed_bytes(path):,} bytes for each core, "
        f"need about {needed / gigabytes:.3g} GiB, and {available / gigabytes:.3g} GiB are free. "
        f"Use {', or '.join(remedies)}."
    )
