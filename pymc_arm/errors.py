"""Errors and warnings of this package, which users can catch or filter."""

import inspect
from typing import Any

__all__ = [
    "ArmWarning",
    "ChainError",
    "CheckpointError",
    "ComparisonError",
    "DataWarning",
    "DrawsError",
    "ModelError",
    "PathError",
    "TimeLimitError",
    "TrustWarning",
    "ZeroEvidenceWarning",
]


class ArmWarning(UserWarning):
    """Base of every warning of this package."""


class ZeroEvidenceWarning(ArmWarning):
    """No particle has positive weight at some step, so that the estimate of Z is zero."""


class TrustWarning(ArmWarning):
    """The estimate of log Z, or its standard error, should not be trusted as it stands."""


class DataWarning(ArmWarning):
    """Models that are compared have different data."""


class PathError(RuntimeError):
    """A path returned something that is not a number; the message names step and operation."""


class ChainError(PathError):
    """A chain failed; the message names the chain, the step and the variable.

    ``finished`` are the chains of the same run that came to their end.
    """

    def __init__(self, message: str, chain: int, step: int, variable: str) -> None:
        super().__init__(message, chain, step, variable)
        self.chain, self.step, self.variable = chain, step, variable
        self.finished: list[Any] = []

    def __str__(self) -> str:
        return str(self.args[0])


class ComparisonError(RuntimeError):
    """A model of a comparison failed; the message names it, and the cause is its own error.

    ``finished`` are the results of the other models, by name.
    """

    def __init__(self, message: str, finished: dict[str, Any]) -> None:
        super().__init__(message)
        self.finished = finished


class CheckpointError(RuntimeError):
    """A checkpoint can't be used; the message says what differs or is damaged."""


class TimeLimitError(RuntimeError):
    """The time limit ended a run before any chain did."""


class ModelError(ValueError):
    """The model has no marginal likelihood that can be estimated; the message names the cause."""


class DrawsError(ValueError):
    """Draws are not of the posterior of this model; the message names variable and value."""


def callers_level() -> int:
    """Return the ``stacklevel`` at which a warning names the line that called this package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pymc_arm."):
        frame, level = frame.f_back, level + 1
    return level
