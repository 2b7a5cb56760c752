"""A classifier with unknown hyperparameters, recognised in a PyMC model and compiled.

It is of this kind if one free variable v is a Gaussian vector with a label for each element, the
success probabilities are Phi(f) with f = offset + B v, elementwise but for one matrix, and the few
other free variables are continuous and do not depend on v: length scales, amplitudes, a mean.
Offset, B and the parameters of v may depend on these. What the link is applied to, and that it is
the probit, is found by evaluating it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import BernoulliRV, MvNormalRV, NormalRV
from scipy.special import ndtr

from pymc_arm._compat import COMPILING
from pymc_arm.families.gpc.graph import (
    LINK_RANGE,
    PROBES,
    dependent_nodes,
    evaluate_fixed,
    find_latent,
    read_labels,
)
from pymc_arm.models.prior import INTERPRETED

__all__ = ["Conditional", "HyperModel", "Recognized", "recognize"]

# A Student-t in more dimensions is a poor fit, and takes too many evaluations.
MOST_PARAMETERS = 8


class Recognized(NamedTuple):
    """The parts of a model: its latent vector, what multiplies it, Phi's argument, and labels."""

    free: Variable
    multiplier: Variable | None
    transposed: bool
    latent: Variable
    argument: Variable
    labels: np.ndarray
    others: tuple[Variable, ...]


class Conditional(NamedTuple):
    """f = offset + B v given the hyperparameters: its mean and covariance."""

    covariance: np.ndarray
    mean: np.ndarray
    unwhitening: np.ndarray | None
    offset: np.ndarray
    log_prior: float


def recognize(model: pm.Model) -> Recognized | str:
    """Return the parts of the model, or why it is not of this kind."""
    if len(model.free_RVs) < 2:
        return "there are no hyperparameters"
    if model.potentials:
        return f"it has a potential, {model.potentials[0].name}"
    if len(model.observed_RVs) != 1:
        return f"it has {len(model.observed_RVs)} observed variables, not one"
    observed = model.observed_RVs[0]
    if not isinstance(observed.owner.op, BernoulliRV):
        return f"{observed.name} is not Bernoulli"
    labels = read_labels(model, observed)
    if isinstance(labels, str):
        return labels
    shapes = dict(zip(model.free_RVs, (tuple(s) for s in _shapes(model)), strict=True))
    vectors = [rv for rv in model.free_RVs if _is_gaussian(model, rv, shapes[rv], len(labels))]
    if len(vectors) != 1:
        return f"{len(vectors)} free variables are Gaussian vectors as long as the labels, not one"
    free = vectors[0]
    others = tuple(rv for rv in model.free_RVs if rv is not free)
    for rv in others:
        if free in ancestors([rv]):
            return f"{rv.name} depends on {free.name}"
        if not rv.dtype.startswith("float"):
            return f"{rv.name} is discrete"
    if sum(int(np.prod(shapes[rv])) for rv in others) > MOST_PARAMETERS:
        return f"it has more than {MOST_PARAMETERS} hyperparameters"
    probability = observed.owner.op.dist_params(observed.owner)[0]
    linear = find_latent(free, probability, len(labels), fixed=False)
    if isinstance(linear, str):
        return linear
    latent, multiplier, transposed = linear
    if multiplier is None and isinstance(free.owner.op, NormalRV):
        return f"the elements of {free.name} are independent given the others"
    argument = _find_argument(latent, probability)
    if argument is None:
        return "the link is not the probit"
    if not _is_line(latent, argument):
        return f"Phi is not applied to a linear function of {free.name}"
    return Recognized(free, multiplier, transposed, latent, argument, labels, others)


def _shapes(model: pm.Model) -> list[np.ndarray]:
    """Return the shapes of the free variables."""
    return evaluate_fixed([rv.shape for rv in model.free_RVs])


def _is_gaussian(model: pm.Model, rv: Variable, shape: tuple[int, ...], size: int) -> bool:
    kind = isinstance(rv.owner.op, (MvNormalRV, NormalRV))
    return kind and shape == (size,) and model.rvs_to_transforms.get(rv) is None


def _find_argument(latent: Variable, probability: Variable) -> Variable | None:
    """Return the variable nearest to the latent one of which the probabilities are Phi."""
    dependent = {latent}
    nodes = list(dependent_nodes(latent, probability, dependent))
    points = np.linspace(-LINK_RANGE, LINK_RANGE, PROBES)
    for candidate in [latent, *(node.outputs[0] for node in nodes)]:
        values = candidate.type()
        link = clone_replace([probability], {candidate: values}, rebuild_strict=False)[0]
        random = [v for v in ancestors([link]) if v.owner is not None and _is_random(v)]
        if random:
            continue
        function = pytensor.function([values], link, mode=INTERPRETED, on_unused_input="ignore")
        if _is_probit(function, values, candidate, points):
            return candidate
    return None


