"""The log-density of a model as a list of terms over one vector of coordinates.

With all free values raveled into x, log f(x) = sum_k t_k(x). A term is one element of the
log-density of a free variable (with the Jacobian of its transform), of an observed variable, or of
a potential. The finer the terms, the earlier data can come in, so sums that PyMC has already taken
are opened again: over the steps of a random walk, and over the Cholesky factor of a multivariate
normal, whose k-th term is then log p(x_k | x_1, ..., x_{k-1}).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.multivariate import CARRV, ICARRV
from pymc.distributions.transforms import CircularTransform
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Add, Identity, Neg, Sub, Switch
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models import autoregression
from pymc_arm.models.graph.batching import open_graph
from pymc_arm.models.graph.first_axes import index_first_axes
from pymc_arm.models.graph.observed import compute_observed
from pymc_arm.models.graph.precision import widen
from pymc_arm.models.log_densities import log_densities
from pymc_arm.models.partly_missing import StandIn, is_partly_missing, over_stand_in
from pymc_arm.models.prior import INTERPRETED
from pymc_arm.models.rounding import keep_inside
from pymc_arm.models.stable import stabilize

__all__ = ["Layout", "TermBlock", "VariableSlice", "build_terms", "count_terms"]

# How the types of whole numbers and truth values begin.
DISCRETE = ("int", "uint", "bool")


@dataclass(frozen=True)
class VariableSlice:
    """Where the value of one free variable sits in the vector of coordinates."""

    name: str
    start: int
    shape: tuple[int, ...]
    discrete: bool
    elementwise: bool  # whether each element has a prior term of its own
    bound: float = np.inf  # the largest absolute value

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def coordinates(self) -> range:
        """The coordinates of the variable."""
        return range(self.start, self.start + self.size)

    def label(self, coordinate: int) -> str:
        """Return the name of a coordinate, such as ``theta[2]``."""
        if not self.shape:
            return self.name
        index = np.unravel_index(coordinate - self.start, self.shape)
        return f"{self.name}[{', '.join(str(int(i)) for i in index)}]"


@dataclass(frozen=True)
class Layout:
    """The free variables of a model as one vector."""

    slots: tuple[VariableSlice, ...]

    @classmethod
    def of(cls, model: pm.Model, values: Sequence[np.ndarray]) -> "Layout":
        """Lay out a model's free variables, with shapes from an array of draws for each."""
        slots, start = [], 0
        for rv, array in zip(model.free_RVs, values, strict=True):
            slot = VariableSlice(
                rv.name,
                start,
                tuple(array.shape[1:]),
                discrete=rv.type.dtype.startswith(DISCRETE),
                elementwise=getattr(rv.owner.op, "ndim_supp", None) == 0,
                bound=np.pi if _is_circular(model, rv) else np.inf,
            )
            slots.append(slot)
            start += slot.size
        return cls(tuple(slots))

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(slot.size for slot in self.slots)

    @property
    def discrete(self) -> np.ndarray:
        """Which coordinates are discrete."""
        parts = [np.full(slot.size, slot.discrete) for slot in self.slots]
        return np.concatenate([np.zeros(0, dtype=bool), *parts])

    def slot_of(self, coordinate: int) -> VariableSlice:
        """Return the variable that a coordinate belongs to."""
        return next(slot for slot in self.slots if coordinate in slot.coordinates)

    def label(self, coordinate: int) -> str:
        """Return the name of a coordinate."""
        return self.slot_of(coordinate).label(coordinate)

    def ravel(self, values: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Return (size, dimension) coordinates from an array for each variable."""
        columns = [np.asarray(array, dtype=float).reshape(size, -1) for array in values]
        return np.concatenate([np.empty((size, 0)), *columns], axis=1)

    def unravel(self, coordinates: np.ndarray) -> list[np.ndarray]:
        """Return an array for each variable from (size, dimension) coordinates."""
        return [
            coordinates[:, slot.start : slot.start + slot.size].reshape(
                len(coordinates), *slot.shape
            )
            for slot in self.slots
        ]


@dataclass(frozen=True)
class TermBlock:
    """The terms of one variable or potential: a few vector-valued graphs, end to end."""

    name: str
    kind: str  # "prior", "data" or "potential"
    pieces: tuple[TensorVariable, ...]
    variable: tuple[bool, ...]  # whether a free variable is in the graph, for each piece

    def observed(self, x: TensorVariable, draws: np.ndarray) -> "TermBlock":
        """Return the same terms, with no more computed of a table than is looked up in it."""
        if self.kind == "prior":
            return self
        return replace(self, pieces=tuple(compute_observed(x, p, draws) for p in self.pieces))


def build_terms(
    model: pm.Model, layout: Layout, stand_ins: Mapping[str, StandIn] | None = None
) -> tuple[TensorVariable, list[TermBlock]]:
    """Return the vector of coordinates and the blocks of terms as graphs over it.

    Parameters
    ----------
    model, layout
        The model, and its free variables as one vector.
    stand_ins
        The densities that missing elements of vectors are drawn from, where a run draws them; a
        whole density is the same without.
    """
    # pm.sample_posterior_predictive of PyMC 5.28 leaves doubles in the list of observed variables.
    observed = list(dict.fromkeys(model.observed_RVs))
    variables = [*model.free_RVs, *observed, *model.potentials]
    kinds = ["prior"] * len(model.free_RVs) + ["data"] * len(observed)
    kinds += ["potential"] * len(model.potentials)
    logps = log_densities(model, variables)
    parts: list[TensorVariable] = []
    counts = []
    for rv, kind, logp in zip(variables, kinds, logps, strict=True):
        split = _split_multivariate_normal(model, rv)
        if kind != "potential" and isinstance(rv.owner.op, CARRV):
            split = autoregression.log_density(model, rv)
        logp = pt.as_tensor(logp)
        if kind != "potential" and is_partly_missing(rv):
            split = over_stand_in(model, rv, logp, stand_ins or {})
        if split is None:
            (checked,) = _checks_to_minus_infinity([logp])
            discrete = kind == "prior" and rv.type.dtype.startswith(DISCRETE)
            pieces = _summands_of_chain(checked) if discrete else _summands(checked)
        else:
            pieces = [split]
        ravelled = [_ravel(piece) for piece in pieces]
        if kind != "potential" and isinstance(rv.owner.op, ICARRV):
            ravelled.append(pt.constant([autoregression.log_normalizer(rv)]))
        if _is_circular(model, rv):
            # The whole line is mapped to the circle over and over; one turn is meant.
            once = pt.le(pt.abs(model.rvs_to_values[rv]), np.pi)
            ravelled[0] = pt.switch(once.ravel(), ravelled[0], -np.inf)
        parts.extend(ravelled)
        counts.append(len(ravelled))

    parts = keep_inside(parts, model, [model.rvs_to_values[rv] for rv in model.free_RVs])
    x = pt.tensor("x", dtype="float64", shape=(layout.dimension,))
    replacements = {}
    for slot, rv in zip(layout.slots, model.free_RVs, strict=True):
        value = model.rvs_to_values[rv]
        piece = x[slot.start : slot.start + slot.size].reshape(slot.shape)
        # Discrete values are whole numbers, which float64 holds exactly.
        piece = piece.astype(value.type.dtype)
        replacements[value] = pt.specify_shape(piece, slot.shape) if slot.shape else piece
    parts = _checks_to_minus_infinity(parts)
    for shared in {v for v in ancestors(parts) if isinstance(v, SharedVariable)}:
        if isinstance(shared.type, TensorType):  # pm.Data, as it is now
            replacements[shared] = pt.constant(shared.get_value(), name=shared.name)
    parts = stabilize(widen(graph_replace(parts, replacements, strict=False)))
    # PyTensor 3.3 loses a constant when it batches a concatenation, so none is left constant.
    nothing = pt.zeros_like(x).sum()
    depends = [x in ancestors([part]) for part in parts]
    parts = [part if own else part + nothing for part, own in zip(parts, depends, strict=True)]
    blocks, first = [], 0
    for rv, kind, count in zip(variables, kinds, counts, strict=True):
        mine = slice(first, first + count)
        blocks.append(TermBlock(rv.name, kind, tuple(parts[mine]), tuple(depends[mine])))
        first += count
    return x, blocks


def count_terms(
    x: TensorVariable, pieces: Sequence[TensorVariable], point: np.ndarray
) -> np.ndarray:
    """Return the number of terms of each piece; where its graph does not say, that at a point."""
    known = [piece.type.shape[0] for piece in pieces]
    if None in known:
        shapes = [piece.shape[0] for piece in pieces]
        known = pytensor.function([x], shapes, mode=INTERPRETED, on_unused_input="ignore")(point)
    return np.array(known, dtype=np.int64)


def _ravel(piece: TensorVariable) -> TensorVariable:
    """Return a vector, by a reshape only where there is no simpler way."""
    return piece.ravel() if piece.type.ndim > 1 else pt.atleast_1d(piece)


def _is_circular(model: pm.Model, rv: TensorVariable) -> bool:
    return isinstance(model.rvs_to_transforms.get(rv), CircularTransform)


def _checks_to_minus_infinity(graphs: list[TensorVariable]) -> list[TensorVariable]:
    """Make an invalid parameter give -inf instead of an exception, and open what is closed.

    It must happen before batching, where one bad particle would otherwise condemn all of them.
    """
    inputs = [v for v in ancestors(graphs) if v.owner is None and not isinstance(v, Constant)]
    fgraph = FunctionGraph(inputs, graphs, clone=False)
    in2out(open_graph).rewrite(fgraph)
    in2out(_check_to_minus_infinity, ignore_newtrees=True).rewrite(fgraph)
    in2out(_checks_in_loop, ignore_newtrees=True).rewrite(fgraph)
    index_first_axes(fgraph)
    return list(fgraph.outputs)


@node_rewriter([CheckAndRaise])
def _check_to_minus_infinity(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    value, *conditions = node.inputs
    if not value.type.dtype.startswith("float"):
        return None
    valid = pt.all([pt.all(condition) for condition in conditions])
    return [pt.switch(valid, value, -np.inf)]


@node_rewriter([Scan])
def _checks_in_loop(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Do the same in the step of a loop: a scan is a graph inside of the graph."""
    scan = node.op
    inner = scan.fgraph.unfreeze() if hasattr(scan.fgraph, "unfreeze") else scan.fgraph.clone()
    if not any(isinstance(step.op, CheckAndRaise | Scan) for step in inner.toposort()):
        return None
    outputs = _checks_to_minus_infinity(list(inner.outputs))
    opened = Scan(
        list(inner.inputs),
        outputs,
        scan.info,
        mode=scan.mode,
        truncate_gradient=scan.truncate_gradient,
        name=scan.name,
        profile=scan.profile,
        allow_gc=scan.allow_gc,
        strict=scan.strict,
    )
    return opened(*node.inputs, return_list=True)


def _summands(graph: TensorVariable) -> list[TensorVariable]:
    """Open the outermost sums of a graph: return graphs whose elements have the same total."""
    node = graph.owner
    if node is None:
        return [graph]
    if isinstance(node.op, Sum):
        return _summands(node.inputs[0])
    if isinstance(node.op, DimShuffle) and node.op.is_expand_dims:
        return _summands(node.inputs[0])
    if isinstance(node.op, Elemwise):
        same = all(i.type.broadcastable == graph.type.broadcastable for i in node.inputs)
        if isinstance(node.op.scalar_op, Add) and same:
            return [piece for i in node.inputs for piece in _summands(i)]
        if isinstance(node.op.scalar_op, Sub) and same:
            left, right = node.inputs
            return [*_summands(left), *(-piece for piece in _summands(right))]
        if isinstance(node.op.scalar_op, Neg):
            return [-piece for piece in _summands(node.inputs[0])]
        # PyMC names Jacobians by an identity; that of a chain of transforms is a sum of sums.
        if isinstance(node.op.scalar_op, Identity) and _adds_elements(node.inputs[0]):
            return _summands(node.inputs[0])
    return [graph]


def _summands_of_chain(graph: TensorVariable) -> list[TensorVariable]:
    """Do the same behind a check of parameters, which becomes a summand of its own.

    It is for the prior of a chain of states, whose steps are then summed one after the other.
    """
    node = graph.owner
    if node is None or not isinstance(node.op, Elemwise):
        return _summands(graph)
    if isinstance(node.op.scalar_op, Switch):
        valid, value, otherwise = node.inputs
        if _adds_elements(value) and all(valid.type.broadcastable) and _is_never(otherwise):
            return [*_summands(value), pt.switch(valid, pt.zeros_like(value), -np.inf)]
    return _summands(graph)


def _is_never(graph: Variable) -> bool:
    """Whether a graph is the constant minus infinity."""
    while graph.owner is not None and isinstance(graph.owner.op, DimShuffle):
        graph = graph.owner.inputs[0]
    return isinstance(graph, Constant) and bool(np.all(np.asarray(graph.data) == -np.inf))


def _adds_elements(graph: TensorVariable) -> bool:
    """Whether a summand of a graph adds up the elements of an array."""
    node = graph.owner
    if node is None:
        return False
    if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Add | Sub | Neg | Identity):
        return any(_adds_elements(part) for part in node.inputs)
    return isinstance(node.op, Sum)


def _split_multivariate_normal(model: pm.Model, rv: TensorVariable) -> TensorVariable | None:
    """Return log p(x_k | x_1, ..., x_{k-1}) for each k of a free MvNormal, or None."""
    if rv not in model.free_RVs or not isinstance(rv.owner.op, MvNormalRV):
        return None
    if rv.type.ndim != 1 or model.rvs_to_transforms.get(rv) is not None:
        return None
    mean, covariance = rv.owner.op.dist_params(rv.owner)
    mean, covariance = model.replace_rvs_by_values([mean, covariance])
    factor = pt.linalg.cholesky(covariance)
    inverse = pt.linalg.solve_triangular(factor, pt.eye(covariance.shape[0]), lower=True)
    whitened = inverse @ (model.rvs_to_values[rv] - mean)
    return -0.5 * whitened**2 - 0.5 * np.log(2 * np.pi) - pt.log(pt.diagonal(factor))
