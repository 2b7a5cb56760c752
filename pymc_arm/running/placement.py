"""Where the chains of a path run best, as the path says it."""

from enum import Enum
from typing import Any, Protocol, runtime_checkable

__all__ = ["Placed", "Placement", "Preparable", "placement_of"]


class Placement(Enum):
    """Where chains run when there are several, and more than one core."""

    #: One after another: the path's own kernels use every core.
    SERIAL = "serial"
    #: On threads: the work is done by code that releases the interpreter's lock.
    THREADS = "threads"
    #: In forked processes, since much is done under the lock; else one after another.
    PROCESSES = "processes"
    #: In forked processes; where there are none, on threads.
    PROCESSES_OR_THREADS = "processes or threads"

    @property
    def forks(self) -> bool:
        """Whether chains run in forked processes, where there are such."""
        return self in (Placement.PROCESSES, Placement.PROCESSES_OR_THREADS)


@runtime_checkable
class Placed(Protocol):
    """A path that says where its chains run best."""

    placement: Placement


@runtime_checkable
class Preparable(Protocol):
    """A path that has something to compile before chains run."""

    def prepare(self) -> None:
        """Compile what chains will need, before the process is copied for each of them."""


def placement_of(path: Any) -> Placement:
    """Return where the chains of a path run best: on threads, if it does not say."""
    return path.placement if isinstance(path, Placed) else Placement.THREADS
