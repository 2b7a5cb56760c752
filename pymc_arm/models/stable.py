"""Logarithms that stay finite where their argument under- or overflows.

A vague prior has draws far out: a precision of exp(-3000), a log-odds of 2000. There ``exp`` is
zero and ``1 - sigmoid`` is zero, and a log-density that takes their logarithm says "impossible" of
a point that is only unlikely. PyTensor rewrites ``log(exp(x))`` to ``x`` where the two meet; here
the logarithm is taken through products, powers, sums, indices and switches until they do meet, and
comparisons with zero of what is positive (``logpow`` of PyMC has them) are answered.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as special
from pytensor.tensor import subtensor
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import Softmax, log_softmax
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, get_idx_list
from pytensor.tensor.variable import TensorVariable

__all__ = ["is_positive", "log1m_of", "log_of", "stabilize"]

# Operations that only put elements of their first input elsewhere.
STRUCTURAL = (
    AdvancedSubtensor,
    # PyTensor 3 has no operation of its own for one vector of indices.
    getattr(subtensor, "AdvancedSubtensor1", AdvancedSubtensor),
    Alloc,
    DimShuffle,
    Reshape,
    SpecifyShape,
    Subtensor,
)
# Below this, log(1 - exp(-z)) is log(z) - z / 2 to the last digit: the next term is z^2 / 24.
SMALL = 1e-8
# Graphs that nest deeper are left as they are; logarithms of links and scales nest some ten deep.
DEEPEST = 40


def stabilize(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs whose logarithms are taken in their stable forms."""
    if not graphs:
        return graphs
    graphs = clone_replace(graphs)
    inputs = [v for v in ancestors(graphs) if v.owner is None and not isinstance(v, Constant)]
    fgraph = FunctionGraph(inputs, graphs, clone=False)
    for rewriter in (_sign, _logarithm, _complement, _comparison):
        in2out(rewriter, ignore_newtrees=True).rewrite(fgraph)
    return list(fgraph.outputs)


def log_of(graph: TensorVariable, depth: int = 0) -> TensorVariable | None:
    """Return the logarithm of a graph in a form that is better than ``log``, if there is one."""
    node = graph.owner
    if node is None or depth > DEEPEST or not graph.type.dtype.startswith("float"):
        return None
    deeper = depth + 1
    if isinstance(node.op, STRUCTURAL):
        return _rebuild(node, log_of(node.inputs[0], deeper))
    if isinstance(node.op, Join):
        return _join(node, [log_of(part, deeper) for part in _joined(node)])
    if isinstance(node.op, Softmax):
        return log_softmax(node.inputs[0], axis=node.op.axis)
    if isinstance(node.op, Sum):
        inner = log_of(node.inputs[0], deeper)
        if inner is None or not is_positive(node.inputs[0]):
            return None
        return _log_sum(inner, node.op.axis)
    rule = _rule(node, _LOG_RULES)
    return None if rule is None else rule(node, deeper)


def log1m_of(graph: TensorVariable, depth: int = 0) -> TensorVariable | None:
    """Return log(1 - p) of a graph p in a stable form, if there is one."""
    node = graph.owner
    if node is None or depth > DEEPEST:
        return None
    if isinstance(node.op, STRUCTURAL):
        return _rebuild(node, log1m_of(node.inputs[0], depth + 1))
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
        return all(is_positive(part, deeper) for part in _joined(node))
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
    if kind is scalar.Sub and _is_constant(node.inputs[0], 1):
        return _is_below_one(node.inputs[1], deeper)
    if kind is scalar.Neg and node.inputs[0].owner is not None:  # -expm1(-z)
        inner = node.inputs[0].owner
        return _scalar(inner) is scalar.Expm1 and _is_negative(inner.inputs[0], deeper)
    return False


def _is_below_one(graph: Variable, depth: int) -> bool:
    """Whether a graph is less than one by its form."""
    node = graph.owner
    if node is None or depth > DEEPEST:
        return False
    if isinstance(node.op, STRUCTURAL):
        return _is_below_one(node.inputs[0], depth + 1)
    kind = _scalar(node)
    if kind in (special.Sigmoid, special.Erf):
        return True
    if kind is scalar.Exp:
        return _is_negative(node.inputs[0], depth)
    if kind is scalar.Sub:
        return _is_constant(node.inputs[0], 1) and is_positive(node.inputs[1], depth)
    if kind in (scalar.Mul, scalar.Reciprocal, scalar.TrueDiv, scalar.Neg):
        return log1m_of(graph, depth) is not None
    return False


