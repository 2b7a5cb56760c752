"""Marginal likelihoods of PyMC models, with error bars, by Adaptive Resample-Move."""

from typing import TYPE_CHECKING

from pymc_arm import plots
from pymc_arm._lazy import lazy_attributes
from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.comparison import BayesFactor, bayes_factor, compare
from pymc_arm.comparison.averaging import average_models, average_predictions
from pymc_arm.comparison.calibration import calibrate
from pymc_arm.comparison.design import Design, design
from pymc_arm.comparison.evidence_path import EvidencePath, evidence_path
from pymc_arm.comparison.inclusion import Inclusion, inclusion_probabilities
from pymc_arm.comparison.reliability import Calibration
from pymc_arm.comparison.savage_dickey import SavageDickey, savage_dickey
from pymc_arm.comparison.sensitivity import sensitivity
from pymc_arm.comparison.sensitivity_curve import SensitivityCurve, sensitivity_curve
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

__version__ = "0.2.0"

__all__ = [
    "ARM",
    "RBM",
    "ArmWarning",
    "BayesFactor",
    "Calibration",
    "ChainError",
    "Checkpoint",
    "CheckpointError",
    "ComparisonError",
    "DataWarning",
    "Design",
    "Diagnosis",
    "DrawsError",
    "EvidencePath",
    "Family",
    "Inclusion",
    "Info",
    "Match",
    "ModelError",
    "Moved",
    "Path",
    "PathError",
    "Reason",
    "Report",
    "Run",
    "SavageDickey",
    "SensitivityCurve",
    "Settings",
    "Smoothed",
    "State",
    "TimeLimitError",
    "TrustWarning",
    "ZeroEvidenceWarning",
    "average_models",
    "average_predictions",
    "bayes_factor",
    "calibrate",
    "compare",
    "design",
    "diagnose",
    "evidence",
    "evidence_path",
    "gpc",
    "inclusion_probabilities",
    "known_families",
    "plan",
    "plots",
    "rbm",
    "register",
    "report",
    "run",
    "sample",
    "sample_path",
    "savage_dickey",
    "sensitivity",
    "sensitivity_curve",
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
