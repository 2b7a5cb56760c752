"""How much memory a run needs, known before it is used."""

import os

from pymc_arm.path import Path
from pymc_arm.settings import Settings

__all__ = ["available_memory", "check_memory", "estimate_memory"]

# Copies of the particles that are alive at the same time in a step: the set it began with, the one
# being moved, its proposals, the moved batch and the joined set.
COPIES = 5


def estimate_memory(path: Path, draws: int, settings: Settings, workers: int) -> int:
    """Return the bytes that a run needs at most: particles x dimension x rounds, a worker each."""
    rounds = 1 if settings.variant == "rm" else max(settings.max_rounds, 1)
    return workers * draws * path.particle_bytes() * (rounds + COPIES)


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
    fitting = int(draws * available / needed)
    gigabytes = 1024.0**3
    share = f" on cores={workers}" if workers > 1 else ""
    raise MemoryError(
        f"draws={draws} particles of {path.particle_bytes():,} bytes in up to "
        f"{settings.max_rounds} rounds{share} need about {needed / gigabytes:.3g} GiB, and "
        f"{available / gigabytes:.3g} GiB are free. Use draws={fitting:,} or fewer"
        + (", or fewer cores." if workers > 1 else ", or a smaller max_rounds.")
    )
