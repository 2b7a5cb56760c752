"""Gaussian process classification with a probit link: the paper's section 4 and appendix A."""

from typing import TYPE_CHECKING

from pymc_arm._lazy import lazy_attributes
from pymc_arm.families.gpc.family import GPCFamily

if TYPE_CHECKING:
    from pymc_arm.families.gpc.direct import gpc
    from pymc_arm.families.gpc.path import GPCPath

__all__ = ["GPCFamily", "GPCPath", "gpc"]

# Every model is shown to the family, and few need the kernels, which numba is slow to load.
__getattr__ = lazy_attributes(
    __name__,
    {"GPCPath": "pymc_arm.families.gpc.path", "gpc": "pymc_arm.families.gpc.direct"},
)
