"""The prior transform of a PyMC model: from the unit cube to its unconstrained space.

Nested samplers draw from the prior as the image of a uniform. Each variable is the inverse of its
cumulative distribution function at its share of the cube, given its parents, which are such images
themselves: that holds for hierarchical models as well. A multivariate normal is the image of
independent standard normals under its Cholesky factor.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Ordered
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from benchmarks.peers.target import Function, Target, compile_graph

__all__ = ["compile_prior_transform", "prior_transform"]


def compile_prior_transform(target: Target, batched: bool = False) -> Function:
    """Return a compiled function from points of the cube to points of the unconstrained space."""
    return compile_graph(*prior_transform(target), batched=batched)


def prior_transform(target: Target) -> tuple[TensorVariable, TensorVariable]:
    """Return a point of the cube and its image as graphs."""
    model = target.model
    cube = pt.dvector("cube")
    images: dict[TensorVariable, TensorVariable] = {}
    values = []
    dimension = 0
    for rv in _parents_first(model):
        shape = tuple(int(n) for n in rv.shape.eval())
        size = int(np.prod(shape, dtype=int))
        share = cube[dimension : dimension + size].reshape(shape)
        dimension += size
        image = _quantile(rv, share)
        transform = model.rvs_to_transforms.get(rv)
        if isinstance(transform, Ordered):
            # Sorting a draw of exchangeable elements is a draw from the ordered prior.
            image = pt.sort(image, axis=-1)
        value = image if transform is None else transform.forward(image, *rv.owner.inputs)
        known = {v: images[v] for v in ancestors([image, value]) if v in images}
        if known:
            image, value = graph_replace([image, value], known, strict=False)
        images[rv] = image
        values.append((model.free_RVs.index(rv), value.ravel()))
    if dimension != target.dimension:
        raise NotImplementedError("variables with more values than degrees of freedom")
    return cube, pt.concatenate([value for _, value in sorted(values, key=lambda pair: pair[0])])


def _parents_first(model: pm.Model) -> list[TensorVariable]:
    free = set(model.free_RVs)
    return sorted(model.free_RVs, key=lambda rv: len(set(ancestors([rv])) & free))


def _quantile(rv: TensorVariable, share: TensorVariable) -> TensorVariable:
    """Return the inverse cumulative distribution function of a variable, given its parents."""
    if isinstance(rv.owner.op, MvNormalRV) and rv.type.ndim == 1:
        mean, covariance = rv.owner.op.dist_params(rv.owner)
        normals = pm.icdf(pm.Normal.dist(0.0, 1.0), share)
        return mean + pt.linalg.cholesky(covariance) @ normals
    if getattr(rv.owner.op, "ndim_supp", None) != 0:
        name = type(rv.owner.op).__name__.removesuffix("RV").strip("_")
        raise NotImplementedError(f"{rv.name}: no prior transform for {name}")
    try:
        return pm.icdf(rv, share, warn_rvs=False)
    except NotImplementedError as error:
        name = type(rv.owner.op).__name__.removesuffix("RV").strip("_")
        raise NotImplementedError(f"{rv.name}: PyMC has no icdf of {name}") from error
