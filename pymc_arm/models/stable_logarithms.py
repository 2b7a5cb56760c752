"""The logarithm of a graph, and that of one minus it, in forms that neither under- nor overflow.

Rules for operations take logarithms through products, powers, sums, indices and switches. What is
positive is told by the form of a graph, whatever it is rounded to.
"""

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as special
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.special import Softmax, log_softmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.forms import (
    STRUCTURAL,
    are_equal,
    is_constant,
    joined_parts,
    last_slice,
    minus_one,
    opposite_of,
    rebuild,
    scalar_kind,
)
from pymc_arm.models.graph.logarithms import log1mexp, log_between, log_erfc, log_sum

__all__ = ["is_positive", "log1m_of", "log1m_of_log", "log_of"]

# Below this, log(1 - exp(-z)) is log(z) - z / 2 to the last digit: the next term is z^2 / 24.
SMALL = 1e-8
# Graphs that nest deeper are left as they are; logarithms of links and scales nest some ten deep.
DEEPEST = 40


def log_of(graph: TensorVariable, depth: int = 0) -> TensorVariable | None:
    """Return the logarithm of a graph in a form that is better than ``log``, if there is one."""
    node = graph.owner
    if node is None or depth > DEEPEST or not graph.type.dtype.startswith("float"):
        return None
    deeper = depth + 1
    if isinstance(node.op, STRUCTURAL):
        return rebuild(node, log_of(node.inputs[0], deeper))
    if isinstance(node.op, Join):
        return _join(node, [log_of(part, deeper) for part in joined_parts(node)])
    if isinstance(node.op, Softmax):
        return log_softmax(node.inputs[0], axis=node.op.axis)
    if isinstance(node.op, Sum):
        inner = log_of(node.inputs[0], deeper)
        if inner is None or not is_positive(node.inputs[0]):
            return None
        return log_sum(inner, node.op.axis)
    rule = _rule(node, _LOG_RULES)
    return None if rule is None else rule(node, deeper)


def log1m_of(graph: TensorVariable, depth: int = 0) -> TensorVariable | None:
    """Return log(1 - p) of a graph p in a stable form, if there is one."""
    node = graph.owner
    if node is None or depth > DEEPEST:
        return None
    if isinstance(node.op, STRUCTURAL):
        return rebuild(node, log1m_of(node.inputs[0], depth + 1))
    rule = _rule(node, _LOG1M_RULES)
    return None if rule is None else rule(node, depth + 1)


def is_positive(graph: Variable, depth: int = 0) -> bool:
    """Whether a graph is positive by its form, whatever it is rounded to."""
    if isinstance(graph, Constant):
        return bool(np.all(np.asarray(graph.data) > 0))
    node = graph.owner
    if node is None or depth > DEEPEST:
        return False
    deeper = depth + 1
    if isinstance(node.op, STRUCTURAL):
        return is_positive(node.inputs[0], deeper)
    if isinstance(node.op, Join):
        return all(is_positive(part, deeper) for part in joined_parts(node))
    if isinstance(node.op, Sum):
        return is_positive(node.inputs[0], deeper)
    if isinstance(node.op, Softmax):
        return True
    if not isinstance(node.op, Elemwise):
        return False
    kind = type(node.op.scalar_op)
    if kind in (scalar.Exp, special.Sigmoid, special.Softplus, special.Erfc):
        return True
    if kind in (scalar.Mul, scalar.TrueDiv, scalar.Add):
        return all(is_positive(i, deeper) for i in node.inputs)
    if kind in (scalar.Sqrt, scalar.Sqr, scalar.Reciprocal, scalar.Pow, scalar.Cast):
        return is_positive(node.inputs[0], deeper)
    if kind in (scalar.Switch, scalar.Second):
        return all(is_positive(i, deeper) for i in node.inputs[1:])
    if kind is scalar.Sub and is_constant(node.inputs[0], 1):
        return _is_below_one(node.inputs[1], deeper)
    if kind is scalar.Neg and node.inputs[0].owner is not None:  # -expm1(-z)
        inner = node.inputs[0].owner
        return scalar_kind(inner) is scalar.Expm1 and _is_negative(inner.inputs[0], deeper)
    return False


