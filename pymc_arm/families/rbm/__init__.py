"""Restricted Boltzmann machines (section 5 of the paper)."""

from typing import TYPE_CHECKING

from pymc_arm._lazy import lazy_attributes
from pymc_arm.families.rbm.family import RBMFamily
from pymc_arm.families.rbm.machine import LogLikelihood, Machine

if TYPE_CHECKING:
    from pymc_arm.families.rbm.direct import rbm
    from pymc_arm.families.rbm.distribution import RBM
    from pymc_arm.families.rbm.path import RBMPath
    from pymc_arm.families.rbm.pilots import tempered_path
    from pymc_arm.families.rbm.tempered import TemperedRBMPath

__all__ = [
    "RBM",
    "LogLikelihood",
    "Machine",
    "RBMFamily",
    "RBMPath",
    "TemperedRBMPath",
    "rbm",
    "tempered_path",
]

# Every model is shown to the family, and few need the kernels, which numba is slow to load.
__getattr__ = lazy_attributes(
    __name__,
    {
        "RBM": "pymc_arm.families.rbm.distribution",
        "RBMPath": "pymc_arm.families.rbm.path",
        "TemperedRBMPath": "pymc_arm.families.rbm.tempered",
        "rbm": "pymc_arm.families.rbm.direct",
        "tempered_path": "pymc_arm.families.rbm.pilots",
    },
)
