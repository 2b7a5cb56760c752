"""Which rows of a model's data are new since a result was made, and which terms they are.

A result has the data that it was made with beside its draws. Rows may have been appended since, by
``pm.set_data`` or in a model that was built again; what was there before must be the same.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pymc as pm

from pymc_arm._compat import InferenceTree, constant_data, get_group, has_group, observed_data
from pymc_arm.errors import DrawsError
from pymc_arm.models.density import LogDensity
from pymc_arm.models.given_data import describe_difference

__all__ = ["Rows", "find_rows", "find_terms"]

REMEDY = "call pymc_arm.sample(model), which starts afresh."


class Rows(NamedTuple):
    """How many rows of a variable there were, and how many there are."""

    old: int
    all: int


def find_rows(idata: InferenceTree, model: pm.Model) -> dict[str, Rows]:
    """Return the rows of each observed variable, or say which data are not those of the result.

    Raises
    ------
    DrawsError
        If the data of the result are not the first rows of the model's, or none are new.
    """
    if not has_group(idata, "observed_data"):
        raise DrawsError(
            "The result has no group 'observed_data', so that new rows can't be told from old "
            "ones: give previous=, the model with the old data."
        )
    observed = _compare(idata, "observed_data", observed_data(model), whole=True)
    _compare(idata, "constant_data", constant_data(model), whole=False)
    if all(rows.old == rows.all for rows in observed.values()):
        sizes = ", ".join(f"{name!r} has {rows.all}" for name, rows in observed.items())
        raise DrawsError(
            f"There are no new rows: {sizes or 'nothing is observed'}, as in the result. Append "
            "rows to the data, by pm.set_data or in a model that is built with all of them."
        )
    return observed


def _compare(
    idata: InferenceTree, group: str, own: Mapping[str, np.ndarray], *, whole: bool
) -> dict[str, Rows]:
    """Return the rows of each array of a group; ``whole`` if the names must be the same."""
    stored = dict(get_group(idata, group).data_vars) if has_group(idata, group) else {}
    if whole and own.keys() != stored.keys():
        name = sorted(map(str, own.keys() ^ stored.keys()))[0]
        where = "the model and not in the result" if name in own else "the result and not the model"
        raise DrawsError(
            f"{name!r} is observed in {where}: this is another model. Give the model that was "
            f"sampled, with more rows, or {REMEDY}"
        )
    found = {}
    for name in (name for name in own if name in stored):
        # ArviZ stores a single number as a row of one.
        mine = np.ma.atleast_1d(np.ma.asarray(own[name]))
        before = np.atleast_1d(stored[name].values)
        if mine.shape[1:] != before.shape[1:] or len(mine) < len(before):
            raise DrawsError(
                f"{name!r} has shape {mine.shape} in the model, and {before.shape} in {group} of "
                "the result: rows can only be appended, along the first axis. Give the old rows "
                f"and then the new ones, or {REMEDY}"
            )
        difference = describe_difference(mine[: len(before)], before)
        if difference:
            raise DrawsError(
                f"Old data have changed: {name!r} {difference} in {group} of the result. Give the "
                f"old rows as they were and then the new ones, or {REMEDY}"
            )
        found[name] = Rows(len(before), len(mine))
    return found


def find_terms(density: LogDensity, rows: Mapping[str, Rows]) -> np.ndarray:
    """Return the terms of the new rows.

    Raises
    ------
    DrawsError
        If the density of a variable is not a product over its rows.
    """
    found = [np.zeros(0, dtype=int)]
    first = 0
    for block, lengths in zip(density.blocks, density.piece_sizes, strict=True):
        old, count = rows.get(block.name, Rows(0, 0)) if block.kind == "data" else Rows(0, 0)
        for length in lengths:
            if old < count:
                if length % count:
                    raise DrawsError(
                        f"The density of {block.name!r} is no product over its rows ({length} "
                        f"factors for {count} rows), so that the old ones can't be told from the "
                        f"new: give previous=, the model with the old data, or {REMEDY}"
                    )
                found.append(np.arange(first + old * (length // count), first + length))
            first += length
    return np.concatenate(found)
