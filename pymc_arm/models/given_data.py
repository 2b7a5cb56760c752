"""Whether draws were made with the data that the model has now.

Samplers store what was observed beside their draws. A model whose data was changed since, by
``pm.set_data`` say, has another posterior.
"""

from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import InferenceTree, constant_data, get_group, has_group, observed_data
from pymc_arm.errors import DrawsError

__all__ = ["check_data", "describe_difference"]

# What single precision and netCDF may do to the same numbers.
ROUNDING = 1e-5


def check_data(idata: InferenceTree, model: pm.Model) -> None:
    """Refuse draws whose observations or constants are not those of the model.

    What has no name in common with the model is not compared.
    """
    groups = {"observed_data": observed_data(model), "constant_data": constant_data(model)}
    for group, own in groups.items():
        if not has_group(idata, group):
            continue
        stored = get_group(idata, group)
        for name in (name for name in own if name in stored.data_vars):
            # ArviZ stores a single number as a row of one.
            mine = np.ma.atleast_1d(np.ma.asarray(own[name]))
            difference = describe_difference(mine, np.atleast_1d(stored[name].values))
            if difference:
                raise DrawsError(
                    f"The draws are not of this model's data: {name!r} {difference} in {group} of "
                    "the draws. Sample this model, or give it the data that it was sampled with."
                )


def describe_difference(mine: Any, theirs: np.ndarray) -> str:
    """Return in which way the data of a model differ from stored ones, or nothing."""
    if mine.shape != theirs.shape:
        return f"has shape {mine.shape} in the model, and {theirs.shape}"
    if mine.dtype.kind not in "biuf" or theirs.dtype.kind not in "biuf" or not mine.size:
        return ""
    ours = np.ma.filled(mine.astype(float), np.nan)
    theirs, typical = theirs.astype(float), np.abs(ours[np.isfinite(ours)])
    atol = ROUNDING * float(np.median(typical)) if len(typical) else 0.0
    other = ~np.isclose(ours, theirs, rtol=ROUNDING, atol=atol, equal_nan=True)
    other &= ~np.isnan(ours)  # missing values may be filled in with anything
    if not other.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(other)[0])
    where = f" at {list(place)}" if place else ""
    return f"is {ours[place]:.6g}{where} in the model, and {theirs[place]:.6g}"
