"""What the transform of a variable does to its prior, found by trying.

A default transform maps the support of its distribution onto the line, one to one. Any other may
leave a part of it out: ``ordered`` keeps one of the k! orders, an interval keeps what is in it. So
prior draws go there and back, and what comes back as it was is in the part that is kept. That the
transform undoes itself, and that its Jacobian is right, is tried too: log Z depends on both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import Transform, _default_transform
from pymc.logprob.abstract import MeasurableOp
from pymc.logprob.transforms import ChainedTransform, CircularTransform, IntervalTransform
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_arm.errors import ModelError
from pymc_arm.models.graph_sampler import INTERPRETED, GraphSampler

__all__ = ["Kept", "is_fixed", "is_usual", "name_transform", "understand"]

# Prior draws that are sent through a transform: a part of the prior that one of them in a hundred
# would miss is found with probability 0.9.
TRIALS = 200
# Points at which a transform's own inverse and Jacobian are tried, and the largest dimension in
# which the Jacobian is (it takes two evaluations a coordinate).
POINTS, LARGEST_JACOBIAN = 4, 10
# Relative error of what comes back; logarithms of differences lose half of the digits at most.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Kept:
    """Which part of a prior a transform keeps.

    ``part`` is "all"; "ascending" or "descending" for one order of exchangeable elements;
    "elements" if elements are restricted one by one, "rows" if together. ``share`` is that of the
    trial draws, or of their elements, that came back. ``orders`` says whether sorting is what it
    would take.
    """

    part: str
    share: float = 1.0
    orders: bool = False


def is_fixed(variables: Sequence[Variable]) -> bool:
    """Whether no random variable is among what these depend on."""
    return not any(
        variable.owner is not None and isinstance(variable.owner.op, MeasurableOp)
        for variable in ancestors(variables)
    )


def is_usual(rv: TensorVariable, transform: Transform | None) -> bool:
    """Whether a transform is the one that PyMC gives to the distribution by itself."""
    if transform is None:
        return True
    try:
        default = _default_transform(rv.owner.op, rv)
    except NotImplementedError:
        return False
    if type(default) is not type(transform):
        return False
    if isinstance(transform, IntervalTransform):
        # The bounds of a user come from a function of the user's, or are constants.
        module = getattr(transform.args_fn, "__module__", "")
        return module.startswith("pymc.") and not module.endswith(".transforms")
    return True


def understand(model: pm.Model, rv: TensorVariable, rng: np.random.Generator) -> Kept:
    """Return what part of its prior the transform of a variable keeps."""
    transform = model.rvs_to_transforms[rv]
    inputs = rv.owner.inputs

    def back_and_forth(draw: TensorVariable) -> TensorVariable:
        return transform.backward(transform.forward(draw, *inputs), *inputs)

    graphs = [rv, transform.forward(rv, *inputs), back_and_forth(rv)]
    if rv.type.ndim:
        ascending = pt.sort(rv, axis=-1)
        descending = ascending[..., ::-1]
        graphs += [ascending, back_and_forth(ascending), descending, back_and_forth(descending)]
    with np.errstate(all="ignore"):
        draws, values, *rest = GraphSampler(graphs, model.free_RVs).draw_graphs(rng, TRIALS)
        by_element = _check_inverse(rv, transform, values, rng)
        came = _equal(draws, rest[0])
        if came.all():
            return Kept("all")
        rows = float(came.reshape(TRIALS, -1).all(axis=1).mean())
        orders = {"ascending": rest[1:3], "descending": rest[3:5]} if rv.type.ndim else {}
        for part, (ordered, back) in orders.items():
            if _equal(ordered, back).all():
                if _is_exchangeable(model, rv, rng):
                    return Kept(part)
                return Kept("rows", rows, orders=True)
    if by_element and getattr(rv.owner.op, "ndim_supp", None) == 0:
        return Kept("elements", float(came.mean()))
    return Kept("rows", rows)


def _equal(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    # Draws that are infinite already are another matter.
    close = np.isclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * _scale(one))
    return close | ~np.isfinite(one)


def _scale(draws: np.ndarray) -> float:
    finite = np.abs(draws[np.isfinite(draws)])
    return float(np.median(finite)) if len(finite) else 1.0


def _check_inverse(
    rv: TensorVariable, transform: Transform, values: np.ndarray, rng: np.random.Generator
) -> bool:
    """Refuse a transform that does not undo itself, or whose Jacobian is another's.

    Return whether it acts on each element by itself. Bounds that are random are drawn anew in each
    evaluation: what depends on them is not tried.
    """
    value = pt.tensor(dtype="float64", shape=(None,) * (values.ndim - 1))
    inputs = rv.owner.inputs
    try:
        variable = transform.backward(value, *inputs)
        again = transform.forward(variable, *inputs)
        jacobian = pt.sum(transform.log_jac_det(value, *inputs))
        function = pytensor.function(
            [value], [variable, again, jacobian], mode=INTERPRETED, on_unused_input="ignore"
        )
        at = [_at(function, rng.normal(size=values.shape[1:])) for _ in range(POINTS)]
    except (NotImplementedError, TypeError, ValueError):
        return isinstance(transform, IntervalTransform)
    if not is_fixed([variable]):
        return isinstance(transform, IntervalTransform)
    for point, (_, back, _) in at:
        if isinstance(transform, CircularTransform):
            continue
        if not np.allclose(point, back, rtol=1e-4, atol=1e-4):
            raise ModelError(
                f"The transform {name_transform(transform)!r} of {rv.name!r} does not undo itself: "
                f"forward(backward(v)) is {_few(back)} at v = {_few(point)}. log Z needs a "
                "one-to-one transform: correct its forward or backward, or leave transform= out."
            )
    by_element = _acts_by_element(function, at)
    if not 0 < int(np.prod(values.shape[1:])) <= LARGEST_JACOBIAN:
        return by_element
    for point, (made, _, stated) in at:
        found = _log_jacobian(function, point, np.asarray(made))
        if found is not None and abs(found - float(stated)) > 1e-3 * (1 + abs(found)):
            raise ModelError(
                f"The log_jac_det of the transform {name_transform(transform)!r} of {rv.name!r} is "
                f"{float(stated):.6g} at v = {_few(point)}, but its backward has {found:.6g} there "
                "(by differences). The density of the variable would be wrong: correct it."
            )
    return by_element


def _acts_by_element(function: Any, at: Sequence[tuple[np.ndarray, Sequence[np.ndarray]]]) -> bool:
    """Whether a change of one element, the first or the last, changes that one only."""
    point, (made, _, _) = at[0]
    if made.shape != point.shape:
        return False
    for place in (0, -1):
        other = point.copy()
        other.reshape(-1)[place] += 0.5
        changed = np.ravel(function(other)[0] != made)
        if changed.sum() > 1 or not changed[place]:
            return False
    return True


def _at(function: Any, point: np.ndarray) -> tuple[np.ndarray, Sequence[np.ndarray]]:
    return point, function(point)


def _log_jacobian(function: Any, point: np.ndarray, made: np.ndarray) -> float | None:
    """Return the logarithm of the determinant of the derivative of ``backward``, if square."""
    if made.size != point.size:
        return None
    step, columns = 1e-5, []
    for place in range(point.size):
        shift = (step * np.eye(point.size)[place]).reshape(point.shape)
        columns.append((function(point + shift)[0] - function(point - shift)[0]).ravel())
    sign, log_determinant = np.linalg.slogdet(np.stack(columns, axis=1) / (2 * step))
    return float(log_determinant) if sign != 0 else None


def _is_exchangeable(model: pm.Model, rv: TensorVariable, rng: np.random.Generator) -> bool:
    """Whether the density of a variable is the same for any order of its elements."""
    value = rv.type()
    try:
        density = pt.sum(pm.logp(rv, value))
        parents = [v for v in model.free_RVs if v is not rv]
        places = [v.type() for v in parents]
        (graph,) = clone_replace([density], dict(zip(parents, places, strict=True)))
        function = pytensor.function(
            [value, *places], graph, mode=INTERPRETED, on_unused_input="ignore"
        )
        draws = GraphSampler([rv, *parents], model.free_RVs).draw_graphs(rng, POINTS)
    except NotImplementedError:
        return False
    for row in zip(*draws, strict=True):
        before = float(function(*row))
        for other in (row[0][..., ::-1], rng.permuted(row[0], axis=-1)):
            after = float(function(other, *row[1:]))
            if np.isfinite(before) and not np.isclose(before, after, rtol=1e-9, atol=1e-9):
                return False
    return True


def name_transform(transform: Transform) -> str:
    """Return the name of a transform, or the names of those it is a chain of."""
    if isinstance(transform, ChainedTransform):
        return " then ".join(name_transform(one) for one in transform.transform_list)
    return str(getattr(transform, "name", None) or type(transform).__name__)


def _few(array: np.ndarray) -> str:
    flat = [f"{number:.4g}" for number in np.asarray(array, dtype=float).ravel()[:4]]
    return f"[{', '.join(flat)}{', ...' if np.size(array) > 4 else ''}]"
