"""What can go wrong, by name, so that users can catch or filter it."""

__all__ = ["ArmWarning", "ModelError", "PathError", "TrustWarning", "ZeroEvidenceWarning"]


class ArmWarning(UserWarning):
    """Base of every warning of this package."""


class ZeroEvidenceWarning(ArmWarning):
    """No particle has positive weight at some step, so that the estimate of Z is zero."""


class TrustWarning(ArmWarning):
    """The estimate of log Z, or its standard error, should not be trusted as it stands."""


class PathError(RuntimeError):
    """A path returned something that is not a number; the message names step and operation."""


class ModelError(ValueError):
    """The model has no marginal likelihood that can be estimated; the message names the cause."""
