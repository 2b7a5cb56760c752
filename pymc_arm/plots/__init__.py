"""Pictures of runs and of comparisons.

Every function takes ``ax`` and returns axes, as those of ArviZ do, and needs matplotlib
(the extra ``plots``), which is imported when a function is called.
"""

from pymc_arm.plots.calibration import plot_calibration
from pymc_arm.plots.design import plot_design
from pymc_arm.plots.evidence_path import plot_evidence_path
from pymc_arm.plots.models import plot_comparison, plot_model_probabilities
from pymc_arm.plots.plan import plot_plan
from pymc_arm.plots.run import plot_estimates, plot_run
from pymc_arm.plots.sensitivity import plot_sensitivity, plot_sensitivity_curve

__all__ = [
    "plot_calibration",
    "plot_comparison",
    "plot_design",
    "plot_estimates",
    "plot_evidence_path",
    "plot_model_probabilities",
    "plot_plan",
    "plot_run",
    "plot_sensitivity",
    "plot_sensitivity_curve",
]
