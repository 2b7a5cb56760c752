"""The machine as a distribution that can be written inside a ``pm.Model``."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba import njit
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.graph.basic import Variable
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify

from pymc_arm.families.rbm.machine import Machine
from pymc_arm.families.rbm.variable import RBMVariable

__all__ = ["RBM", "draw_visible"]

# Gibbs steps before a draw of ``pm.draw`` or ``pm.sample_prior_predictive``.
DRAW_TRANSITIONS = 1000


@njit(error_model="numpy")
def draw_visible(
    rng: np.random.Generator,
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
) -> np.ndarray:
    """Draw by Gibbs sampling from fair coins."""
    x = (rng.random(visible_bias.size) < 0.5).astype(np.float64)
    for _ in range(DRAW_TRANSITIONS):
        rates = 1 / (1 + np.exp(-(hidden_bias + x @ weights)))
        hidden = (rng.random(rates.size) < rates).astype(np.float64)
        rates = 1 / (1 + np.exp(-(visible_bias + weights @ hidden)))
        x = (rng.random(rates.size) < rates).astype(np.float64)
    return x.astype(np.int8)


@numba_core_rv_funcify.register(RBMVariable)
def _compiled_draw(op: RBMVariable, node: Any) -> Any:
    """Tell PyTensor's numba mode, the default of PyMC 6, how to draw."""

    @njit
    def random(rng: Any, weights: Any, visible_bias: Any, hidden_bias: Any) -> Any:
        return draw_visible(
            rng,
            np.ascontiguousarray(weights).astype(np.float64),
            visible_bias.astype(np.float64),
            hidden_bias.astype(np.float64),
        )

    return random


rbm_variable = RBMVariable()


class RBM(pm.Discrete):
    r"""The visible units of a restricted Boltzmann machine, with its density unnormalised.

    .. math:: f(x) = e^{a^T x} \prod_h \left(1 + e^{b_h + W_h^T x}\right), \quad x \in \{0, 1\}^N

    The log marginal likelihood of a model with this variable alone is the machine's log Z.

    Parameters
    ----------
    W, a, b
        As of :class:`Machine`; numbers, or variables of the model.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_arm.families.rbm import RBM, RBMFamily
    >>> with pm.Model() as model:
    ...     x = RBM("x", W=[[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    >>> RBMFamily().match(model).accepted
    True
    """

    rv_op = rbm_variable

    @classmethod
    def dist(cls, W: Any, a: Any = None, b: Any = None, **kwargs: Any) -> Any:
        """Return the variable of a machine, outside a model."""
        if not any(isinstance(argument, Variable) for argument in (W, a, b)):
            machine = Machine(W, a, b)
            W, a, b = machine.W, machine.a, machine.b
        weights = pt.as_tensor_variable(W)
        if weights.ndim < 2:
            raise ValueError(f"W has {weights.ndim} dimensions: it must be (visible, hidden).")
        visible = pt.zeros(weights.shape[-2]) if a is None else pt.as_tensor_variable(a)
        hidden = pt.zeros(weights.shape[-1]) if b is None else pt.as_tensor_variable(b)
        return super().dist([weights, visible, hidden], **kwargs)

    def support_point(rv: Any, size: Any, W: Any, a: Any, b: Any) -> Any:
        """Return all units off: a state that every machine allows."""
        batch = pt.zeros_like(a)
        if not rv_size_is_none(size):
            batch = pt.zeros(pt.concatenate([size, [a.shape[-1]]]))
        return batch.astype("int8")

    def logp(value: Any, W: Any, a: Any, b: Any) -> Any:
        """Return log f, or -inf where a unit is neither off nor on."""
        states = value.astype(W.dtype)
        activations = pt.matmul(states[..., None, :], W)[..., 0, :] + b
        density = (states * a).sum(axis=-1) + pt.softplus(activations).sum(axis=-1)
        binary = pt.all(pt.or_(pt.eq(value, 0), pt.eq(value, 1)), axis=-1)
        return pt.switch(binary, density, -np.inf)
