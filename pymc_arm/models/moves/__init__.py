"""Moves that leave p_n invariant and need no tuning by the user.

A kernel is a file with one interface (:class:`~pymc_arm.models.moves.kernel.Kernel`), and
:data:`KERNELS` lists them in the order in which a sweep applies them. To add one, write its file
and add its factory to the list.
"""

from pymc_arm.models.moves.coordinates import single_coordinates
from pymc_arm.models.moves.crank_nicolson import crank_nicolson
from pymc_arm.models.moves.discrete import discrete_coordinates
from pymc_arm.models.moves.hamiltonian import hamiltonian
from pymc_arm.models.moves.kernel import Cloud, Kernel, Moves, Role
from pymc_arm.models.moves.sweep import LARGEST_REPEATS, FrozenSweep, Sweep
from pymc_arm.models.moves.target import Identity, MoveTarget, View

__all__ = [
    "KERNELS",
    "LARGEST_REPEATS",
    "Cloud",
    "FrozenSweep",
    "Identity",
    "Kernel",
    "MoveTarget",
    "Moves",
    "Role",
    "Sweep",
    "View",
]

KERNELS = (crank_nicolson, hamiltonian, single_coordinates, discrete_coordinates)
