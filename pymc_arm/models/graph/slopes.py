"""Derivatives of incomplete gamma and beta functions with respect to their shape.

Distribution functions of gamma, beta, Student-t and binomial variables hold them, and so do
truncated and censored ones. PyTensor's derivatives are series that take thousands of operations for
a number; here they are differences of the functions themselves, of which SciPy knows 14 digits. A
difference has ten, of which a gradient needs four: it makes proposals, and the density decides.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.scalar import basic as scalar
from pytensor.scalar.math import BetaInc, GammaInc, GammaIncC, gammaln
from pytensor.tensor.elemwise import Elemwise

from pymc_arm.models.graph.elementwise import scalar_function
from pymc_arm.models.graph.program import ArrayFunction

__all__ = ["Slope", "use_differences"]

# The step of a difference, relative to the argument: its square, and 1e-15 over it, are the errors.
STEP = 1e-5


class Slope(scalar.ScalarOp):
    """The derivative of a scalar operation with respect to one of its arguments.

    Parameters
    ----------
    of
        The operation, whose ``impl`` takes arrays.
    place
        Which argument: it is positive.
    """

    __props__ = ("of", "place")

    def __init__(self, of: scalar.ScalarOp, place: int) -> None:
        self.of, self.place = of, place
        super().__init__(scalar.upgrade_to_float_no_complex, name=f"slope_{place}_of_{of}")

    def impl(self, *arguments: Any) -> Any:
        """Return a central difference."""
        step = STEP * np.asarray(arguments[self.place], dtype=float)
        before, after = arguments[: self.place], arguments[self.place + 1 :]
        higher = self.of.impl(*before, arguments[self.place] + step, *after)
        lower = self.of.impl(*before, arguments[self.place] - step, *after)
        return (higher - lower) / (2 * step)


@scalar_function.register(Slope)
def _slope(operation: Slope, node: Apply) -> ArrayFunction:
    return operation.impl


class _LowerGamma(GammaInc):
    """The regularized lower incomplete gamma function."""

    def grad(self, inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        shape, value = inputs
        return [grads[0] * Slope(self, 0)(*inputs), grads[0] * _gamma_density(shape, value)]

    def pullback(self, inputs: Sequence[Any], outputs: Any, grads: Sequence[Any]) -> list[Any]:
        """Return the same for PyTensor 3."""
        return self.grad(inputs, grads)


class _UpperGamma(GammaIncC):
    """The regularized upper incomplete gamma function."""

    def grad(self, inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        shape, value = inputs
        return [grads[0] * Slope(self, 0)(*inputs), -grads[0] * _gamma_density(shape, value)]

    def pullback(self, inputs: Sequence[Any], outputs: Any, grads: Sequence[Any]) -> list[Any]:
        """Return the same for PyTensor 3."""
        return self.grad(inputs, grads)


class _Beta(BetaInc):
    """The regularized incomplete beta function."""

    def grad(self, inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        first, second, value = inputs
        normalizer = gammaln(first) + gammaln(second) - gammaln(first + second)
        powers = scalar.log1p(-value) * (second - 1) + scalar.log(value) * (first - 1)
        density = scalar.exp(powers - normalizer)
        slopes = [Slope(self, place)(*inputs) for place in (0, 1)]
        return [grads[0] * one for one in (*slopes, density)]

    def pullback(self, inputs: Sequence[Any], outputs: Any, grads: Sequence[Any]) -> list[Any]:
        """Return the same for PyTensor 3."""
        return self.grad(inputs, grads)


def _gamma_density(shape: Any, value: Any) -> Any:
    return scalar.exp(-value + (shape - 1) * scalar.log(value) - gammaln(shape))


_OWN = {GammaInc: _LowerGamma, GammaIncC: _UpperGamma, BetaInc: _Beta}


@node_rewriter([Elemwise])
def use_differences(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace a function by the same with a quick derivative."""
    own = _OWN.get(type(node.op.scalar_op))
    if own is None:
        return None
    operation = own(scalar.upgrade_to_float, name=node.op.scalar_op.name)
    return [Elemwise(operation)(*node.inputs)]
