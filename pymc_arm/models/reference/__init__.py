"""A path that starts from a fitted reference density instead of from the prior."""

from pymc_arm.models.reference.fit import Reference, fit_reference
from pymc_arm.models.reference.path import ReferencePath

__all__ = ["Reference", "ReferencePath", "fit_reference"]