def _is_negative(graph: Variable, depth: int) -> bool:
    opposite = _negated(graph)
    return opposite is not None and is_positive(opposite, depth)


@node_rewriter([pt.log, pt.log1p])
def _logarithm(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    (inner,) = node.inputs
    if isinstance(node.op.scalar_op, scalar.Log):
        found = log_of(inner)
    else:
        opposite = _negated(inner)
        found = None if opposite is None else log1m_of(opposite)
    return None if found is None else _as(found, node.outputs[0])


@node_rewriter([pt.log1mexp])
def _complement(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    found = _log1m_of_log(node.inputs[0], 0)
    return None if found is None else _as(found, node.outputs[0])


@node_rewriter([pt.sign, pt.abs])
def _sign(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Forget the sign of what is positive; a Normal takes that of its precision."""
    (inner,) = node.inputs
    if not is_positive(inner):
        return None
    return [pt.ones_like(inner)] if isinstance(node.op.scalar_op, scalar.Sign) else [inner]


@node_rewriter([pt.eq, pt.neq, pt.lt, pt.le, pt.gt, pt.ge])
def _comparison(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Answer how something positive compares with zero, where it might be rounded to it."""
    left, right = node.inputs
    kind = _scalar(node)
    if _is_constant(right, 0) and is_positive(left):
        answer = kind in (scalar.NEQ, scalar.GT, scalar.GE)
    elif _is_constant(left, 0) and is_positive(right):
        answer = kind in (scalar.NEQ, scalar.LT, scalar.LE)
    else:
        return None
    same = pt.zeros_like(node.outputs[0], dtype="bool")
    return _as(~same if answer else same, node.outputs[0])


def _as(found: TensorVariable, original: TensorVariable) -> list[Variable] | None:
    """Return a graph as a replacement, with the static shape of what it replaces."""
    if found.type.dtype != original.type.dtype or found.type.ndim != original.type.ndim:
        return None
    if found.type.shape != original.type.shape:
        found = pt.specify_shape(found, original.type.shape)
    return [found]


def _scalar(node: Apply) -> type | None:
    """Return the kind of a node's scalar operation."""
    return type(node.op.scalar_op) if isinstance(node.op, Elemwise) else None


_Rule = Callable[[Apply, int], TensorVariable | None]


def _rule(node: Apply, rules: dict[type, _Rule]) -> _Rule | None:
    kind = _scalar(node)
    return None if kind is None else rules.get(kind)


def _is_constant(graph: Variable, number: float) -> bool:
    """Whether a graph is a constant, broadcast or not, of one number."""
    graph = _unbroadcast(graph)
    return isinstance(graph, Constant) and bool(np.all(np.asarray(graph.data) == number))


def _unbroadcast(graph: Variable) -> Variable:
    """Return what a graph repeats along more axes."""
    while graph.owner is not None:
        node = graph.owner
        if _scalar(node) is scalar.Second:
            graph = node.inputs[1]
        elif isinstance(node.op, Alloc) or getattr(node.op, "is_expand_dims", False):
            graph = node.inputs[0]
        else:
            break
    return graph


def _are_equal(one: Variable, other: Variable) -> bool:
    """Whether two graphs are the same, or constants of one number."""
    one = _unbroadcast(one)
    if one is _unbroadcast(other):
        return True
    constants = isinstance(one, Constant) and np.size(one.data) == 1
    return constants and _is_constant(other, float(np.asarray(one.data).reshape(-1)[0]))


def _negated(graph: Variable) -> TensorVariable | None:
    """Return z of a graph -z, which PyMC may have written as -1 * z."""
    node = graph.owner
    if node is None:
        return None
    if _scalar(node) is scalar.Neg:
        return node.inputs[0]
    if _scalar(node) is scalar.Mul:
        for number, factor in enumerate(node.inputs):
            if isinstance(factor, Constant) and bool(np.all(np.asarray(factor.data) < 0)):
                rest = [i for k, i in enumerate(node.inputs) if k != number]
                if not _is_constant(factor, -1):
                    rest.append(pt.constant(-np.asarray(factor.data)))
                return rest[0] if len(rest) == 1 else pt.mul(*rest)
    return None


def _rebuild(node: Apply, inner: TensorVariable | None) -> TensorVariable | None:
    """Return a structural operation on another first input."""
    if inner is None:
        return None
    rebuilt: TensorVariable = node.op.make_node(inner, *node.inputs[1:]).outputs[0]
    return rebuilt


def _joined(node: Apply) -> list[TensorVariable]:
    # Up to PyTensor 2 the axis is an input.
    return list(node.inputs if hasattr(node.op, "axis") else node.inputs[1:])


def _join(node: Apply, parts: list[TensorVariable | None]) -> TensorVariable | None:
    if all(part is None for part in parts):
        return None
    axis = node.op.axis if hasattr(node.op, "axis") else node.inputs[0]
    if isinstance(axis, Constant):
        axis = int(axis.data)
    if not isinstance(axis, int):
        return None
    pairs = zip(parts, _joined(node), strict=True)
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
            if _is_constant(one, 1) and other.owner is not None:
                if _scalar(other.owner) is special.Erf:
                    return _log_erfc(-other.owner.inputs[0])
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
    if _is_constant(left, 1):
        if right.owner is not None and _scalar(right.owner) is special.Erf:
            return _log_erfc(right.owner.inputs[0])
        return log1m_of(right, depth)
    sigmoids = [i.owner is not None and _scalar(i.owner) is special.Sigmoid for i in node.inputs]
    if all(sigmoids):
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)).
        return _log_between(*(i.owner.inputs[0] for i in node.inputs))
    return _log_steps(left, right)


def _log_between(high: TensorVariable, low: TensorVariable) -> TensorVariable:
    """Return log(sigmoid(high) - sigmoid(low))."""
    return -pt.softplus(-high) - pt.softplus(low) + _log1mexp(low - high)


def _log_steps(left: TensorVariable, right: TensorVariable) -> TensorVariable | None:
    """Return the logarithms of the steps from 0 over sigmoids to 1, those of an ordered logit."""
    if left.owner is None or right.owner is None:
        return None
    if isinstance(left.owner.op, DimShuffle) and left.owner.op == right.owner.op:
        inner = _log_steps(left.owner.inputs[0], right.owner.inputs[0])
        return _rebuild(left.owner, inner)
    if not all(isinstance(one.owner.op, Subtensor) for one in (left, right)):
        return None
    joined = left.owner.inputs[0]
    if joined is not right.owner.inputs[0] or joined.owner is None:
        return None
    if not isinstance(joined.owner.op, Join):
        return None
    zero, *middle, one = _joined(joined.owner)
    if len(middle) != 1 or not (_is_constant(zero, 0) and _is_constant(one, 1)):
        return None
    sigmoid = middle[0].owner
    if sigmoid is None or _scalar(sigmoid) is not special.Sigmoid:
        return None
    if _last_slice(left.owner) != (1, None) or _last_slice(right.owner) != (None, -1):
        return None
    if zero.type.shape[-1] != 1 or one.type.shape[-1] != 1:
        return None
    (level,) = sigmoid.inputs
    return pt.join(
        level.type.ndim - 1,
        -pt.softplus(-level[..., :1]),
        _log_between(level[..., 1:], level[..., :-1]),
        -pt.softplus(level[..., -1:]),
    )


def _last_slice(node: Apply) -> tuple[Any, Any] | None:
    """Return the ends of what a node takes of the last axis, if it takes all of the others."""
    *others, last = get_idx_list(node.inputs, node.op.idx_list)
    whole = all(isinstance(one, slice) and one == slice(None) for one in others)
    if not whole or len(others) != node.inputs[0].type.ndim - 1 or not isinstance(last, slice):
        return None
    ends = []
    for end in (last.start, last.stop):
        end = end.owner.inputs[0] if getattr(end, "owner", None) is not None else end
        ends.append(int(end.data) if isinstance(end, Constant) else end)
    return (ends[0], ends[1]) if last.step in (None, 1) else None


def _log_switch(node: Apply, depth: int) -> TensorVariable | None:
    condition, *branches = node.inputs
    logs = _logs(branches, depth)
    return None if logs is None else pt.switch(condition, *logs)


def _log_negative(node: Apply, depth: int) -> TensorVariable | None:
    inner = node.inputs[0].owner
    if inner is None or _scalar(inner) is not scalar.Expm1:
        return None
    return _log1m_exponential(inner, depth)


def _log_erfc(x: TensorVariable) -> TensorVariable:
    """Return log(erfc(x)), in the upper tail by the scaled function."""
    tail = pt.gt(x, 1.0)
    high, low = pt.switch(tail, x, 1.0), pt.switch(tail, 1.0, x)
    return pt.switch(tail, pt.log(pt.erfcx(high)) - high**2, pt.log1p(-pt.erf(low)))


def _log1mexp(y: TensorVariable) -> TensorVariable:
    """Return log(1 - exp(y)), to a rounding error of one; -inf where y is not negative.

    Without the maximum PyTensor makes this an operation of its own, a loop without numba.
    """
    return pt.log(pt.maximum(-pt.expm1(y), 0.0))


def _log1m_exponential(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - exp(y)), also where y = -z is rounded to zero."""
    y = node.inputs[0]
    z = _negated(y)
    log_z = None if z is None else log_of(z, depth)
    if z is None or log_z is None:
        return _log1mexp(y)
    small = pt.lt(z, SMALL)
    return pt.switch(small, log_z - z / 2, _log1mexp(pt.switch(small, -1.0, y)))


def _log1m_of_log(y: TensorVariable, depth: int) -> TensorVariable | None:
    """Return log(1 - exp(y)) of the log of a count's distribution function, by its complement.

    Counts that are not zero have one: of a mean of 1e-17 the probability of zero is rounded to one.
    """
    node = y.owner
    if node is None or depth > DEEPEST:
        return None
    if isinstance(node.op, STRUCTURAL):
        return _rebuild(node, _log1m_of_log(node.inputs[0], depth + 1))
    if isinstance(node.op, CheckAndRaise):
        return _log1m_of_log(node.inputs[0], depth + 1)
    if _scalar(node) is scalar.Switch:
        condition, *sides = node.inputs
        logs = [
            pt.zeros_like(side) if _is_constant(side, -np.inf) else _log1m_of_log(side, depth + 1)
            for side in sides
        ]
        return None if None in logs else pt.switch(condition, *logs)
    inner = node.inputs[0].owner if _scalar(node) is scalar.Log else None
    if inner is None:
        return None
    if _scalar(inner) is special.GammaIncC:
        return pt.log(pt.gammainc(*inner.inputs))
    if _scalar(inner) is special.BetaInc:
        first, last, x = inner.inputs
        log_rest = log1m_of(x, depth + 1)
        rest = 1 - x if log_rest is None else pt.exp(log_rest)
        return pt.log(pt.betainc(last, first, rest))
    return None


def _log1m_product(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - p) of the normal distribution function, in either of its forms."""
    if len(node.inputs) != 2:
        return None
    for half, other in (node.inputs, node.inputs[::-1]):
        if not _is_constant(half, 0.5) or other.owner is None:
            continue
        if _scalar(other.owner) is special.Erfc:
            return np.log(0.5) + _log_erfc(-other.owner.inputs[0])
        one_plus = _one_plus(other)
        if one_plus is not None and one_plus.owner and _scalar(one_plus.owner) is special.Erf:
            return np.log(0.5) + _log_erfc(one_plus.owner.inputs[0])
    return None


def _log1m_difference(node: Apply, depth: int) -> TensorVariable | None:
    left, right = node.inputs
    return log_of(right, depth) if _is_constant(left, 1) else None


def _log1m_share(node: Apply, depth: int) -> TensorVariable | None:
    """Return log(1 - a / (a + b)) = log(b) - log(a + b)."""
    below = node.inputs[-1].owner
    if below is None or _scalar(below) is not scalar.Add or len(below.inputs) != 2:
        return None
    above = node.inputs[0] if len(node.inputs) == 2 else pt.constant(1.0)
    for one, other in (below.inputs, below.inputs[::-1]):
        if _are_equal(above, one) and is_positive(one) and is_positive(other):
            logs = _logs([other, one], depth)
            return None if logs is None else -pt.softplus(logs[1] - logs[0])
    return None


def _log1m_negative(node: Apply, depth: int) -> TensorVariable | None:
    inner = node.inputs[0].owner
    return inner.inputs[0] if inner is not None and _scalar(inner) is scalar.Expm1 else None


def _one_plus(graph: TensorVariable) -> TensorVariable | None:
    """Return x of a graph 1 + x."""
    node = graph.owner
    if node is None or _scalar(node) is not scalar.Add or len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        if _is_constant(one, 1):
            return other
    return None


def _log_sum(logs: TensorVariable, axis: tuple[int, ...] | None) -> TensorVariable:
    """Return the logarithm of a sum from the logarithms of what is added."""
    largest = pt.max(logs, axis=axis, keepdims=True)
    total = pt.log(pt.sum(pt.exp(logs - largest), axis=axis, keepdims=True)) + largest
    axes = tuple(range(logs.type.ndim)) if axis is None else axis
    return pt.squeeze(total, axis=axes)


_LOG_RULES: dict[type, _Rule] = {
    scalar.Exp: lambda node, depth: node.inputs[0],
    special.Sigmoid: lambda node, depth: -pt.softplus(-node.inputs[0]),
    special.Erfc: lambda node, depth: _log_erfc(node.inputs[0]),
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
