"""The other estimators of the paper, with the call and the result of :func:`pymc_arm.sample`."""

from pymc_arm.baselines.ais import ais
from pymc_arm.baselines.annealing import Annealing, GeometricAnnealing
from pymc_arm.baselines.boltzmann import RBMAnnealing
from pymc_arm.baselines.ep import ep
from pymc_arm.baselines.gpc import GPCAnnealing
from pymc_arm.baselines.model import ModelAnnealing
from pymc_arm.baselines.moments import moment_averages
from pymc_arm.baselines.schedules import adaptive, geometric, linear
from pymc_arm.baselines.smc import particles_for, smc

__all__ = [
    "Annealing",
    "GPCAnnealing",
    "GeometricAnnealing",
    "ModelAnnealing",
    "RBMAnnealing",
    "adaptive",
    "ais",
    "ep",
    "geometric",
    "linear",
    "moment_averages",
    "particles_for",
    "smc",
]
