"""Marginal likelihoods of PyMC models, with error bars, by Adaptive Resample-Move."""

from typing import TYPE_CHECKING

from pymc_arm import plots
from pymc_arm._lazy import lazy_attributes
from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.comparison import BayesFactor, bayes_factor, compare
from pymc_arm.comparison.averaging import average_models
from pymc_arm.comparison.evidence_path import EvidencePath, evidence_path
from pymc_arm.comparison.sensitivity import sensitivity
from pymc_arm.diagnosis import Diagnosis, diagnose
from pymc_arm.errors import (
    ArmWarning,
    ChainError,
    CheckpointError,
    ComparisonError,
    DataWarning,
    DrawsError,
    ModelError,
    PathError,
    TimeLimitError,
    TrustWarning,
    ZeroEvidenceWarning,
)
from pymc_arm.estimation.verdict import Reason, Report
from pymc_arm.evidence_from_draws import evidence
from pymc_arm.families import Family, Match, known_families, register, unregister
from pymc_arm.reporting import report
from pymc_arm.running.checkpoint.journal import Checkpoint
from pymc_arm.sampling import plan, sample, sample_path
from pymc_arm.smc_kernel import ARM
from pymc_arm.updating import update

if TYPE_CHECKING:
    from pymc_arm.families.gpc import gpc
    from pymc_arm.families.rbm import RBM, rbm

__version__ = "0.1.0"

__all__ = [
    "ARM",
    "RBM",
    "ArmWarning",
    "BayesFactor",
    "ChainError",
    "Checkpoint",
    "CheckpointError",
    "ComparisonError",
    "DataWarning",
    "Diagnosis",
    "DrawsError",
    "EvidencePath",
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
    "TimeLimitError",
    "TrustWarning",
    "ZeroEvidenceWarning",
    "average_models",
    "bayes_factor",
    "compare",
    "diagnose",
    "evidence",
    "evidence_path",
    "gpc",
    "known_families",
    "plan",
    "plots",
    "rbm",
    "register",
    "report",
    "run",
    "sample",
    "sample_path",
    "sensitivity",
    "unregister",
    "update",
]

# Kernels that numba compiles: it takes as long to import as half of PyMC, so they wait.
__getattr__ = lazy_attributes(
    __name__,
    {
        "RBM": "pymc_arm.families.rbm",
        "gpc": "pymc_arm.families.gpc",
        "rbm": "pymc_arm.families.rbm",
    },
)


def __dir__() -> list[str]:
    return __all__
