"""Recognising Gaussian process classification in a PyMC model.

A model is of this family if it has one free variable, Gaussian with fixed parameters, one observed
Bernoulli variable, and success probabilities Phi(offset + f) with f either the free variable
itself or a square matrix times it (the whitened form of ``gp.Latent``). That the link is the probit
is found by evaluating it, so that it does not matter how the user wrote it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.basic import BernoulliRV, MvNormalRV, NormalRV
from pytensor.tensor.shape import SpecifyShape
from scipy.special import ndtr, ndtri

from pymc_arm.algorithm.path import Path
from pymc_arm.families.registry import Match
from pymc_arm.models.prior import INTERPRETED, is_fixed

__all__ = ["GPCFamily"]

# Where the link is compared with Phi: beyond, 0.5 * (1 + erf(f / sqrt(2))) is all rounding error.
LINK_RANGE = 7.0
PROBES = 15
ELEMENTWISE = (Elemwise, DimShuffle, ViewOp, SpecifyShape, CheckAndRaise)


class _Recognized(NamedTuple):
    """The parts of a model of this family."""

    free: Variable
    multiplier: Variable | None
    transposed: bool
    offset: np.ndarray
    labels: np.ndarray


class GPCFamily:
    """Gaussian process classification with a probit link and a fixed covariance."""

    name = "gpc"

    def match(self, model: pm.Model) -> Match:
        """Say whether the model is a Gaussian process classifier, and if not, why."""
        found = _recognize(model)
        if isinstance(found, str):
            return Match(False, found)
        form = "as it stands" if found.multiplier is None else "whitened"
        return Match(
            True,
            f"{found.free.name} is a Gaussian latent ({form}) of fixed covariance, seen through "
            f"{len(found.labels)} probit Bernoulli labels",
        )

    def build(self, model: pm.Model, **options: Any) -> Path:
        """Build the path; ``options`` are those of :class:`~pymc_arm.families.gpc.path.GPCPath`."""
        from pymc_arm.families.gpc.path import GPCPath  # its kernels take a while to load

        found = _recognize(model)
        if isinstance(found, str):
            raise ValueError(f"The model is not of the family {self.name!r}: {found}.")
        size = len(found.labels)
        node = found.free.owner
        location, scale = _evaluate(list(node.op.dist_params(node)))
        location = np.broadcast_to(np.asarray(location, dtype=np.float64), (size,))
        scale = np.asarray(scale, dtype=np.float64)
        if isinstance(node.op, NormalRV):
            scale = np.diag(np.broadcast_to(scale, (size,)) ** 2)
        covariance, mean, multiplier = scale, location, None
        if found.multiplier is not None:
            multiplier = np.asarray(_evaluate([found.multiplier])[0], dtype=np.float64)
            multiplier = multiplier.T if found.transposed else multiplier
            covariance = multiplier @ scale @ multiplier.T
            mean = multiplier @ location
        return GPCPath(
            covariance,
            found.labels,
            mean=mean + found.offset,
            name=str(found.free.name),
            unwhitening=multiplier,
            offset=found.offset,
            **options,
        )


def _recognize(model: pm.Model) -> _Recognized | str:
    """Return the parts of the model, or why it is not of this family."""
    if model.potentials:
        return f"it has a potential, {model.potentials[0].name}"
    if len(model.free_RVs) != 1:
        names = ", ".join(variable.name for variable in model.free_RVs)
        return f"it has {len(model.free_RVs)} free variables ({names}), not a single latent process"
    if len(model.observed_RVs) != 1:
        return f"it has {len(model.observed_RVs)} observed variables, not one"
    free, observed = model.free_RVs[0], model.observed_RVs[0]
    if not isinstance(free.owner.op, (MvNormalRV, NormalRV)) or free.type.ndim != 1:
        return f"its free variable {free.name} is not a Gaussian vector"
    if model.rvs_to_transforms.get(free) is not None:
        return f"its free variable {free.name} is transformed"
    parameters = list(free.owner.op.dist_params(free.owner))
    if not is_fixed(parameters):
        return f"the parameters of {free.name} are random"
    if not isinstance(observed.owner.op, BernoulliRV):
        return f"{observed.name} is not Bernoulli"
    labels = _labels(model, observed)
    if isinstance(labels, str):
        return labels
    probability = observed.owner.op.dist_params(observed.owner)[0]
    linear = _find_latent(free, probability, len(labels))
    if isinstance(linear, str):
        return linear
    latent, multiplier, transposed = linear
    offset = _probit_offset(latent, probability, len(labels))
    if isinstance(offset, str):
        return offset
    return _Recognized(free, multiplier, transposed, offset, labels)


def _labels(model: pm.Model, observed: Variable) -> np.ndarray | str:
    """Return the observed labels, 0 or 1."""
    labels = np.asarray(_evaluate([model.rvs_to_values[observed]])[0])
    if labels.ndim != 1:
        return f"{observed.name} has {labels.ndim} dimensions, not one"
    binary = np.isin(labels, (0, 1))
    if not binary.all():
        entry = int(np.argmin(binary))
        return f"{observed.name}[{entry}] is {labels[entry]}, which is not 0 or 1"
    return labels


def _find_latent(
    free: Variable, probability: Variable, size: int
) -> tuple[Variable, Variable | None, bool] | str:
    """Return what the link is applied to, and the matrix that makes it, maybe transposed."""
    dependent = {free}
    product = None
    for node in _dependent_nodes(free, probability, dependent):
        operation = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if isinstance(operation, Dot):
            if product is not None or node.outputs[0].type.ndim > 2:
                return f"{free.name} enters by more than one product"
            product = node
        elif not isinstance(operation, ELEMENTWISE):
            return f"the probabilities depend on {free.name} through {operation}, not elementwise"
    if probability not in dependent:
        return f"the observed variable does not depend on {free.name}"
    if product is None:
        return free, None, False
    left, right = product.inputs
    if left in dependent and right in dependent:
        return f"the probabilities are not a linear function of {free.name}"
    vector, matrix = (left, right) if left in dependent else (right, left)
    if not _reshapes(free, vector):
        return f"{free.name} is transformed before it is multiplied by a matrix"
    if not is_fixed([matrix]):
        return f"the matrix that multiplies {free.name} is random"
    if tuple(matrix.type.shape) != (size, size) and tuple(_evaluate([matrix.shape])[0]) != (
        size,
        size,
    ):
        return f"the matrix that multiplies {free.name} is not square"
    return product.outputs[0], matrix, vector is left


def _probit_offset(latent: Variable, probability: Variable, size: int) -> np.ndarray | str:
    """Return the offset with which the probabilities are Phi(offset + latent), or what they are."""
    shape = tuple(1 if known == 1 else size for known in latent.type.shape)
    if latent.type.ndim == 2 and shape.count(1) != 1:
        return "the latent process is a matrix"
    values = latent.type()
    link = pytensor.function(
        [values],
        clone_replace([probability], {latent: values}, rebuild_strict=False)[0],
        mode=INTERPRETED,
        on_unused_input="ignore",
    )

    def evaluate(vector: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(link(vector.astype(latent.type.dtype).reshape(shape)))

    refusal = "the link is not the probit"
    offset = np.zeros(size)
    for _ in range(3):
        at_offset = evaluate(-offset)
        if at_offset.shape != (size,) or not ((at_offset > 0) & (at_offset < 1)).all():
            return refusal
        offset = offset + ndtri(at_offset)
    offset[np.abs(offset) < 1e-12] = 0.0
    points = np.linspace(-LINK_RANGE, LINK_RANGE, PROBES)
    for shift in range(PROBES):
        wanted = points[(np.arange(size) + shift) % PROBES]
        found = evaluate(wanted - offset)
        exact = ndtr(wanted)
        wrong = np.abs(found - exact) > 1e-3 * np.minimum(exact, 1 - exact) + 1e-15
        if wrong.any():
            entry = int(np.argmax(wrong))
            at, gives, should = wanted[entry], found[entry], exact[entry]
            return f"{refusal}: at {at:g} it gives {gives:.4g}, not {should:.4g}"
    return offset


def _evaluate(variables: list[Variable]) -> list[Any]:
    """Return the values of variables that depend on constants and data only."""
    values: list[Any] = pytensor.function([], variables, mode=INTERPRETED)()
    return values


def _dependent_nodes(free: Variable, target: Variable, dependent: set[Variable]) -> Iterator[Any]:
    """Yield the nodes on the way from ``free`` to ``target``, and collect their outputs."""
    visited: dict[Variable, bool] = {free: True}
    nodes = []
    waiting = [target]
    while waiting:
        variable = waiting[-1]
        if variable in visited or variable.owner is None:
            visited.setdefault(variable, False)
            waiting.pop()
            continue
        missing = [parent for parent in variable.owner.inputs if parent not in visited]
        if missing:
            waiting.extend(missing)
            continue
        visited[variable] = any(visited[parent] for parent in variable.owner.inputs)
        if visited[variable]:
            nodes.append(variable.owner)
        waiting.pop()
    dependent.update(variable for variable, depends in visited.items() if depends)
    yield from nodes


def _reshapes(free: Variable, vector: Variable) -> bool:
    """Whether ``vector`` is ``free`` but for its shape."""
    reshaping = (DimShuffle, ViewOp, SpecifyShape)
    while vector is not free:
        if vector.owner is None or not isinstance(vector.owner.op, reshaping):
            return False
        vector = vector.owner.inputs[0]
    return True
