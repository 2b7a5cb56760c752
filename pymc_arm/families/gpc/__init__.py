"""Gaussian process classification with a probit link: the paper's section 4 and appendix A."""

from pymc_arm.families.gpc.direct import gpc
from pymc_arm.families.gpc.family import GPCFamily
from pymc_arm.families.gpc.path import GPCPath

__all__ = ["GPCFamily", "GPCPath", "gpc"]
