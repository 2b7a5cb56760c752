"""The other estimators of the paper, with the call and the result of :func:`pymc_arm.sample`."""

from benchmarks.baselines.ais import ais
from benchmarks.baselines.annealing import Annealing, GeometricAnnealing
from benchmarks.baselines.boltzmann import RBMAnnealing
from benchmarks.baselines.ep import ep
from benchmarks.baselines.gpc import GPCAnnealing
from benchmarks.baselines.model import ModelAnnealing
from benchmarks.baselines.moments import moment_averages
from benchmarks.baselines.schedules import adaptive, geometric, linear
from benchmarks.baselines.smc import particles_for, smc

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
