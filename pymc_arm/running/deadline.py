"""The moment at which a time limit ends, by a clock that nobody sets."""

import time
from dataclasses import dataclass
from typing import Any

__all__ = ["Deadline"]


@dataclass(frozen=True)
class Deadline:
    """A moment after which no chain takes another step.

    It is kept by the monotonic clock, which goes on evenly when the time of day is set back or
    forth. That clock is one for all processes of a machine, and another on every machine: what is
    sent to a worker is the time that is left, less what passes by the time of day until it is read.

    Examples
    --------
    >>> from pymc_arm.running.deadline import Deadline
    >>> deadline = Deadline.after(60.0)
    >>> deadline.passed, 59.0 < deadline.remaining <= 60.0
    (False, True)
    """

    moment: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """Return the deadline that is so many seconds away."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """The seconds that are left; zero once it has passed."""
        return max(0.0, self.moment - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return time.monotonic() > self.moment

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.remaining, time.time())


def _arrive(remaining: float, sent: float) -> Deadline:
    """Return the deadline as it is here; a clock that is behind adds nothing to it."""
    return Deadline.after(remaining - max(0.0, time.time() - sent))
