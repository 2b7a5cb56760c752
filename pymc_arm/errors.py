"""What can go wrong, by name, so that users can catch or filter it."""

from typing import Any

__all__ = [
    "ArmWarning",
    "ChainError",
    "CheckpointError",
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


class CheckpointError(RuntimeError):
    """A checkpoint can't be used; the message says what differs or is damaged."""


class TimeLimitError(RuntimeError):
    """The time limit ended a run before any chain did."""


class ModelError(ValueError):
    """The model has no marginal likelihood that can be estimated; the message names the cause."""
