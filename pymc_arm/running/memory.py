"""How much memory a run needs, known before it is used."""

import os

from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.settings import Settings

__all__ = ["available_memory", "check_memory", "estimate_memory"]

# Copies of the particles that are alive at the same time in a step: the set it began with, the one
# being moved, its proposals, the moved batch and the joined set.
COPIES = 5


def estimate_memory(path: Path, draws: int, settings: Settings, workers: int) -> int:
    """Return the bytes that a run needs at most.

    A worker needs particles x dimension x rounds, and what does not depend on the particles.
    """
    return workers * (path.fixed_bytes() + draws * _bytes_of_draw(path, settings))


def _bytes_of_draw(path: Path, settings: Settings) -> int:
    rounds = 1 if settings.variant == "rm" else max(settings.max_rounds, 1)
    return path.particle_bytes() * (rounds + COPIES)


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
    room = available / workers - path.fixed_bytes()
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
        f"draws={draws} particles of {path.particle_bytes():,} bytes in up to "
        f"{settings.max_rounds} rounds{share}, and {path.fixed_bytes():,} bytes for each core, "
        f"need about {needed / gigabytes:.3g} GiB, and {available / gigabytes:.3g} GiB are free. "
        f"Use {', or '.join(remedies)}."
    )
