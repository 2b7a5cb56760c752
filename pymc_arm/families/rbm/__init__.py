"""Restricted Boltzmann machines (section 5 of the paper)."""

from pymc_arm.families.rbm.distribution import RBM
from pymc_arm.families.rbm.family import RBMFamily, rbm
from pymc_arm.families.rbm.machine import LogLikelihood, Machine
from pymc_arm.families.rbm.path import RBMPath

__all__ = ["RBM", "LogLikelihood", "Machine", "RBMFamily", "RBMPath", "rbm"]
