"""The moment at which a time limit ends, by the monotonic clock, and checks of it.

Evaluations of a model look at it (:func:`check_deadline`), so that a limit ends whatever they are
made for: fitting, a step, a bridge.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["Deadline", "OutOfTimeError", "check_deadline", "keep_deadline"]


class OutOfTimeError(BaseException):
    """The deadline has passed in the middle of something.

    As a KeyboardInterrupt it is no Exception: what tries one way after another must not take it for
    the failure of one of them.
    """


@dataclass(frozen=True)
class Deadline:
    """A moment after which no chain takes another step.

    It is kept by the monotonic clock, which goes on evenly when the time of day is set back or
    forth. That clock is one for all processes of a machine, and another on every machine: what is
    sent to a worker is the time that is left, less what passes by the time of day until it is read.

    Examples
    --------
    >>> from pymc_arm.deadline import Deadline
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


_kept: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def keep_deadline(deadline: Deadline | None) -> Iterator[None]:
    """End what is evaluated within this block once the deadline has passed.

    It holds for this thread; another one takes it over in a copy of the context.

    Examples
    --------
    >>> from pymc_arm.deadline import Deadline, OutOfTimeError, check_deadline, keep_deadline
    >>> with keep_deadline(Deadline.after(-1.0)):
    ...     try:
    ...         check_deadline()
    ...     except OutOfTimeError:
    ...         print("too late")
    too late
    """
    token = _kept.set(deadline)
    try:
        yield
    finally:
        _kept.reset(token)


def check_deadline() -> None:
    """Raise OutOfTimeError if the deadline that is kept here has passed."""
    deadline = _kept.get()
    if deadline is not None and deadline.passed:
        raise OutOfTimeError


def _arrive(remaining: float, sent: float) -> Deadline:
    """Return the deadline as it is here; a clock that is behind adds nothing to it."""
    return Deadline.after(remaining - max(0.0, time.time() - sent))
