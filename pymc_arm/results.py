"""From chains to one InferenceData: the estimate, draws of the posterior, and the history.

The code of PyMC's own Bayes factor example works on ``sample_stats``; the group ``arm`` has the
history of the run, step by step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_arm._compat import InferenceTree, make_tree
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.resampling import normalize
from pymc_arm.estimation.convergence import effective_sizes, split_r_hat
from pymc_arm.estimation.draws import deal_out
from pymc_arm.estimation.estimate import (
    PREDICTION_FREEDOM,
    Estimates,
    Evidence,
    pool,
    select_estimate,
)
from pymc_arm.estimation.spaces import Symmetric
from pymc_arm.running.chains import Chain

__all__ = [
    "PREDICTION_FREEDOM",
    "Estimates",
    "Evidence",
    "estimate_chains",
    "make_dataset",
    "make_inference_tree",
    "pool",
    "represent_posterior",
    "summarize",
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


# More elements of draws than this are not all looked at: R-hat of 500 tells as much. Small
# variables are looked at whole, and large ones share what these leave.
MOST_COLUMNS = 500
# Decimals of log Z in a label, however small its error.
MOST_DECIMALS = 5


def estimate_chains(
    chains: Sequence[Chain], *, integration_error: float = 0.0, repaired: bool = False
) -> Estimates:
    """Pool the estimates of chains, and choose between exploring and refining.

    Parameters
    ----------
    chains
        Finished chains, refined or not.
    integration_error
        The standard deviation of log Z that numerical integrals add, in nats.
    repaired
        Whether q covers modes that the particles have missed.
    """
    if not any(chain.run.history for chain in chains):  # there was nothing to estimate
        evidence = Evidence(chains[0].log_evidence, integration_error, 1)
        return Estimates(evidence, None, np.nan, "explore")
    return select_estimate(
        [chain.log_evidence for chain in chains],
        [max(chain.predicted_variance, chain.genealogy_variance) for chain in chains],
        [chain.refined for chain in chains],
        integration_error=integration_error,
        repaired=repaired,
    )


def represent_posterior(
    path: Path, chains: Sequence[Chain], generator: np.random.Generator
) -> tuple[list[Chain], dict[str, Any]]:
    """Return chains whose draws represent the posterior, and what is known of the draws.

    Where every chain has draws through q, those are taken: each chain then represents the
    posterior by itself. Otherwise the particles of all chains are pooled with weights in proportion
    to Z-hat, and dealt out to the chains anew: each is a mixture of all of them. R-hat of what
    exploring left behind, which such a mixture would hide, is recorded before.

    Parameters
    ----------
    path
        Turns particles into draws.
    chains
        Finished chains, refined or not.
    generator
        For the choice of particles.
    """
    alive = [number for number, chain in enumerate(chains) if chain.draws]
    recorded: dict[str, Any] = {}
    if not alive or path.finished(path.start):
        return list(chains), recorded
    symmetric = path if isinstance(path, Symmetric) and path.everywhere is not None else None
    ended = [chains[n].draws for n in alive]
    if symmetric is not None:
        # Random images of draws would hide what chains do not agree on.
        ended = [symmetric.representatives(generator, chains[n].particles) for n in alive]
    recorded |= _convergence(ended, "explore_")
    bridges = [chain.refined for chain in chains if chain.refined is not None]
    drawn = [found.particles for found in bridges]
    if len(drawn) < len(chains) or any(particles is None for particles in drawn):
        drawn = [None] * len(chains)
        sizes = [path.count(chains[n].particles) for n in alive]
        logs = np.array([chains[n].log_evidence for n in alive])
        together = path.join([chains[n].particles for n in alive])
        for number, indices in zip(alive, deal_out(generator, logs, sizes), strict=True):
            drawn[number] = path.select(together, indices)
        founders = [np.bincount(chains[n].founders) for n in alive]
        variances = np.array([(f**2.0).sum() / f.sum() ** 2 for f in founders])
        independent = 1 / float(np.exp(2 * normalize(logs)) @ variances)
        recorded |= {"draws_from": "particles", "independent_draws": independent}
    else:
        each = [1 / (1 / path.count(b.particles) + 1 / b.effective_draws) for b in bridges]
        recorded |= {"draws_from": "q", "independent_draws": float(sum(each))}
    result = []
    for chain, rng, particles in zip(chains, generator.spawn(len(chains)), drawn, strict=True):
        if chain.draws:
            own = None if symmetric is None else symmetric.representatives(rng, particles)
            chain = replace(chain, draws=path.posterior(rng, particles), representatives=own)
        result.append(chain)
    return result, recorded


def _compared(chain: Chain) -> Mapping[str, np.ndarray]:
    """Return the draws of a chain that R-hat is about."""
    return chain.draws if chain.representatives is None else chain.representatives


def _convergence(draws: Sequence[Mapping[str, np.ndarray]], prefix: str = "") -> dict[str, Any]:
    """Return the largest R-hat, whose it is, and the smallest effective sample size."""
    names, columns = [], []
    shares = _shares([math.prod(np.shape(d)[1:]) for d in draws[0].values()], MOST_COLUMNS)
    for name, share in zip(draws[0], shares, strict=True):
        chosen = [_some_elements(chain[name], share) for chain in draws]
        columns.append(np.stack(chosen))
        names += [name] * columns[-1].shape[2]
    table = np.concatenate(columns, axis=2) if columns else np.zeros((1, 0, 0))
    if table.shape[1] < 4 or not names:
        return {}
    # Infinite draws have ranks like any other; what is not a number has none.
    finite = ~np.isnan(table).any(axis=(0, 1)) & (np.ptp(np.nan_to_num(table), axis=(0, 1)) > 0)
    some, table = np.flatnonzero(finite), np.nan_to_num(table[:, :, finite])
    if not len(some):
        return {}
    r_hat, effective = split_r_hat(table), effective_sizes(table)
    if np.isnan(r_hat).all():
        return {}
    worst = int(np.nanargmax(r_hat))
    return {
        f"{prefix}r_hat": float(r_hat[worst]),
        f"{prefix}r_hat_variable": names[int(some[worst])],
        f"{prefix}ess": float(np.nanmin(effective)),
    }


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Return how many elements of each variable are looked at, of ``most`` in all.

    Variables that are smaller than an equal share are looked at whole, and leave what they do not
    need to the others; every variable has one element at least.
    """
    shares = [0] * len(sizes)
    for rank, variable in enumerate(np.argsort(sizes, kind="stable")):
        equal = max((most - sum(shares)) // (len(sizes) - rank), 1)
        shares[variable] = min(sizes[variable], equal)
    return shares


def _some_elements(draws: np.ndarray, count: int) -> np.ndarray:
    """Return elements that are evenly spread over a variable, (draw, element)."""
    flat = np.reshape(draws, (len(draws), -1))
    chosen = np.linspace(0, max(flat.shape[1] - 1, 0), count).astype(int)
    return flat[:, chosen].astype(float)


def summarize(evidence: Evidence) -> str:
    """Return log Z with its error, and with as many digits as the error has.

    Examples
    --------
    >>> from pymc_arm.results import Evidence, summarize
    >>> summarize(Evidence(-12.3456, 0.0123, 3))
    '-12.346 ± 0.012'
    """
    if not np.isfinite(evidence.standard_error):
        return f"{evidence.log_evidence:.2f}"
    error = f"{evidence.standard_error:.2g}"
    exponent = int(Decimal(error).as_tuple().exponent)
    decimals = min(max(-exponent, 2), MOST_DECIMALS)
    return f"{evidence.log_evidence:.{decimals}f} ± {error}"


def make_inference_tree(
    chains: Sequence[Chain],
    estimates: Estimates,
    settings: Mapping[str, Any],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    observed: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    posterior: xr.Dataset | None = None,
) -> InferenceTree:
    """Build the result of a run, with the draws of its chains or with those that were given."""
    # A chain that ended without particles has no draws; the others keep their numbers.
    alive = [number for number, chain in enumerate(chains) if chain.draws and posterior is None]
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
        **(_convergence([_compared(chains[number]) for number in alive]) if alive else {}),
        "sampling_time": float(sum(chain.seconds for chain in chains)),
        **{name: _plain(value) for name, value in settings.items()},
    }
    for dataset in groups.values():
        dataset.attrs["inference_library"] = "pymc_arm"
    if posterior is not None:  # of another library
        groups = {"posterior": posterior.copy(), **groups}
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
    if np.isnan(estimates.overlap):
        return {}
    found = {"refine_overlap": estimates.overlap, "refine_pareto_k": estimates.pareto_k}
    if estimates.refine is not None:
        found |= {
            "refine_log_marginal_likelihood": estimates.refine.log_evidence,
            "refine_log_marginal_likelihood_se": estimates.refine.standard_error,
            "disagreement": estimates.disagreement,
            "particles_refuted": float(estimates.repaired),
        }
    return found


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
        "divergent": [chain.divergent for chain in chains],
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
