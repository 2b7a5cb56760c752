"""Whether the density of a user's own distribution integrates to one.

The log-density of a ``pm.CustomDist`` may be anything, and log Z is off by the constant that it
lacks. Its random draws, which the user gives too, tell: a bridge from a density fitted to them
measures the integral of the density, to a percent or so.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomDistRV
from pytensor.tensor.variable import TensorVariable

from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.errors import ArmWarning, callers_level
from pymc_arm.estimation.approximation import SinhArcsinhStudent
from pymc_arm.estimation.bridge import bridge
from pymc_arm.models.density import LogDensity
from pymc_arm.models.support import Support
from pymc_arm.models.terms import Layout, VariableSlice

__all__ = ["check_normalizers", "is_of_a_user"]

# Constants smaller than this, in nats, are not told from the error of the bridge.
NEGLIGIBLE = 0.1
LARGEST_BLOCK = 10


def check_normalizers(
    model: pm.Model,
    layout: Layout,
    density: LogDensity,
    supports: dict[str, Support],
    draws: np.ndarray,
) -> None:
    """Warn of each distribution of a user's whose log-density lacks a constant."""
    for number, (rv, slot) in enumerate(zip(model.free_RVs, layout.slots, strict=True)):
        if not is_of_a_user(rv) or not 0 < slot.size <= LARGEST_BLOCK:
            continue
        weights = np.zeros(density.count)
        weights[density.offsets[number] : density.offsets[number + 1]] = 1.0
        if slot.discrete:
            log_integral, error = _sum(density, weights, slot, supports[slot.name], draws), 0.0
        else:
            log_integral, error = _integral(density, weights, slot, draws)
        kind = "a CustomDist" if isinstance(rv.owner.op, CustomDistRV) else "a user's distribution"
        if abs(log_integral) > max(NEGLIGIBLE, 4 * error):
            warnings.warn(
                f"The log-density of {slot.name!r}, {kind}, is not normalised: its integral "
                f"is about exp({log_integral:.2f}), as far as its own random draws can tell. log Z "
                f"includes that constant. Subtract it in logp= (or correct random=) for a log Z "
                "that can be compared with other models.",
                ArmWarning,
                stacklevel=callers_level(),
            )


def is_of_a_user(rv: TensorVariable) -> bool:
    """Whether a distribution is not one of PyMC's own, whose densities are known."""
    operation = type(rv.owner.op)
    theirs = operation.__module__.startswith(("pymc.", "pytensor.", "pymc_arm."))
    return issubclass(operation, CustomDistRV) or not theirs


def _integral(
    density: LogDensity, weights: np.ndarray, slot: VariableSlice, draws: np.ndarray
) -> tuple[float, float]:
    """Return the log of the integral over a variable, with parents at their draws."""
    columns = list(slot.coordinates)
    half = len(draws) // 2
    rest, rng = draws[half:], np.random.default_rng(0)
    fitted = _Conditional(SinhArcsinhStudent.fit(draws[:half, columns]), columns, draws)
    at_draws, at_proposals = (
        density.sum(points, weights) - fitted.log_density(points)
        for points in (rest, fitted.draw(rng, 2 * len(rest)))
    )
    result = bridge(at_draws, at_proposals)
    if not result.trustworthy:
        return 0.0, np.inf
    return result.log_evidence, float(np.sqrt(result.variance))


@dataclass(frozen=True)
class _Conditional:
    """A density of some columns, with the other columns as in given draws."""

    student: SinhArcsinhStudent
    columns: list[int]
    draws: np.ndarray
    components: int = 1

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points: new columns, and the others from a random draw."""
        points = self.draws[rng.integers(len(self.draws), size=size)].copy()
        points[:, self.columns] = self.student.draw(rng, size)
        return points

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density of the columns."""
        return self.student.log_density(points[:, self.columns])


def _sum(
    density: LogDensity,
    weights: np.ndarray,
    slot: VariableSlice,
    support: Support,
    draws: np.ndarray,
) -> float:
    """Return the log of the sum over the values of a scalar, averaged over parents."""
    if slot.size > 1:
        return 0.0
    some = draws[:50]
    points = np.repeat(some, len(support.values), axis=0)
    points[:, slot.start] = np.tile(support.values, len(some))
    table = density.sum(points, weights).reshape(len(some), -1)
    return log_mean_exp(np.logaddexp.reduce(table, axis=1))
