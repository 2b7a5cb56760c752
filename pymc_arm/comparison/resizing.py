"""The same model for another number of observations.

A model whose data are ``pm.Data`` has no fixed size: new values, and new labels of a dimension,
change the shapes of everything that depends on them. Rows of the data at hand are taken in their
order, from the beginning again after the last, so that a balanced design stays balanced. What is
observed does not matter, since it will be drawn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor.variable import TensorVariable

from pymc_arm.comparison.prior_predictive import observe

__all__ = ["change_data", "find_size", "resize_model"]


def find_size(name: str, model: pm.Model, size: str | Sequence[str] | None) -> str | list[str]:
    """Return the dimension, or the ``pm.Data``, that have a row for each observation.

    Parameters
    ----------
    name
        Of the model, for errors.
    model
        The model.
    size
        What the user gave: a dimension, names of data, or None for the first dimension of what is
        observed.
    """
    data = [key for key, value in model.named_vars.items() if isinstance(value, SharedVariable)]
    if size is None:
        dims = model.named_vars_to_dims
        found = {(dims.get(rv.name) or [None])[0] for rv in model.observed_RVs}
        if len(found) == 1 and None not in found:
            return str(found.pop())
        raise ValueError(
            f"Which size of model {name!r} is the sample size? Its observed variables have no "
            f"dimension in common: give size=, a dimension of {list(model.coords)} or names of "
            f"pm.Data among {data}, or give a function of n that builds the model."
        )
    if isinstance(size, str):
        if size in model.dim_lengths:
            return size
        size = [size]
    unknown = sorted(set(size) - set(data))
    if unknown:
        raise ValueError(
            f"size={size!r}: model {name!r} has no dimension or pm.Data {unknown}. It has the "
            f"dimensions {list(model.dim_lengths)} and the data {data}."
        )
    return list(size)


def resize_model(name: str, model: pm.Model, n: int, size: str | list[str]) -> pm.Model:
    """Return a copy of a model with n observations.

    Parameters
    ----------
    name
        Of the model, for errors.
    model
        The model; it is left as it is.
    n
        How many observations.
    size
        What :func:`find_size` found: a dimension, or data whose first axis has observations.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_arm.comparison.resizing import resize_model
    >>> with pm.Model(coords={"row": range(3)}) as model:
    ...     x = pm.Data("x", np.array([1.0, 2.0, 3.0]), dims="row")
    ...     y = pm.Normal("y", x, 1, observed=np.zeros(3), dims="row")
    >>> resize_model("line", model, 5, "row")["x"].get_value()
    array([1., 2., 3., 1., 2.])
    """
    copy = model.copy()
    rows = np.arange(n)
    axes: dict[str, int] = {}
    coords: dict[str, Sequence[int]] = {}
    for key, value in copy.named_vars.items():
        if isinstance(value, SharedVariable):
            dims = list(copy.named_vars_to_dims.get(key) or [])
            if isinstance(size, str) and size in dims:
                axes[key] = dims.index(size)
            elif key in size and not isinstance(size, str):
                axes[key] = 0
                coords |= {dims[0]: range(n)} if dims and dims[0] else {}
    if isinstance(size, str):
        coords = {size: range(n)}
    new = {}
    for key, axis in axes.items():
        values = copy[key].get_value()
        new[key] = np.take(values, rows % max(values.shape[axis], 1), axis=axis)
    change_data(copy, new, coords)
    for rv in copy.observed_RVs:
        _observe_zeros(name, copy, rv, n)
    return copy


def change_data(
    model: pm.Model, data: Mapping[str, Any], coords: Mapping[str, Sequence[Any]]
) -> None:
    """Set data and labels of dimensions, those of dimensions that no data have among them."""
    for dim, labels in coords.items():
        # Where the length is that of some data, it changes with them.
        if isinstance(model.dim_lengths[dim], SharedVariable):
            model.set_dim(dim, len(labels), coord_values=tuple(labels))
    with model:
        pm.set_data(dict(data), coords={dim: list(labels) for dim, labels in coords.items()})


def _observe_zeros(name: str, model: pm.Model, rv: TensorVariable, n: int) -> None:
    """Put zeros in the place of observed values, with the shape that the variable now has."""
    shape = tuple(int(length) for length in rv.shape.eval())
    if n not in shape:
        raise ValueError(
            f"{rv.name!r} of model {name!r} keeps its shape {shape} whatever n is: give it the "
            "dimension, or a shape that follows the data, such as shape=x.shape[0]; or give a "
            "function of n that builds the model."
        )
    observe(model, rv, np.zeros(shape))