def _is_below_one(graph: Variable, depth: int) -> bool:
    """Whether a graph is less than one by its form."""
    node = graph.owner
    if node is None or depth > DEEPEST:
        return False
    if isinstance(node.op, STRUCTURAL):
        return _is_below_one(node.inputs[0], depth + 1)
    kind = scalar_kind(node)
    if kind in (special.Sigmoid, special.Erf):
        return True
    if kind is scalar.Exp:
        return _is_negative(node.inputs[0], depth)
    if kind is scalar.Sub:
        return is_constant(node.inputs[0], 1) and is_positive(node.inputs[1], depth)
    if kind in (scalar.Mul, scalar.Reciprocal, scalar.TrueDiv, scalar.Neg):
        return log1m_of(graph, depth) is not None
    return False


def _is_negative(graph: Variable, depth: int) -> bool:
    opposite = opposite_of(graph)
    return opposite is not None and is_positive(opposite, depth)


_Rule = Callable[[Apply, int], TensorVariable | None]


def _rule(node: Apply, rules: dict[type, _Rule]) -> _Rule | None:
    kind = scalar_kind(node)
    return None if kind is None else rules.get(kind)


def _join(node: Apply, parts: list[TensorVariable | None]) -> TensorVariable | None:
    if all(part is None for part in parts):
        return None
    axis = node.op.axis if hasattr(node.op, "axis") else node.inputs[0]
    if isinstance(axis, Constant):
        axis = int(axis.data)
    if not isinstance(axis, int):
        return None
    pairs = zip(parts, joined_parts(node), strict=True)
    return pt.join(axis, *(pt.log(whole) if part is None else part for part, whole in pairs))


def _logs(parts: list[TensorVariable], depth: int) -> list[TensorVariable] | None:
    """Return the logarithms of parts, if any has a better form and the others allow it."""
    better = [log_of(part, depth) for part in parts]
    if all(one is None for one in better):
        return None
    pairs = zip(parts, better, strict=True)
    return [pt.log(pt.cast(whole, "float64")) if one is None else one for whole, one in pairs]


def _log_product(node: Apply, depth: int) -> TensorVariable | None:
    # One factor of unknown sign is right as it is: so is the sign of the product.
    if sum(not is_positive(factor) for factor in node.inputs) > 1:
        return None
    logs = _logs(node.inputs, depth)
    return None if logs is None else pt.add(*logs)


def _log_quotient(node: Apply, depth: int) -> TensorVariable | None:
    if not any(is_positive(part) for part in node.inputs):
        return None
    logs = _logs(node.inputs, depth)
    return None if logs is None else logs[0] - logs[1]


def _log_power(node: Apply, depth: int) -> TensorVariable | None:
    base, power = node.inputs
    inner = log_of(base, depth) if is_positive(base) else None
    return None if inner is None else power * inner


def _log_times(factor: float) -> _Rule:
    def rule(node: Apply, depth: int) -> TensorVariable | None:
        inner = log_of(node.inputs[0], depth) if is_positive(node.inputs[0]) else None
        return None if inner is None else factor * inner

    return rule


def _log_add(node: Apply, depth: int) -> TensorVariable | None:
    if len(node.inputs) == 2:
        for one, other in (node.inputs, node.inputs[::-1]):
            if is_constant(one, 1) and other.owner is not None:
                if scalar_kind(other.owner) is special.Erf:
                    return log_erfc(-other.owner.inputs[0])
                inner = log_of(other, depth) if is_positive(other) else None
                if inner is not None:
                    return pt.softplus(inner)
    if not all(is_positive(part) for part in node.inputs):
        return None
    logs = _logs(node.inputs, depth)
    if logs is None:
        return None
    total = logs[0]
    for one in logs[1:]:
        total = total + pt.softplus(one - total)
    return total


