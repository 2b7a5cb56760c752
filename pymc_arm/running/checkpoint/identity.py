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

from pymc_arm.algorithm.path import Path

__all__ = ["PACKAGES", "digest_of_numbers", "path_identity", "update_digest", "versions"]

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
        if update_digest(digest, value):
            found[f"path.{name}"] = digest.hexdigest()
    rng = np.random.default_rng(0)
    particles, log_evidence = path.initialize(rng, PROBES)
    numbers = [np.array([log_evidence])]
    if not path.finished(path.start):
        equal = np.full(PROBES, -np.log(PROBES))
        following = path.advance(path.start, particles, equal, 0.0)
        numbers.append(path.smooth(rng, following, particles).log_ratio)
    found["path's first step"] = digest_of_numbers(np.concatenate(numbers))
    return found


def update_digest(digest: Any, value: Any) -> bool:
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
        known = [update_digest(digest, item) for item in value]
        return any(known) or not known
    return False


def digest_of_numbers(values: np.ndarray) -> str:
    """Return a digest of the first eight digits: the last ones differ between processors."""
    mantissa, exponent = np.frexp(np.nan_to_num(values, nan=0.0, posinf=1e300, neginf=-1e300))
    rounded = np.rint(mantissa * 2.0**26).astype(np.int64)
    digest = hashlib.sha256(f"{values.shape}".encode())
    digest.update(rounded.tobytes() + exponent.astype(np.int64).tobytes())
    return digest.hexdigest()
