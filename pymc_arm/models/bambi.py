"""Draws of Bambi, as the PyMC model behind it has them.

Bambi changes its draws: the intercept is moved to where predictors that it has centred are zero,
and standardised group effects are left out. Neither is what the model that was sampled calls by
these names, so both are undone. Nothing is imported from Bambi.
"""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_arm.errors import DrawsError

__all__ = ["undo_bambi"]

OFFSET = "_offset"


def undo_bambi(posterior: xr.Dataset, model: Any) -> tuple[xr.Dataset, pm.Model]:
    """Return draws of the variables of the PyMC model behind a model of Bambi, and that model."""
    backend = model.backend
    if getattr(backend, "model", None) is None:
        raise DrawsError("The model of Bambi is not built: give the one whose fit() was called.")
    posterior = _add_offsets(posterior, backend.model)
    if getattr(model, "center_predictors", False):
        for component in backend.distributional_components.values():
            posterior = _center_intercept(posterior, component)
    return posterior, backend.model


def _add_offsets(posterior: xr.Dataset, model: pm.Model) -> xr.Dataset:
    """Add standardised group effects, which are effects over their standard deviation."""
    found = {}
    for name in (rv.name for rv in model.free_RVs if rv.name.endswith(OFFSET)):
        effect = name.removesuffix(OFFSET)
        scale = f"{effect}_sigma"
        if name not in posterior and effect in posterior and scale in posterior:
            found[name] = posterior[effect] / posterior[scale]
    return posterior.assign(found)


def _center_intercept(posterior: xr.Dataset, component: Any) -> xr.Dataset:
    """Move the intercept of a component back to the means of its predictors."""
    own = component.component
    if not (getattr(own, "intercept_term", None) and getattr(own, "common_terms", None)):
        return posterior
    means = np.atleast_2d(component.design_matrix_without_intercept).mean(axis=0)
    name, first = _name(own.intercept_term), 0
    if name not in posterior:
        return posterior
    intercept = posterior[name]
    rest = set(intercept.dims)
    for term in own.common_terms.values():
        effect = posterior[_name(term)]
        levels = [dim for dim in effect.dims if dim not in rest]
        size = int(np.prod([effect.sizes[dim] for dim in levels], dtype=int))
        weights = xr.DataArray(
            means[first : first + size].reshape([effect.sizes[dim] for dim in levels]), dims=levels
        )
        intercept, first = intercept + (effect * weights).sum(levels), first + size
    return posterior.assign({name: intercept})


def _name(term: Any) -> str:
    return str(getattr(term, "alias", None) or term.name)
