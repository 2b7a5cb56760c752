"""How much memory a run needs, known before it is used."""

import os
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings

__all__ = ["Measured", "available_memory", "check_memory", "estimate_memory"]

# Copies of the particles that are alive at the same time in a step: the set it began with, the one
# being moved, its proposals, the moved batch and the joined set.
COPIES = 5


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
    """Return the bytes that can still be used, if the system says so."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


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
