"""A path that starts from a fitted reference density instead of from the prior."""

from pymc_arm.models.reference.chart_path import ChartPath
from pymc_arm.models.reference.choose import ChartRecipe, Choice, choose_path, start_model
from pymc_arm.models.reference.fit import Reference, fit_reference
from pymc_arm.models.reference.from_draws import fit_reference_to_draws
from pymc_arm.models.reference.from_prior import PriorPath
from pymc_arm.models.reference.guard import Guard, check_reference
from pymc_arm.models.reference.path import ReferencePath

__all__ = [
    "ChartPath",
    "ChartRecipe",
    "Choice",
    "Guard",
    "PriorPath",
    "Reference",
    "ReferencePath",
    "check_reference",
    "choose_path",
    "fit_reference",
    "fit_reference_to_draws",
    "start_model",
]