def _log_difference(node: Apply, depth: int) -> TensorVariable | None:
    left, right = node.inputs
    if is_constant(left, 1):
        if right.owner is not None and scalar_kind(right.owner) is special.Erf:
            return log_erfc(right.owner.inputs[0])
        return log1m_of(right, depth)
    sigmoids = [
        i.owner is not None and scalar_kind(i.owner) is special.Sigmoid for i in node.inputs
    ]
    if all(sigmoids):
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)).
        return log_between(*(i.owner.inputs[0] for i in node.inputs))
    return _log_steps(left, right)


def _log_steps(left: TensorVariable, right: TensorVariable) -> TensorVariable | None:
    """Return the logarithms of the steps from 0 over sigmoids to 1, those of an ordered logit."""
    if left.owner is None or right.owner is None:
        return None
    if isinstance(left.owner.op, DimShuffle) and left.owner.op == right.owner.op:
        inner = _log_steps(left.owner.inputs[0], right.owner.inputs[0])
        return rebuild(left.owner, inner)
    if not all(isinstance(one.owner.op, Subtensor) for one in (left, right)):
        return None
    joined = left.owner.inputs[0]
    if joined is not right.owner.inputs[0] or joined.owner is None:
        return None
    if not isinstance(joined.owner.op, Join):
        return None
    zero, *middle, one = joined_parts(joined.owner)
    if len(middle) != 1 or not (is_constant(zero, 0) and is_constant(one, 1)):
        return None
    sigmoid = middle[0].owner
    if sigmoid is None or scalar_kind(sigmoid) is not special.Sigmoid:
        return None
    if last_slice(left.owner) != (1, None) or last_slice(right.owner) != (None, -1):
        return None
    if zero.type.shape[-1] != 1 or one.type.shape[-1] != 1:
        return None
    (level,) = sigmoid.inputs
    return pt.join(
        level.type.ndim - 1,
        -pt.softplus(-level[..., :1]),
        log_between(level[..., 1:], level[..., :-1]),
        -pt.softplus(level[..., -1:]),
    )


def _log_switch(node: Apply, depth: int) -> TensorVariable | None:
    condition, *branches = node.inputs
    logs = _logs(branches, depth)
    return None if logs is None else pt.switch(condition, *logs)


def _log_negative(node: Apply, depth: int) -> TensorVariable | None:
    inner = node.inputs[0].owner
    if inner is None or scalar_kind(inner) is not scalar.Expm1:
        return None
    return _log1m_exponential(inner, depth)


