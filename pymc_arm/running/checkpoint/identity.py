"""What makes one run differ from another, by name, as digests that fit into a manifest.

A checkpoint that is continued with other data, another model or another version would give a number
that belongs to neither, so each of them has a name here that a refusal can tell the user.
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import constant_data, observed_data
from pymc_arm.algorithm.path import Path
from pymc_arm.models.path import GenericPath

__all__ = ["PACKAGES", "model_identity", "path_identity", "versions"]

# What must be the same for the same bits to come out.
PACKAGES = ("pymc_arm", "pymc", "pytensor", "numpy", "scipy", "numba")
# Particles with which a path is tried out.
PROBES = 4
# Public attributes that say how a path works, not what it is.
INCIDENTAL = ("threads",)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide about a result's bits."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"  # others can't read its functions
    return {"python": python, **{name: version(name) for name in PACKAGES}}


def path_identity(path: Path) -> dict[str, str]:
    """Return digests of a path's public attributes, and of its first step."""
    found = {"path": f"{type(path).__module__}.{type(path).__qualname__}"}
    for name, value in sorted(vars(path).items()):
        if name.startswith("_") or name in INCIDENTAL:
            continue
        digest = hashlib.sha256()
        if _update(digest, value):
            found[f"path.{name}"] = digest.hexdigest()
    rng = np.random.default_rng(0)
    particles, log_evidence = path.initialize(rng, PROBES)
    numbers = [np.array([log_evidence])]
    if not path.finished(path.start):
        equal = np.full(PROBES, -np.log(PROBES))
        following = path.advance(path.start, particles, equal, 0.0)
        numbers.append(path.smooth(rng, following, particles).log_ratio)
    found["path's first step"] = _digest_of_numbers(np.concatenate(numbers))
    return found


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
        _update(digest, np.ma.filled(np.ma.asarray(values)))
        found[f"data {name}"] = digest.hexdigest()
    if isinstance(path, GenericPath):
        points, _ = path.initialize(np.random.default_rng(0), PROBES)
        found["model's log-density"] = _digest_of_numbers(path.density.terms(points))
    return found


def _update(digest: Any, value: Any) -> bool:
    """Add a value to a digest; False if it is of a kind that can't be compared."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
        return True
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        digest.update(f"{type(value).__name__} {value!r}".encode())
        return True
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        value = [item for pair in value.items() for item in pair]
    if isinstance(value, list | tuple):
        known = [_update(digest, item) for item in value]
        return any(known) or not known
    return False


def _digest_of_numbers(values: np.ndarray) -> str:
    """Return a digest of the first eight digits: the last ones differ between processors."""
    mantissa, exponent = np.frexp(np.nan_to_num(values, nan=0.0, posinf=1e300, neginf=-1e300))
    rounded = np.rint(mantissa * 2.0**26).astype(np.int64)
    digest = hashlib.sha256(f"{values.shape}".encode())
    digest.update(rounded.tobytes() + exponent.astype(np.int64).tobytes())
    return digest.hexdigest()