def _is_line(latent: Variable, argument: Variable) -> bool:
    """Whether the argument of Phi is offset + slope times the latent variable, elementwise."""
    shape = evaluate_fixed([latent.shape])[0]
    places = np.array([-3.0, 0.0, 1.0, 2.5])
    values = evaluate_fixed(
        [
            clone_replace([argument], {latent: _constant(latent, shape, place)})[0]
            for place in places
        ]
    )
    _, at_zero, at_one, _ = values
    lines = [at_zero + place * (at_one - at_zero) for place in places]
    return all(np.allclose(v, w, rtol=1e-6) for v, w in zip(values, lines, strict=True))


def _is_random(variable: Variable) -> bool:
    from pytensor.tensor.random.op import RandomVariable

    return isinstance(variable.owner.op, RandomVariable)


def _is_probit(function: Any, values: Variable, candidate: Variable, points: np.ndarray) -> bool:
    shape = evaluate_fixed([candidate.shape])[0]
    for point in points:
        with np.errstate(all="ignore"):
            found = np.asarray(function(np.full(shape, point, dtype=values.type.dtype)))
        exact = ndtr(point)
        if not (np.abs(found - exact) <= 1e-3 * min(exact, 1 - exact) + 1e-15).all():
            return False
    return True


@dataclass(frozen=True)
class _Block:
    """Where the values of a hyperparameter are among all, and their shape."""

    name: str
    shape: tuple[int, ...]
    first: int
    last: int


class HyperModel:
    """The covariance, the mean and the prior of a classifier, as functions of hyperparameters.

    Hyperparameters are unconstrained: PyMC's value variables, raveled and joined.

    Parameters
    ----------
    model
        The model.
    found
        Its parts.
    """

    def __init__(self, model: pm.Model, found: Recognized) -> None:
        self.labels, self.name = found.labels, str(found.free.name)
        self._transposed, self._normal = found.transposed, isinstance(found.free.owner.op, NormalRV)
        inputs = [model.rvs_to_values[rv] for rv in found.others]
        point = model.initial_point()
        self._blocks, first = [], 0
        for rv, value in zip(found.others, inputs, strict=True):
            start = np.asarray(point[value.name])
            self._blocks.append(_Block(str(rv.name), start.shape, first, first + start.size))
            first += start.size
        self.dimension = first
        self.start = np.concatenate([np.ravel(point[value.name]) for value in inputs]).astype(float)
        shape = evaluate_fixed([found.latent.shape])[0]
        parts = [*found.free.owner.op.dist_params(found.free.owner), found.argument, found.latent]
        parts += [] if found.multiplier is None else [found.multiplier]
        # Values come first: replacing the latent variable makes copies of random ones.
        location, scale, argument, latent, *matrix = model.replace_rvs_by_values(parts)
        lines = [
            clone_replace([argument], {latent: _constant(latent, shape, at)})[0]
            for at in (0.0, 1.0)
        ]
        outputs = [location, scale, *lines, *matrix]
        with COMPILING:
            log_prior = model.logp(vars=list(found.others))
            self._function = pytensor.function(
                inputs, [log_prior, *outputs], mode=INTERPRETED, on_unused_input="ignore"
            )
            self._constrain = pytensor.function(
                inputs, model.replace_rvs_by_values(list(found.others)), mode=INTERPRETED
            )

    def at(self, point: np.ndarray) -> Conditional:
        """Return the process given hyperparameters, (dimension,)."""
        size = len(self.labels)
        with COMPILING, np.errstate(all="ignore"):  # PyTensor's functions keep state during a call
            found = [np.array(each, dtype=float) for each in self._function(*self._split(point))]
        log_prior, location, scale, at_zero, at_one, *matrix = found
        location = np.broadcast_to(location, (size,))
        if self._normal:
            scale = np.diag(np.broadcast_to(scale, (size,)) ** 2)
        offset = np.broadcast_to(at_zero.reshape(-1), (size,))
        slope = np.broadcast_to(at_one.reshape(-1), (size,)) - offset
        unwhitening = None
        if matrix:
            unwhitening = slope[:, None] * (matrix[0].T if self._transposed else matrix[0])
        elif not np.array_equal(slope, np.ones(size)):
            unwhitening = np.diag(slope)
        if unwhitening is None:
            return Conditional(scale, location + offset, None, offset, float(log_prior))
        covariance = unwhitening @ scale @ unwhitening.T
        mean = unwhitening @ location + offset
        return Conditional(covariance, mean, unwhitening, offset, float(log_prior))

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return the hyperparameters as the model has them, each (draw, ...)."""
        with COMPILING:
            rows = [self._constrain(*self._split(point)) for point in points]
        return {
            block.name: np.stack([np.array(row[number]) for row in rows])
            for number, block in enumerate(self._blocks)
        }

    def _split(self, point: np.ndarray) -> list[np.ndarray]:
        return [point[b.first : b.last].reshape(b.shape) for b in self._blocks]


def _constant(variable: Variable, shape: np.ndarray, value: float) -> Variable:
    return pytensor.tensor.specify_shape(
        pytensor.tensor.as_tensor_variable(np.full(shape, value, dtype=variable.type.dtype)),
        variable.type.shape,
    )
