"""Recognising Gaussian process classification in a PyMC model.

A model is of this family if it has one free variable, Gaussian with fixed parameters, one observed
Bernoulli variable, and success probabilities Phi(offset + f) with f either the free variable
itself or a square matrix times it (the whitened form of ``gp.Latent``). That the link is the probit
is found by evaluating it, so that it does not matter how the user wrote it. A covariance or a mean
with unknown hyperparameters is recognised by :mod:`~pymc_arm.families.gpc.hyper_model`.
"""

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.random.basic import BernoulliRV, MvNormalRV, NormalRV
from scipy.special import ndtr, ndtri

from pymc_arm.algorithm.path import Path
from pymc_arm.families.gpc.graph import LINK_RANGE, PROBES, evaluate_fixed, find_latent, read_labels
from pymc_arm.families.gpc.hyper_model import HyperModel, recognize
from pymc_arm.families.registry import Match
from pymc_arm.models.prior import INTERPRETED, is_fixed

__all__ = ["GPCFamily"]


class _Recognized(NamedTuple):
    """The parts of a model of this family."""

    free: Variable
    multiplier: Variable | None
    transposed: bool
    offset: np.ndarray
    labels: np.ndarray


class GPCFamily:
    """Gaussian process classification with a probit link, hyperparameters known or not."""

    name = "gpc"

    def match(self, model: pm.Model) -> Match:
        """Say whether the model is a Gaussian process classifier, and if not, why."""
        found = _recognize(model)
        if isinstance(found, str):
            return _match_with_hyperparameters(model, found)
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
            parts = recognize(model)
            if isinstance(parts, str):
                raise ValueError(f"The model is not of the family {self.name!r}: {found}; {parts}.")
            from pymc_arm.families.gpc.hyper import HyperGPCPath

            return HyperGPCPath(HyperModel(model, parts), **options)
        size = len(found.labels)
        node = found.free.owner
        location, scale = evaluate_fixed(list(node.op.dist_params(node)))
        location = np.broadcast_to(np.asarray(location, dtype=np.float64), (size,))
        scale = np.asarray(scale, dtype=np.float64)
        if isinstance(node.op, NormalRV):
            scale = np.diag(np.broadcast_to(scale, (size,)) ** 2)
        covariance, mean, multiplier = scale, location, None
        if found.multiplier is not None:
            multiplier = np.asarray(evaluate_fixed([found.multiplier])[0], dtype=np.float64)
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


def _match_with_hyperparameters(model: pm.Model, refusal: str) -> Match:
    """Say whether a model that has not one free variable alone is a classifier."""
    has_labels = any(getattr(rv.owner.op, "name", "") == "bernoulli" for rv in model.observed_RVs)
    if len(model.free_RVs) < 2 or not has_labels:
        return Match(False, refusal)
    parts = recognize(model)
    if isinstance(parts, str):
        return Match(False, f"{refusal}; as a process with hyperparameters, {parts}")
    names = ", ".join(str(rv.name) for rv in parts.others)
    return Match(
        True,
        f"{parts.free.name} is a Gaussian latent given {names}, seen through {len(parts.labels)} "
        "probit Bernoulli labels",
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
    labels = read_labels(model, observed)
    if isinstance(labels, str):
        return labels
    probability = observed.owner.op.dist_params(observed.owner)[0]
    linear = find_latent(free, probability, len(labels))
    if isinstance(linear, str):
        return linear
    latent, multiplier, transposed = linear
    offset = _probit_offset(latent, probability, len(labels))
    if isinstance(offset, str):
        return offset
    return _Recognized(free, multiplier, transposed, offset, labels)


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
