"""From chains to one InferenceData, and to one number with its error.

The pooled estimate is the log of the mean of Z-hat over chains: Z-hat, not log Z-hat, is what is
unbiased. The code of PyMC's own Bayes factor example works on ``sample_stats``; the group ``arm``
has the history of the run, step by step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from pymc_arm._compat import InferenceTree, make_tree
from pymc_arm.chains import Chain
from pymc_arm.resampling import log_mean_exp

__all__ = ["Evidence", "make_dataset", "make_inference_tree", "pool"]

# Fields of Info that become (chain, step) variables of the group ``arm``, by their names there.
HISTORY = {
    "effective_fraction": "effective_fraction",
    "first_effective_fraction": "first_effective_fraction",
    "particles": "particles",
    "rounds": "rounds",
    "log_increment": "log_increment",
    "increment_variance": "increment_variance",
    "predicted_variance": "predicted_variance",
    "cumulative_log_marginal_likelihood": "log_evidence",
    "acceptance_rate": "acceptance_rate",
    "kernel_calls": "kernel_calls",
    "distinct_fraction": "distinct_fraction",
}


@dataclass(frozen=True)
class Evidence:
    """An estimate of log Z with its standard error and the degrees of freedom of that error."""

    log_evidence: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers log Z with the given probability."""
        if not np.isfinite(self.standard_error):
            return (-np.inf, np.inf)
        quantile = float(stats.t.ppf((1 + probability) / 2, self.degrees_of_freedom))
        half = quantile * self.standard_error
        return (self.log_evidence - half, self.log_evidence + half)


def pool(log_evidences: Sequence[float], predicted_variances: Sequence[float]) -> Evidence:
    """Pool chains into the log of the mean of Z-hat, with its standard error.

    For several chains the error is the spread of Z-hat between them, over the square root of their
    number; for one chain it is what the run predicts of itself.

    Examples
    --------
    >>> from pymc_arm.results import pool
    >>> pool([-1.0, -1.0], [0.0, 0.0])
    Evidence(log_evidence=-1.0, standard_error=0.0, degrees_of_freedom=1)
    """
    values = np.asarray(log_evidences, dtype=float)
    log_evidence = log_mean_exp(values)
    chains = len(values)
    if log_evidence == -np.inf:
        return Evidence(-np.inf, np.inf, 1)
    if chains == 1:
        # A single run knows its own error no better than about ten observations would.
        return Evidence(log_evidence, float(np.sqrt(predicted_variances[0])), 10)
    ratios = np.exp(values - log_evidence)
    return Evidence(log_evidence, float(ratios.std(ddof=1) / np.sqrt(chains)), chains - 1)


def make_inference_tree(
    chains: Sequence[Chain],
    evidence: Evidence,
    settings: Mapping[str, Any],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    observed: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> InferenceTree:
    """Build the result of a run."""
    # A chain that ended without particles has no draws; the others keep their numbers.
    alive = [number for number, chain in enumerate(chains) if chain.draws]
    coords, dims = {**(coords or {}), "chain": alive}, dict(dims or {})
    draws = {
        name: np.stack([chains[number].draws[name] for number in alive])
        for name in (chains[alive[0]].draws if alive else {})
    }
    groups = {"posterior": make_dataset(draws, ("chain", "draw"), coords, dims)} if draws else {}
    groups["sample_stats"] = _sample_stats(chains)
    groups["arm"] = _history(chains)
    if observed:
        groups["observed_data"] = make_dataset(observed, (), coords, dims)
    if constants:
        groups["constant_data"] = make_dataset(constants, (), coords, dims)
    low, high = evidence.interval()
    attributes = {
        "inference_library": "pymc_arm",
        "log_marginal_likelihood": evidence.log_evidence,
        "log_marginal_likelihood_se": evidence.standard_error,
        "log_marginal_likelihood_df": float(evidence.degrees_of_freedom),
        "log_marginal_likelihood_low": low,
        "log_marginal_likelihood_high": high,
        "sampling_time": float(sum(chain.seconds for chain in chains)),
        **{name: _plain(value) for name, value in settings.items()},
    }
    for dataset in groups.values():
        dataset.attrs["inference_library"] = "pymc_arm"
    groups["arm"].attrs.update(attributes)
    return make_tree(groups, attributes)


def make_dataset(
    arrays: Mapping[str, Any],
    leading: Sequence[str],
    coords: Mapping[str, Any],
    dims: Mapping[str, Sequence[str]],
) -> xr.Dataset:
    """Return a dataset with ArviZ's names for dims that the model left unnamed."""
    variables, used = {}, {}
    for name, array in arrays.items():
        values = np.asarray(array)
        own = list(dims.get(name) or [])
        missing = range(len(own), values.ndim - len(leading))
        names = [*leading, *own, *(f"{name}_dim_{axis}" for axis in missing)]
        for axis, size in zip(names, values.shape, strict=True):
            labels = coords.get(axis)
            used[axis] = labels if labels is not None and len(labels) == size else np.arange(size)
        variables[name] = (names, values)
    return xr.Dataset(variables, coords=used)


def _sample_stats(chains: Sequence[Chain]) -> xr.Dataset:
    values = {
        "log_marginal_likelihood": [chain.log_evidence for chain in chains],
        "predicted_variance": [chain.predicted_variance for chain in chains],
        "sampling_time": [chain.seconds for chain in chains],
    }
    return xr.Dataset(
        {name: ("chain", np.asarray(column, dtype=float)) for name, column in values.items()},
        coords={"chain": np.arange(len(chains))},
    )


def _history(chains: Sequence[Chain]) -> xr.Dataset:
    """Lay the histories out as (chain, step), padded with NaN to the longest."""
    steps = max(len(chain.run.history) for chain in chains)
    shape = (len(chains), steps)
    columns = {name: np.full(shape, np.nan) for name in HISTORY}
    introduced = np.full(shape, "", dtype=object)
    resampled = np.zeros(shape, dtype=bool)
    for row, chain in enumerate(chains):
        for column, info in enumerate(chain.run.history):
            for name, field in HISTORY.items():
                columns[name][row, column] = getattr(info, field)
            introduced[row, column] = info.introduced
            resampled[row, column] = info.resampled
    variables: dict[str, Any] = {
        name: (("chain", "step"), array) for name, array in columns.items()
    }
    variables["introduced"] = (("chain", "step"), introduced.astype(str))
    # netCDF has no booleans of its own; ArviZ stores them as small integers too.
    variables["resampled"] = (("chain", "step"), resampled.astype(np.int8))
    coords = {"chain": np.arange(len(chains)), "step": np.arange(steps)}
    return xr.Dataset(variables, coords=coords)


def _plain(value: Any) -> Any:
    """Return a value that netCDF can store as an attribute."""
    if value is None:
        return "None"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else str(value)
