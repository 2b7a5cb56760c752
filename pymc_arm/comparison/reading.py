"""Log Z and its error, read from the result of a run of this package or of PyMC."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_arm._compat import InferenceTree, get_group, has_group
from pymc_arm.results import Evidence, pool
from pymc_arm.running.summary import read_number

__all__ = ["read_attributes", "read_evidence", "read_seconds"]


def read_evidence(result: InferenceTree | Evidence) -> Evidence:
    """Return log Z with its error from a result of this package or of ``pm.sample_smc``.

    PyMC stores log Z in shapes that depend on the run: a float for each chain; a row of stages for
    each chain, of which the last counts; an object array of lists of stages, if chains differ in
    their number; or, for a single chain on PyMC 6, stages along a dimension that is called
    ``chain``. One chain alone has no standard error.

    Parameters
    ----------
    result
        An InferenceData or DataTree, or an Evidence, which is returned as it is.

    Examples
    --------
    >>> from pymc_arm.comparison import read_evidence
    >>> from pymc_arm.results import Evidence
    >>> read_evidence(Evidence(-1.5, 0.1, 3)).log_evidence
    -1.5
    """
    if isinstance(result, Evidence):
        return result
    attributes = read_attributes(result)
    if "log_marginal_likelihood" in attributes:
        parts = ("", "_se", "_df")
        found = Evidence(
            *(read_number(attributes, f"log_marginal_likelihood{part}") for part in parts)
        )
        # Where Z is zero it has no error.
        known = found.standard_error >= 0 and found.degrees_of_freedom > 0
        if not (found.log_evidence < math.inf and (known or found.log_evidence == -math.inf)):
            raise ValueError(
                f"{type(result).__name__} has log_marginal_likelihood={found.log_evidence} with "
                f"_se={found.standard_error} and _df={found.degrees_of_freedom} in its attrs, "
                "which no run gives: its file is damaged, or something has changed it. Run the "
                "model again."
            )
        return found
    statistics = get_group(result, "sample_stats") if has_group(result, "sample_stats") else {}
    if "log_marginal_likelihood" not in statistics:
        raise ValueError(
            f"{type(result).__name__} has no log_marginal_likelihood, neither in its attrs nor in "
            "sample_stats: give a result of pymc_arm.sample or pm.sample_smc."
        )
    chains = None
    if has_group(result, "posterior"):
        chains = get_group(result, "posterior").sizes.get("chain")
    values = _chain_values(statistics["log_marginal_likelihood"].values, chains)
    if not values:
        raise ValueError(
            "sample_stats.log_marginal_likelihood holds nothing but NaN: run the model again."
        )
    return pool(values, [math.inf] * len(values))


def read_attributes(result: Any) -> Mapping[str, Any]:
    """Return the attributes of a run; the group ``arm`` has a copy of those of the root."""
    if isinstance(result, Evidence):
        return {}
    own = dict(result.attrs)
    if "log_marginal_likelihood" not in own and has_group(result, "arm"):
        own = {**dict(get_group(result, "arm").attrs), **own}
    return own


def read_seconds(result: Any) -> float:
    """Return the time that a run took, if there was one and it says so."""
    if result is None or isinstance(result, Evidence):
        return math.nan
    attributes = dict(read_attributes(result))
    if has_group(result, "sample_stats"):
        attributes = {**get_group(result, "sample_stats").attrs, **attributes}
    name = "sampling_time" if "sampling_time" in attributes else "_t_sampling"
    return read_number(attributes, name) if name in attributes else math.nan


def _chain_values(stored: np.ndarray, chains: int | None) -> list[float]:
    """Return the last value of each chain that is a number."""
    stored = np.asarray(stored)
    if stored.dtype == object and any(np.ndim(cell) for cell in stored.flat):
        rows = [np.asarray(cell, dtype=float).ravel() for cell in stored.flat]
    else:
        numbers = stored.astype(float)
        if numbers.ndim >= 2:
            rows = list(numbers.reshape(len(numbers), -1))
        elif chains == 1 or (chains is None and np.isnan(numbers).sum() == numbers.size - 1):
            rows = [numbers.ravel()]
        else:
            rows = list(numbers.reshape(-1, 1))
    return [float(row[~np.isnan(row)][-1]) for row in rows if not np.isnan(row).all()]
