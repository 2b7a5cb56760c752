"""The values that a discrete variable can take."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.prior import INTERPRETED, is_fixed

__all__ = ["Support", "find_support"]

# Distributions on 0, ..., n with the index of n among their parameters.
COUNT_PARAMETER = {"binomial": 0, "beta_binomial": 0}
NON_NEGATIVE = {
    "poisson",
    "negative_binomial",
    "discrete_weibull",
    "nbinom",
}


@dataclass(frozen=True)
class Support:
    """Whole numbers from ``low`` to ``high``, where most of the mass is.

    ``bounded_below`` and ``bounded_above`` say whether these ends are the distribution's own.
    """

    low: int
    high: int
    bounded_below: bool
    bounded_above: bool

    @property
    def values(self) -> np.ndarray:
        """The values between the ends."""
        return np.arange(self.low, self.high + 1, dtype=float)

    @property
    def count(self) -> int:
        """How many values are between the ends."""
        return self.high - self.low + 1

    @property
    def finite(self) -> bool:
        """Whether there are no other values."""
        return self.bounded_below and self.bounded_above


def find_support(rv: TensorVariable, draws: np.ndarray) -> Support:
    """Return the support of a discrete variable, from its distribution or from prior draws."""
    low, high = int(draws.min()), int(draws.max())
    name, parameters = _distribution(rv)
    if name == "bernoulli":
        return Support(0, 1, True, True)
    if name == "categorical":
        count = parameters[-1].type.shape[-1] or _constant(parameters[-1].shape[-1])
        if count is not None:
            return Support(0, int(count) - 1, True, True)
    if name == "discrete_uniform":
        lower, upper = (_constant(parameter) for parameter in parameters)
        if lower is not None and upper is not None:
            return Support(int(np.min(lower)), int(np.max(upper)), True, True)
    if name in COUNT_PARAMETER:
        count = _constant(parameters[COUNT_PARAMETER[name]])
        if count is not None:
            return Support(0, int(np.max(count)), True, True)
    # Room for what a few thousand draws did not reach; the rest is left to the tails.
    margin = (high - low) + 20
    if name in NON_NEGATIVE:
        return Support(0, high + margin, True, False)
    if name == "geometric":
        return Support(1, high + margin, True, False)
    if name in ("discrete_uniform", "categorical", *COUNT_PARAMETER):
        # The ends depend on other variables; beyond them the density is zero.
        return Support(low, high, True, False)
    return Support(low, high + margin, low == 0, False)


def _distribution(rv: TensorVariable) -> tuple[str, list[Variable]]:
    """Return the name and the parameters of the distribution a variable is drawn from."""
    node = rv.owner
    if isinstance(node.op, RandomVariable):
        return node.op.name, list(node.op.dist_params(node))
    # The missing part of observed data is a part of another variable's draw.
    inner = [
        variable
        for variable in ancestors([rv])
        if variable.owner is not None
        and isinstance(variable.owner.op, RandomVariable)
        and variable.type.dtype == rv.type.dtype
    ]
    if "unobserved" in (rv.name or "") and inner:
        last = inner[0].owner
        return last.op.name, list(last.op.dist_params(last))
    return type(node.op).__name__.lower(), []


def _constant(parameter: Variable) -> np.ndarray | None:
    """Return the value of a parameter that depends on no random variable."""
    if not is_fixed([parameter]):
        return None
    return np.asarray(pm.compile([], parameter, mode=INTERPRETED)())
