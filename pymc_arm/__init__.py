"""Marginal likelihoods of PyMC models, with error bars, by Adaptive Resample-Move."""

from pymc_arm.arm import Info, Run, State, run
from pymc_arm.diagnose import Reason, Report, diagnose
from pymc_arm.errors import ArmWarning, ModelError, PathError, TrustWarning, ZeroEvidenceWarning
from pymc_arm.families import Family, Match, families, register, unregister
from pymc_arm.families.gpc import gpc
from pymc_arm.path import Moved, Path, Smoothed
from pymc_arm.sampling import plan, sample, sample_path
from pymc_arm.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "ArmWarning",
    "Family",
    "Info",
    "Match",
    "ModelError",
    "Moved",
    "Path",
    "PathError",
    "Reason",
    "Report",
    "Run",
    "Settings",
    "Smoothed",
    "State",
    "TrustWarning",
    "ZeroEvidenceWarning",
    "diagnose",
    "families",
    "gpc",
    "plan",
    "register",
    "run",
    "sample",
    "sample_path",
    "unregister",
]
