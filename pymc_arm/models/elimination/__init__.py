"""Discrete variables are summed exactly, by sum-product over the tables of their terms."""

from pymc_arm.models.elimination.choose import Elimination, Marginalize, check_sums, eliminate
from pymc_arm.models.elimination.density import EliminatedDensity

__all__ = ["EliminatedDensity", "Elimination", "Marginalize", "check_sums", "eliminate"]
