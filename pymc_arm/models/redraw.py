"""Prior draws that PyMC's own would round to the edge of the support, or would get wrong.

Half of the draws of Gamma(0.001, 0.001) are below 1e-308: their logarithm, which is what a run
works with, can be drawn, but not by drawing first. With G ~ Gamma(a + 1) and E ~ Exponential(1),
log G - E / a is the logarithm of a Gamma(a) draw, exactly, for any a > 0. The other families here
are made of such draws. PyMC draws a CAR vector with the square of its covariance, and an ICAR
vector not at all; both are normal with a precision matrix that is known.
"""

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.multivariate import CARRV, ICARRV
from pymc.logprob.transforms import LogOddsTransform, LogTransform, SimplexTransform, Transform
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.random.basic import (
    BetaRV,
    DirichletRV,
    ExponentialRV,
    GammaRV,
    InvGammaRV,
    LogNormalRV,
    NormalRV,
)
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.autoregression import normal_parameters
from pymc_arm.models.rounding import inner_range

__all__ = ["Redraw", "redraw"]


class Redraw(NamedTuple):
    """The graphs of a draw: the transformed value, the variable, and what is random in them."""

    value: TensorVariable
    draw: TensorVariable
    random: tuple[TensorVariable, ...]


@singledispatch
def redraw(op: Op, node: Apply, transform: Transform | None) -> Redraw | None:
    """Return another way to draw from a node's distribution, or None if its own is right.

    Parameters
    ----------
    op
        The operation that draws.
    node
        Its inputs: a generator, the size and the parameters.
    transform
        That of the variable's value.
    """
    return None


@redraw.register(GammaRV)
def _gamma(op: GammaRV, node: Apply, transform: Transform | None) -> Redraw | None:
    if not isinstance(transform, LogTransform):
        return None
    shape, scale = pt.broadcast_arrays(*op.dist_params(node))
    logs, random = _log_gamma(shape, _size(node))
    return _transformed(logs + pt.log(scale), node, transform, random)


@redraw.register(InvGammaRV)
def _inverse_gamma(op: InvGammaRV, node: Apply, transform: Transform | None) -> Redraw | None:
    if not isinstance(transform, LogTransform):
        return None
    shape, scale = pt.broadcast_arrays(*op.dist_params(node))
    logs, random = _log_gamma(shape, _size(node))
    return _transformed(pt.log(scale) - logs, node, transform, random)


@redraw.register(LogNormalRV)
def _log_normal(op: LogNormalRV, node: Apply, transform: Transform | None) -> Redraw | None:
    if not isinstance(transform, LogTransform):
        return None
    draw = _draw(NormalRV, _size(node), *op.dist_params(node))
    return _transformed(draw, node, transform, (draw,))


@redraw.register(BetaRV)
def _beta(op: BetaRV, node: Apply, transform: Transform | None) -> Redraw | None:
    if not isinstance(transform, LogOddsTransform):
        return None
    parameters = pt.broadcast_arrays(*op.dist_params(node))
    (first, one), (second, other) = (_log_gamma(p, _size(node)) for p in parameters)
    return _transformed(first - second, node, transform, one + other)


@redraw.register(DirichletRV)
def _dirichlet(op: DirichletRV, node: Apply, transform: Transform | None) -> Redraw | None:
    if not isinstance(transform, SimplexTransform):
        return None
    (concentration,) = op.dist_params(node)
    size = _size(node)
    if size is not None:
        size = pt.concatenate([size, concentration.shape[-1:]])
        # The length of a size is the number of axes, which must be known.
        size = pt.specify_shape(size, (node.outputs[1].type.ndim,))
    logs, random = _log_gamma(concentration, size)
    # As the transform has it: what all logarithms share, their normaliser, goes.
    value = logs[..., :-1] - pt.mean(logs, axis=-1, keepdims=True)
    return _transformed(value, node, transform, random)


@redraw.register(CARRV)
@redraw.register(ICARRV)
def _autoregression(op: Op, node: Apply, transform: Transform | None) -> Redraw | None:
    mean, precision = normal_parameters(op, node)
    # With Q = L L', the covariance of L'^-1 z is Q^-1.
    noise = _draw(NormalRV, None, pt.zeros_like(mean), 1.0)
    factor = pt.linalg.cholesky(precision)
    draw = mean + pt.linalg.solve_triangular(factor.T, noise, lower=False)
    value = draw if transform is None else transform.forward(draw, *node.inputs)
    return Redraw(value, draw, (noise,))


def _log_gamma(
    shape: TensorVariable, size: Variable | None
) -> tuple[TensorVariable, tuple[TensorVariable, ...]]:
    """Return the logarithm of a Gamma(shape, 1) draw, which never underflows, and its parts."""
    one = pt.ones_like(shape, dtype="float64")
    larger = _draw(GammaRV, size, shape + one, one)
    waiting = _draw(ExponentialRV, size, one)
    return pt.log(larger) - waiting / shape, (larger, waiting)


def _transformed(
    value: TensorVariable,
    node: Apply,
    transform: Transform,
    random: tuple[TensorVariable, ...],
) -> Redraw:
    inside = pt.clip(value, *inner_range(transform))
    return Redraw(value, transform.backward(inside, *node.inputs), random)


def _size(node: Apply) -> Variable | None:
    size = node.op.size_param(node)
    return None if isinstance(size.type, NoneTypeT) else size


def _draw(kind: type[RandomVariable], size: Variable | None, *parameters: Any) -> TensorVariable:
    """Return a draw with a generator of its own."""
    generator = pytensor.shared(np.random.default_rng())
    tensors = [pt.as_tensor(parameter) for parameter in parameters]
    draw: TensorVariable = kind(dtype="float64").make_node(generator, size, *tensors).outputs[1]
    return draw
