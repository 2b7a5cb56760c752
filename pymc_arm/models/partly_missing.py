"""Vectors of which some elements are missing: where these begin, and what that is divided by.

PyMC has one density p(u, o) for the missing elements u and the observed ones o of a vector. From
p(u) it can draw, but has no density for it, and p(u) times p(u, o) would count u twice. So a run
from the prior draws u from a density g that is known, with the location and scale of PyMC's draws.
The prior of u is then g, and the data's term is p(u, o) / g(u).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.tensor.random.basic import GammaRV, NormalRV, UniformRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaln

from pymc_arm.errors import ModelError
from pymc_arm.models.graph_sampler import GraphSampler

__all__ = ["StandIn", "find_stand_ins", "is_partly_missing", "over_stand_in"]

# Draws that tell location and scale. Any values would be right; good ones take fewer steps.
DRAWS = 500
# Degrees of freedom of g: with less than three a draw may be a thousand scales away, with many
# more the tails of p(u, o) / g(u) are heavy where p(u, o) is a Student-t.
FREEDOM = 4.0
# A whole number can't be told more exactly.
SMALLEST_DISCRETE_SCALE = 0.3
_SEED = 20160713


def is_partly_missing(rv: TensorVariable) -> bool:
    """Whether a variable is a part of a vector that has one density for all of its elements."""
    return isinstance(rv.owner.op, PartialObservedRV) and rv.owner.op.ndim_supp > 0


@dataclass(frozen=True)
class StandIn:
    """A density g of independent elements: Student-t, or logistic and rounded for whole numbers.

    Attributes
    ----------
    location, scale
        Of each element.
    discrete
        Whether the elements are whole numbers.
    """

    location: np.ndarray
    scale: np.ndarray
    discrete: bool

    def log_density(self, value: TensorVariable) -> TensorVariable:
        """Return log g of each element."""
        if self.discrete:
            low = (value - 0.5 - self.location) / self.scale
            high = (value + 0.5 - self.location) / self.scale
            # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
            whole = np.log(-np.expm1(-1 / self.scale))
            return -pt.softplus(-high) - pt.softplus(low) + whole
        half = (FREEDOM + 1) / 2
        constant = gammaln(half) - gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi)
        square = ((value - self.location) / self.scale) ** 2
        return constant - np.log(self.scale) - half * pt.log1p(square / FREEDOM)

    def draw(self) -> tuple[TensorVariable, tuple[TensorVariable, ...]]:
        """Return a draw of all elements, and what is random in it."""
        if self.discrete:
            uniform = _draw(UniformRV, np.zeros(self.location.shape), 1.0)
            odds = pt.log(uniform) - pt.log1p(-uniform)
            return pt.round(self.location + self.scale * odds), (uniform,)
        normal = _draw(NormalRV, np.zeros(self.location.shape), 1.0)
        shape = np.full(self.location.shape, FREEDOM / 2)
        mixing = _draw(GammaRV, shape, 2 / FREEDOM)
        return self.location + self.scale * normal / pt.sqrt(mixing), (normal, mixing)


def find_stand_ins(model: pm.Model) -> dict[str, StandIn]:
    """Return a density for the missing elements of each partly missing vector, by name."""
    missing = [rv for rv in model.free_RVs if is_partly_missing(rv)]
    if not missing:
        return {}
    try:
        draws = GraphSampler(missing, model.free_RVs).draw_graphs(
            np.random.default_rng(_SEED), DRAWS
        )
    except MemoryError:
        raise
    except Exception as error:  # whatever a distribution of a user raises
        raise ModelError(
            f"The missing elements of {missing[0].name!r} can't be drawn from their prior "
            f"({type(error).__name__}: {error}). Give pm.CustomDist a random=, or leave the "
            "missing elements out."
        ) from error
    return {
        rv.name: _fit(np.asarray(array, float), rv.type.dtype.startswith(("int", "uint", "bool")))
        for rv, array in zip(missing, draws, strict=True)
    }


def _fit(draws: np.ndarray, discrete: bool) -> StandIn:
    """Return a density with the quantiles of draws, one in a row."""
    known = np.where(np.isfinite(draws), draws, np.nan)
    low, middle, high = np.nan_to_num(np.nanquantile(known, [0.16, 0.5, 0.84], axis=0))
    scale = (high - low) / 2
    if discrete:
        # The standard deviation of a logistic variable is 1.8 scales.
        return StandIn(middle, np.maximum(scale / 1.8, SMALLEST_DISCRETE_SCALE), True)
    return StandIn(middle, np.where(scale > 0, scale, 1.0), False)


def over_stand_in(
    model: pm.Model,
    rv: TensorVariable,
    logp: TensorVariable,
    stand_ins: Mapping[str, StandIn],
) -> TensorVariable | None:
    """Return the terms of a part of a partly missing vector, or None without g.

    Those of the missing part are log g, one for each element. Those of the observed part are PyMC's
    log-densities of whole vectors, one for each vector, less log g of what is missing in it.
    """
    _, missing = rv.owner.outputs
    if missing.name not in stand_ins:
        return None
    log_density = stand_ins[missing.name].log_density(model.rvs_to_values[missing])
    if rv is missing:
        return log_density
    vector, mask = rv.owner.inputs
    batch = vector.type.ndim - rv.owner.op.ndim_supp
    if not batch:
        return pt.atleast_1d(logp) - log_density.sum()
    chosen = np.asarray(mask.data)
    rows = np.ravel_multi_index(np.nonzero(chosen)[:batch], chosen.shape[:batch])
    belongs = rows[:, None] == np.arange(int(np.prod(chosen.shape[:batch])))
    return logp.ravel() - log_density @ belongs.astype(float)


def _draw(kind: type, first: np.ndarray, second: float) -> TensorVariable:
    """Return a draw of independent elements, with a generator of its own."""
    generator = pytensor.shared(np.random.default_rng())
    tensors = [pt.as_tensor(first), pt.as_tensor(second)]
    draw: TensorVariable = kind(dtype="float64").make_node(generator, None, *tensors).outputs[1]
    return draw