def _log1m_exponential(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - exp(y)), also where y = -z is rounded to zero."""
    y = node.inputs[0]
    z = opposite_of(y)
    log_z = None if z is None else log_of(z, depth)
    if z is None or log_z is None:
        return log1mexp(y)
    small = pt.lt(z, SMALL)
    return pt.switch(small, log_z - z / 2, log1mexp(pt.switch(small, -1.0, y)))


def log1m_of_log(y: TensorVariable, depth: int) -> TensorVariable | None:
    """Return log(1 - exp(y)) of the log of a count's distribution function, by its complement.

    Counts that are not zero have one: of a mean of 1e-17 the probability of zero is rounded to one.
    """
    node = y.owner
    if node is None or depth > DEEPEST:
        return None
    if isinstance(node.op, STRUCTURAL):
        return rebuild(node, log1m_of_log(node.inputs[0], depth + 1))
    if isinstance(node.op, CheckAndRaise):
        return log1m_of_log(node.inputs[0], depth + 1)
    if scalar_kind(node) is scalar.Switch:
        condition, *sides = node.inputs
        logs = [
            pt.zeros_like(side) if is_constant(side, -np.inf) else log1m_of_log(side, depth + 1)
            for side in sides
        ]
        return None if None in logs else pt.switch(condition, *logs)
    inner = node.inputs[0].owner if scalar_kind(node) is scalar.Log else None
    if inner is None:
        return None
    if scalar_kind(inner) is special.GammaIncC:
        shape, x = inner.inputs
        return _log_lower_gamma(shape, x, depth)
    if scalar_kind(inner) is special.BetaInc:
        first, last, x = inner.inputs
        log_rest = log1m_of(x, depth + 1)
        rest = 1 - x if log_rest is None else pt.exp(log_rest)
        return pt.log(pt.betainc(last, first, rest))
    return None


def _log_lower_gamma(shape: TensorVariable, x: TensorVariable, depth: int) -> TensorVariable:
    """Return the log of the lower incomplete gamma function, also where x is rounded to zero."""
    inner = x
    if x.owner is not None and scalar_kind(x.owner) is scalar.Switch:
        _, other, inner = x.owner.inputs  # zero instead of a mean that is not possible
        inner = inner if is_constant(other, 0) and is_positive(inner) else x
    log_x = log_of(inner, depth + 1)
    if log_x is None:
        return pt.log(pt.gammainc(shape, x))
    # x^k e^-x / Gamma(k + 1) times 1 + x / (k + 1) + ...: the second term is in the last digit.
    first = shape * log_x - x - pt.gammaln(shape + 1)
    tiny = pt.lt(x, 1e-16)
    return pt.switch(tiny, first, pt.log(pt.gammainc(shape, pt.switch(tiny, 1.0, x))))


def _log1m_product(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - p) of the normal distribution function, in either of its forms."""
    if len(node.inputs) != 2:
        return None
    for half, other in (node.inputs, node.inputs[::-1]):
        if not is_constant(half, 0.5) or other.owner is None:
            continue
        if scalar_kind(other.owner) is special.Erfc:
            return np.log(0.5) + log_erfc(-other.owner.inputs[0])
        one_plus = minus_one(other)
        if one_plus is not None and one_plus.owner and scalar_kind(one_plus.owner) is special.Erf:
            return np.log(0.5) + log_erfc(one_plus.owner.inputs[0])
    return None


def _log1m_difference(node: Apply, depth: int) -> TensorVariable | None:
    left, right = node.inputs
    return log_of(right, depth) if is_constant(left, 1) else None


def _log1m_share(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - a / (a + b)) = log(b) - log(a + b)."""
    below = node.inputs[-1].owner
    if below is None or scalar_kind(below) is not scalar.Add or len(below.inputs) != 2:
        return None
    above = node.inputs[0] if len(node.inputs) == 2 else pt.constant(1.0)
    for one, other in (below.inputs, below.inputs[::-1]):
        if are_equal(above, one) and is_positive(one) and is_positive(other):
            logs = _logs([other, one], depth)
            return None if logs is None else -pt.softplus(logs[1] - logs[0])
    return None


def _log1m_negative(node: Apply, depth: int) -> TensorVariable | None:
    inner = node.inputs[0].owner
    return inner.inputs[0] if inner is not None and scalar_kind(inner) is scalar.Expm1 else None


_LOG_RULES: dict[type, _Rule] = {
    scalar.Exp: lambda node, depth: node.inputs[0],
    special.Sigmoid: lambda node, depth: -pt.softplus(-node.inputs[0]),
    special.Erfc: lambda node, depth: log_erfc(node.inputs[0]),
    scalar.Mul: _log_product,
    scalar.TrueDiv: _log_quotient,
    scalar.Reciprocal: _log_times(-1.0),
    scalar.Sqrt: _log_times(0.5),
    scalar.Sqr: _log_times(2.0),
    scalar.Cast: _log_times(1.0),
    scalar.Pow: _log_power,
    scalar.Add: _log_add,
    scalar.Sub: _log_difference,
    scalar.Switch: _log_switch,
    scalar.Neg: _log_negative,
}
_LOG1M_RULES: dict[type, _Rule] = {
    special.Sigmoid: lambda node, depth: -pt.softplus(node.inputs[0]),
    scalar.Exp: _log1m_exponential,
    scalar.Mul: _log1m_product,
    scalar.Sub: _log1m_difference,
    scalar.Reciprocal: _log1m_share,
    scalar.TrueDiv: _log1m_share,
    scalar.Neg: _log1m_negative,
}
