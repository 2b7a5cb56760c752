"""What makes one model differ from another, as digests that fit into a checkpoint's manifest."""

import hashlib

import numpy as np
import pymc as pm

from pymc_arm._compat import constant_data, observed_data
from pymc_arm.algorithm.path import Path
from pymc_arm.models.path import GenericPath
from pymc_arm.running.checkpoint.identity import PROBES, digest_of_numbers, update_digest

__all__ = ["model_identity"]


def model_identity(model: pm.Model, path: Path) -> dict[str, str]:
    """Return digests of a model's variables, its data and its log-density."""
    variables = [
        f"{variable.name} {type(variable.owner.op).__name__} {variable.type}"
        for variable in (*model.free_RVs, *model.observed_RVs)
    ]
    potentials = [f"{potential.name} {potential.type}" for potential in model.potentials]
    found = {
        "model's variables": hashlib.sha256(repr([variables, potentials]).encode()).hexdigest()
    }
    for name, values in {**observed_data(model), **constant_data(model)}.items():
        digest = hashlib.sha256()
        update_digest(digest, np.ma.filled(np.ma.asarray(values)))
        found[f"data {name}"] = digest.hexdigest()
    if isinstance(path, GenericPath):
        points, _ = path.initialize(np.random.default_rng(0), PROBES)
        found["model's log-density"] = digest_of_numbers(path.density.terms(points))
    return found
