"""Whether models that are to be compared have the same data.

A Bayes factor is a ratio of two predictions of one and the same thing. If one model was given other
observations than the other, rows that the other dropped, or a logarithm of them, the ratio of their
Z is still a number, and means nothing. Names and shapes say little (a model may split its data into
two variables), so what is compared here are all observed values of a model, sorted.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import get_group, has_group, observed_data
from pymc_arm.errors import DataWarning, callers_level
from pymc_arm.results import Evidence

__all__ = ["warn_of_different_data"]

# What single precision and netCDF may do to the same numbers.
ROUNDING = 1e-5


def warn_of_different_data(models: Mapping[str, Any]) -> None:
    """Warn if a model or a result has other observed values than the first that has any.

    Examples
    --------
    >>> import warnings
    >>> import pymc as pm
    >>> from pymc_arm.comparison.data import warn_of_different_data
    >>> def normal(data):
    ...     with pm.Model() as model:
    ...         pm.Normal("y", pm.Normal("mu"), observed=data)
    ...     return model
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_different_data({"all": normal([1.0, 2.0, 3.0]), "two": normal([1.0, 2.0])})
    >>> str(caught[0].message).split(":")[0]
    "'two' and 'all' have different observed data, 2 values and 3 values"
    """
    values = {name: _observed_values(model) for name, model in models.items()}
    known = {name: found for name, found in values.items() if found.size}
    if not known:
        return
    first, *others = known
    for name in others:
        expected, found = known[first], known[name]
        if len(found) == len(expected) and np.allclose(found, expected, ROUNDING, ROUNDING):
            continue
        warnings.warn(
            f"{name!r} and {first!r} have different observed data, {_count(found)} and "
            f"{_count(expected)}: a Bayes factor compares how well models predict the same data. "
            "Give all models the same observations, in the same unit. If they are the same, "
            "written in another way, ignore this.",
            DataWarning,
            stacklevel=callers_level(),
        )


def _count(values: np.ndarray) -> str:
    return f"{values.size} value{'' if values.size == 1 else 's'}"


def _observed_values(model: Any) -> np.ndarray:
    """Return the observed numbers of a model or a result in ascending order, without NaN."""
    if isinstance(model, Evidence):
        return np.zeros(0)
    if isinstance(model, pm.Model):
        arrays = [np.ma.compressed(values) for values in observed_data(model).values()]
    elif has_group(model, "observed_data"):
        arrays = [values.to_numpy() for values in get_group(model, "observed_data").values()]
    else:
        arrays = []
    numbers = np.concatenate([np.zeros(0), *(np.ravel(values) for values in arrays)])
    return np.sort(numbers[~np.isnan(numbers)])
