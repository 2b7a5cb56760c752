"""Everything that differs between PyMC 5 with ArviZ 0.x and PyMC 6 with ArviZ 1.x.

PyMC 5 returns ``arviz.InferenceData``, PyMC 6 an xarray ``DataTree``. Both are trees of datasets,
and the rest of the package sees them only through the functions of this module.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any

import pymc as pm
import xarray as xr
from pymc.backends import arviz as pymc_arviz

__all__ = [
    "CLONE_INNER_GRAPHS",
    "COMPILING",
    "PYMC_MAJOR",
    "InferenceTree",
    "constant_data",
    "coords_and_dims",
    "find_model",
    "get_group",
    "has_group",
    "inline_ofg_node",
    "is_wrapper",
    "load",
    "make_tree",
    "nlinalg",
    "observed_data",
    "set_attributes",
    "slinalg",
    "unwrap_model",
]

PYMC_MAJOR = int(pm.__version__.split(".")[0])
# PyTensor compiles, and changes its configuration, on one thread at a time.
COMPILING = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A copy of this process has none of the threads that may hold it.
    os.register_at_fork(after_in_child=COMPILING._at_fork_reinit)  # type: ignore[attr-defined]

if PYMC_MAJOR < 6:
    from pytensor.tensor import nlinalg, slinalg
    from pytensor.tensor.rewriting.ofg import inline_ofg_node
else:
    from pytensor.compile.rewriting import inline_ofg_node
    from pytensor.tensor import linalg as nlinalg
    from pytensor.tensor import linalg as slinalg

# PyTensor 2 rewrites inner graphs in place, unless they were cloned; PyTensor 3 does not.
CLONE_INNER_GRAPHS = {"clone_inner_graphs": True} if PYMC_MAJOR < 6 else {}

# ``arviz.InferenceData`` or ``xarray.DataTree``.
InferenceTree = Any


def is_wrapper(model: Any) -> bool:
    """Whether an object can be built and holds a PyMC model then, as a ``bambi.Model`` does."""
    return hasattr(model, "backend") and callable(getattr(model, "build", None))


def unwrap_model(model: Any) -> Any:
    """Return the PyMC model of a wrapper, which is built if it is not; anything else as it is."""
    if not is_wrapper(model):
        return model
    if not getattr(model, "built", model.backend is not None):
        model.build()
    return model.backend.model


def find_model(model: Any) -> pm.Model:
    """Return the model that was given, or that of the ``with`` block around the call."""
    model = unwrap_model(model)
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError as error:
            raise TypeError(
                "There is no model: give one, or call this inside of a `with model:` block."
            ) from error
    if not isinstance(model, pm.Model):
        remedy = "give a pm.Model, or a bambi.Model"
        if isinstance(model, int):
            remedy = f"the model comes first, then draws={model}"
        elif isinstance(model, list | tuple | dict):
            remedy = "give one pm.Model; pymc_arm.compare takes several, in a dictionary"
        raise TypeError(f"model is of type {type(model).__name__}: {remedy}.")
    return model


def make_tree(groups: Mapping[str, xr.Dataset], attributes: Mapping[str, Any]) -> InferenceTree:
    """Build an InferenceData (PyMC 5) or a DataTree (PyMC 6) out of datasets."""
    if PYMC_MAJOR < 6:
        import arviz

        return arviz.InferenceData(
            attrs=dict(attributes), warn_on_custom_groups=False, **dict(groups)
        )
    tree = xr.DataTree.from_dict(dict(groups))
    tree.attrs.update(attributes)
    return tree


def has_group(tree: InferenceTree, name: str) -> bool:
    """Whether the tree has a group of this name."""
    if isinstance(tree, xr.DataTree):
        return name in tree.children
    found = getattr(tree, "groups", ())
    return name in (found() if callable(found) else found)


def get_group(tree: InferenceTree, name: str) -> xr.Dataset:
    """Return a group as a dataset."""
    if not has_group(tree, name):
        raise ValueError(
            f"{type(tree).__name__} has no group {name!r}: give a result of pymc_arm.sample."
        )
    group: xr.Dataset = tree[name].to_dataset() if isinstance(tree, xr.DataTree) else tree[name]
    return group


def set_attributes(tree: InferenceTree, name: str, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a group, in place."""
    tree[name].attrs.update(attributes)


def load(filename: str) -> InferenceTree:
    """Read a result that was saved with its ``to_netcdf``."""
    if PYMC_MAJOR < 6:
        import arviz

        return arviz.from_netcdf(filename)
    with xr.open_datatree(filename) as tree:
        return tree.load()


def coords_and_dims(model: pm.Model) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the coords and dims of a model as ArviZ wants them."""
    found: tuple[dict[str, Any], dict[str, list[str]]]
    found = pymc_arviz.coords_and_dims_for_inferencedata(model)
    return found


def observed_data(model: pm.Model) -> dict[str, Any]:
    """Return the observations of a model by name."""
    return dict(pymc_arviz.find_observations(model))


def constant_data(model: pm.Model) -> dict[str, Any]:
    """Return the ``pm.Data`` of a model by name."""
    return dict(pymc_arviz.find_constants(model))
