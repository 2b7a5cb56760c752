"""From chains to one InferenceData, and to one number with its error.

The pooled estimate is the log of the mean of Z-hat over chains: Z-hat, not log Z-hat, is what is
unbiased. The code of PyMC's own Bayes factor example works on ``sample_stats``; the group ``arm``
has the history of the run, step by step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy
import xarray as xr

from pymc_arm._compat import InferenceTree, make_tree
from pymc_arm.algorithm.resampling import log_mean_exp
from pymc_arm.running.chains import Chain

__all__ = [
    "Estimates",
    "Evidence",
    "make_dataset",
    "make_inference_tree",
    "pool",
    "select_estimate",
]

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
    "autocorrelation": "autocorrelation",
    "kernel_calls": "kernel_calls",
    "distinct_fraction": "distinct_fraction",
}


# The variance that a run predicts of itself scatters by 20 to 40 % between runs, as that of a
# sample of 12 to 50 would; a little less, for what it may miss.
PREDICTION_FREEDOM = 10
# What integrals may add to the standard error of exploring, also where chains agree: tails beyond
# the nodes are seldom drawn from.
FLOOR = 5e-4
# What rounding may add to any standard error.
ROUNDING = 1e-6
# The chance to discard a prediction that is right.
TOO_SMALL = 0.01


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
        quantile = float(scipy.special.stdtrit(self.degrees_of_freedom, (1 + probability) / 2))
        half = quantile * self.standard_error
        return (self.log_evidence - half, self.log_evidence + half)


def pool(log_evidences: Sequence[float], predicted_variances: Sequence[float]) -> Evidence:
    """Pool chains into the log of the mean of Z-hat, with its standard error.

    Two things tell the error: the spread of Z-hat between chains, which is right but rough when
    they are few, and the variance that each run predicts of itself, which is precise but may miss
    something. They are averaged, unless the spread shows that the prediction is too small.

    Examples
    --------
    >>> from pymc_arm.results import pool
    >>> pool([-1.0, -1.0], [0.0, 0.0])
    Evidence(log_evidence=-1.0, standard_error=1e-06, degrees_of_freedom=1)
    """
    values = np.asarray(log_evidences, dtype=float)
    log_evidence = log_mean_exp(values)
    if not np.isfinite(log_evidence):
        return Evidence(log_evidence, np.inf, 1)
    variance, freedom = _pooled_variance(values, log_evidence, float(np.mean(predicted_variances)))
    return Evidence(
        log_evidence, float(np.hypot(np.sqrt(variance / len(values)), ROUNDING)), freedom
    )


def _pooled_variance(
    values: np.ndarray, log_evidence: float, predicted: float
) -> tuple[float, float]:
    """Return the variance of one chain, and the degrees of freedom of that."""
    chains = len(values)
    if chains == 1:
        return predicted, PREDICTION_FREEDOM
    # The two are the same when small; when one chain dominates, only logs show how far apart
    # the chains are.
    spread = float(np.exp(values - log_evidence).var(ddof=1))
    if np.all(np.isfinite(values)):
        spread = max(spread, float(values.var(ddof=1)))
    freedom = chains - 1
    limit = scipy.special.chdtri(freedom, TOO_SMALL) / freedom * predicted
    if spread > limit or not np.isfinite(predicted) or predicted == 0:
        return spread, freedom
    total = freedom + PREDICTION_FREEDOM
    return (freedom * spread + PREDICTION_FREEDOM * predicted) / total, total


@dataclass(frozen=True)
class Estimates:
    """The exploring and the refined estimate, and which of them is *the* estimate."""

    explore: Evidence
    refine: Evidence | None
    overlap: float
    chosen: str

    @property
    def evidence(self) -> Evidence:
        """The better of the two."""
        return self.refine if self.chosen == "refine" and self.refine else self.explore


def select_estimate(chains: Sequence[Chain], wanted: bool | str = "auto") -> Estimates:
    """Pool both estimates, and choose: the refined one, if q overlaps and its error is smaller.

    The floor of exploring is left out of the comparison, since it is seldom the error.
    """
    if not any(chain.run.history for chain in chains):  # there was nothing to estimate
        exact = Evidence(chains[0].log_evidence, 0.0, 1)
        return Estimates(exact, None, np.nan, "explore")
    explored = pool(
        [chain.log_evidence for chain in chains],
        [max(chain.predicted_variance, chain.genealogy_variance) for chain in chains],
    )
    explore = replace(explored, standard_error=float(np.hypot(explored.standard_error, FLOOR)))
    bridges = [chain.refined for chain in chains if chain.refined is not None]
    if len(bridges) < len(chains) or not all(b.trustworthy for b in bridges):
        overlap = min((b.overlap for b in bridges), default=np.nan)
        return Estimates(explore, None, float(overlap), "explore")
    refined = pool([b.log_evidence for b in bridges], [b.variance for b in bridges])
    better = wanted is True or refined.standard_error < explored.standard_error
    overlap = min(b.overlap for b in bridges)
    return Estimates(explore, refined, float(overlap), "refine" if better else "explore")


def make_inference_tree(
    chains: Sequence[Chain],
    estimates: Estimates,
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
    coords, dims = {**(coords or {}), "chain": pd.Index(alive)}, dict(dims or {})
    draws = {
        name: np.stack([chains[number].draws[name] for number in alive])
        for name in (chains[alive[0]].draws if alive else {})
    }
    groups = {"posterior": make_dataset(draws, ("chain", "draw"), coords, dims)} if draws else {}
    groups["sample_stats"] = _sample_stats(chains, estimates.chosen)
    groups["arm"] = _history(chains)
    if observed:
        groups["observed_data"] = make_dataset(observed, (), coords, dims)
    if constants:
        groups["constant_data"] = make_dataset(constants, (), coords, dims)
    evidence = estimates.evidence
    low, high = evidence.interval()
    attributes = {
        "inference_library": "pymc_arm",
        "log_marginal_likelihood": evidence.log_evidence,
        "log_marginal_likelihood_se": evidence.standard_error,
        "log_marginal_likelihood_df": float(evidence.degrees_of_freedom),
        "log_marginal_likelihood_low": low,
        "log_marginal_likelihood_high": high,
        "estimate": estimates.chosen,
        "explore_log_marginal_likelihood": estimates.explore.log_evidence,
        "explore_log_marginal_likelihood_se": estimates.explore.standard_error,
        **_refined_attributes(estimates),
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
            known = labels is not None and len(labels) == size
            used[axis] = labels if known else pd.RangeIndex(size)
        variables[name] = _variable(names, values)
    return xr.Dataset(variables, coords=used)


def _variable(dims: Sequence[str], values: np.ndarray) -> xr.Variable:
    """Return a variable of a dataset. xarray need not look whether plain arrays are Dask's, say.

    Where Dask or sparse are installed, looking for their arrays imports them, which takes most of a
    second; an index of pandas is taken as it is, too.
    """
    return xr.Variable(dims, values, fastpath=values.dtype.kind in "biufUS")


def _refined_attributes(estimates: Estimates) -> dict[str, float]:
    if estimates.refine is None:
        return {} if np.isnan(estimates.overlap) else {"refine_overlap": estimates.overlap}
    return {
        "refine_log_marginal_likelihood": estimates.refine.log_evidence,
        "refine_log_marginal_likelihood_se": estimates.refine.standard_error,
        "refine_overlap": estimates.overlap,
    }


def _sample_stats(chains: Sequence[Chain], chosen: str) -> xr.Dataset:
    explored = [chain.log_evidence for chain in chains]
    refined = [np.nan if c.refined is None else c.refined.log_evidence for c in chains]
    values = {
        "log_marginal_likelihood": refined if chosen == "refine" else explored,
        "explore_log_marginal_likelihood": explored,
        "refined_log_marginal_likelihood": refined,
        "refined_variance": [np.nan if c.refined is None else c.refined.variance for c in chains],
        "predicted_variance": [chain.predicted_variance for chain in chains],
        "genealogy_variance": [chain.genealogy_variance for chain in chains],
        "sampling_time": [chain.seconds for chain in chains],
    }
    return xr.Dataset(
        {
            name: _variable(["chain"], np.array(column, dtype=float))
            for name, column in values.items()
        },
        coords={"chain": pd.RangeIndex(len(chains))},
    )


def _history(chains: Sequence[Chain]) -> xr.Dataset:
    """Lay the histories out as (chain, step), padded with NaN to the longest."""
    steps = max(len(chain.run.history) for chain in chains)
    shape = (len(chains), steps)
    columns = {name: np.full(shape, np.nan) for name in HISTORY}
    introduced = np.full(shape, "", dtype=object)
    resampled = np.zeros(shape, dtype=bool)
    observations = np.zeros(shape, dtype=int)
    observed = np.full(shape, "", dtype=object)
    for row, chain in enumerate(chains):
        for column, info in enumerate(chain.run.history):
            for name, field in HISTORY.items():
                columns[name][row, column] = getattr(info, field)
            introduced[row, column] = info.introduced
            resampled[row, column] = info.resampled
            observations[row, column] = info.observations
            observed[row, column] = info.observed
    arrays: dict[str, np.ndarray] = {
        **columns,
        "introduced": introduced.astype(str),
        # How many observations came in with the step, and the name of a single one.
        "observations": observations,
        "observed": observed.astype(str),
        # netCDF has no booleans of its own; ArviZ stores them as small integers too.
        "resampled": resampled.astype(np.int8),
    }
    return xr.Dataset(
        {name: _variable(["chain", "step"], array) for name, array in arrays.items()},
        coords={"chain": pd.RangeIndex(len(chains)), "step": pd.RangeIndex(steps)},
    )


def _plain(value: Any) -> Any:
    """Return a value that netCDF can store as an attribute."""
    if value is None:
        return "None"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else str(value)
