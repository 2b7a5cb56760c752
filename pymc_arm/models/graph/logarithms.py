"""Logarithms of a few functions, as graphs that neither under- nor overflow."""

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["log1mexp", "log_between", "log_erfc", "log_sum"]


def log_between(high: TensorVariable, low: TensorVariable) -> TensorVariable:
    """Return log(sigmoid(high) - sigmoid(low))."""
    return -pt.softplus(-high) - pt.softplus(low) + log1mexp(low - high)


def log_erfc(x: TensorVariable) -> TensorVariable:
    """Return log(erfc(x)), in the upper tail by the scaled function."""
    tail = pt.gt(x, 1.0)
    high, low = pt.switch(tail, x, 1.0), pt.switch(tail, 1.0, x)
    return pt.switch(tail, pt.log(pt.erfcx(high)) - high**2, pt.log1p(-pt.erf(low)))


def log1mexp(y: TensorVariable) -> TensorVariable:
    """Return log(1 - exp(y)), to a rounding error of one; -inf where y is not negative.

    Without the maximum PyTensor makes this an operation of its own, a loop without numba.
    """
    return pt.log(pt.maximum(-pt.expm1(y), 0.0))


def log_sum(logs: TensorVariable, axis: tuple[int, ...] | None) -> TensorVariable:
    """Return the logarithm of a sum from the logarithms of what is added."""
    largest = pt.max(logs, axis=axis, keepdims=True)
    total = pt.log(pt.sum(pt.exp(logs - largest), axis=axis, keepdims=True)) + largest
    axes = tuple(range(logs.type.ndim)) if axis is None else axis
    return pt.squeeze(total, axis=axes)
