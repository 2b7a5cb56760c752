"""Logarithms that stay finite where their argument under- or overflows.

A vague prior has draws far out: a precision of exp(-3000), a log-odds of 2000. There ``exp`` is
zero and ``1 - sigmoid`` is zero, and a log-density that takes their logarithm says "impossible" of
a point that is only unlikely. PyTensor rewrites ``log(exp(x))`` to ``x`` where the two meet; here
the logarithm is taken through products, powers, sums, indices and switches until they do meet
(:mod:`pymc_arm.models.stable_logarithms`), and comparisons with zero of what is positive
(``logpow`` of PyMC has them) are answered.
"""

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.graph.forms import is_constant, opposite_of, scalar_kind
from pymc_arm.models.graph.slopes import use_differences
from pymc_arm.models.stable_logarithms import is_positive, log1m_of, log1m_of_log, log_of

__all__ = ["stabilize"]


def stabilize(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs whose logarithms are taken in their stable forms.

    Incomplete gamma and beta functions get quick derivatives (:mod:`pymc_arm.models.graph.slopes`).
    """
    if not graphs:
        return graphs
    graphs = clone_replace(graphs)
    inputs = [v for v in ancestors(graphs) if v.owner is None and not isinstance(v, Constant)]
    fgraph = FunctionGraph(inputs, graphs, clone=False)
    # The last knows incomplete gamma and beta functions no longer as PyTensor's.
    for rewriter in (_sign, _logarithm, _complement, _comparison, _switch, use_differences):
        in2out(rewriter, ignore_newtrees=True).rewrite(fgraph)
    return list(fgraph.outputs)


@node_rewriter([pt.log, pt.log1p])
def _logarithm(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    (inner,) = node.inputs
    if isinstance(node.op.scalar_op, scalar.Log):
        found = log_of(inner)
    else:
        opposite = opposite_of(inner)
        found = None if opposite is None else log1m_of(opposite)
    return None if found is None else _as(found, node.outputs[0])


@node_rewriter([pt.log1mexp])
def _complement(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    found = log1m_of_log(node.inputs[0], 0)
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
    kind = scalar_kind(node)
    if is_constant(right, 0) and is_positive(left):
        answer = kind in (scalar.NEQ, scalar.GT, scalar.GE)
    elif is_constant(left, 0) and is_positive(right):
        answer = kind in (scalar.NEQ, scalar.LT, scalar.LE)
    else:
        return None
    same = pt.zeros_like(node.outputs[0], dtype="bool")
    return _as(~same if answer else same, node.outputs[0])


@node_rewriter([pt.switch])
def _switch(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Take a function that both sides have out of a switch, so that it is computed once.

    A Bernoulli variable is ``switch(y, log(p), log(1 - p))``: with log-odds, the logarithm of one
    plus ``exp`` of either sign.
    """
    condition, yes, no = node.inputs
    found = _choose(condition, yes, no, node.outputs[0].type.broadcastable)
    return None if found is None else _as(found, node.outputs[0])


def _choose(
    condition: Variable, yes: Variable, no: Variable, shape: tuple[bool, ...]
) -> TensorVariable | None:
    """Return a switch inside of what both sides have in common, None if that is nothing."""
    if any(side.type.broadcastable != shape for side in (yes, no)):
        return None
    for minus, plus, sign in ((yes, no, -1.0), (no, yes, 1.0)):
        negative = minus.owner is not None and scalar_kind(minus.owner) is scalar.Neg
        if negative and minus.owner.inputs[0] is plus and plus.type.dtype == "float64":
            return plus * pt.switch(condition, sign, -sign)
    if yes.owner is None or no.owner is None or yes.owner.op != no.owner.op:
        return None
    one, other = yes.owner.inputs, no.owner.inputs
    if scalar_kind(yes.owner) is None or len(one) != 1 or one[0].type.dtype != other[0].type.dtype:
        return None
    inner = _choose(condition, one[0], other[0], shape)
    inner = pt.switch(condition, one[0], other[0]) if inner is None else inner
    return yes.owner.op(inner)


def _as(found: TensorVariable, original: TensorVariable) -> list[Variable] | None:
    """Return a graph as a replacement, with the static shape of what it replaces."""
    if found.type.dtype != original.type.dtype or found.type.ndim != original.type.ndim:
        return None
    if found.type.shape != original.type.shape:
        found = pt.specify_shape(found, original.type.shape)
    return [found]
