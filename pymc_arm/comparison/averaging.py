"""Draws from several models at once, each model with its posterior probability.

A prediction that ignores which model is true is a mixture of the models' predictions, weighted by
their posterior probabilities. As draws: each model contributes its share of them. What the models
mean by a variable is the user's responsibility; only those that all models have, under one name
and with one shape, can be pooled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_arm._compat import InferenceTree, get_group, has_group, make_tree
from pymc_arm.arguments import check_count
from pymc_arm.comparison import compare

__all__ = ["average_models"]

# Groups with one entry a draw, which pooling makes sense of.
DRAW_GROUPS = ("posterior", "posterior_predictive", "predictions")


def average_models(
    results: Mapping[str, InferenceTree],
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    *,
    draws: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> InferenceTree:
    """Pool the draws of models in proportion to their posterior probabilities.

    Parameters
    ----------
    results
        By name: results of :func:`pymc_arm.sample` or of ``pm.sample_smc``. Predictions are pooled
        too, if ``pm.sample_posterior_predictive(..., extend_inferencedata=True)`` has added them
        to all of them.
    prior_odds
        As in :func:`pymc_arm.compare`.
    draws
        How many draws to return; by default as many as the smallest result has.
    random_seed
        A seed for which draws are taken.

    Returns
    -------
    InferenceData or DataTree
        With one chain; the groups ``posterior``, ``posterior_predictive`` and ``predictions`` as
        far as all results have them, with the variables that all of them have. The coordinate
        ``model`` says which model each draw is from, ``attrs["models"]`` and
        ``attrs["probabilities"]`` what was pooled. A model's number of draws is its probability
        times ``draws``, rounded at random without bias.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_arm import sample
    >>> from pymc_arm.comparison.averaging import average_models
    >>> def coin(alpha):
    ...     with pm.Model() as model:
    ...         p = pm.Beta("p", alpha, alpha)
    ...         pm.Binomial("heads", n=100, p=p, observed=64)
    ...     return sample(model, draws=200, random_seed=1, progressbar=False)
    >>> pooled = average_models({"fair": coin(5000.0), "any": coin(1.0)}, random_seed=1)
    >>> pooled["posterior"]["p"].shape
    (1, 800)
    >>> round(float((pooled["posterior"]["model"] == "any").mean()), 1)
    0.9
    """
    table = compare(results, prior_odds).loc[list(results)]
    probabilities = table["probability"].to_numpy()
    groups = [name for name in DRAW_GROUPS if all(has_group(r, name) for r in results.values())]
    if not groups:
        without = [name for name, r in results.items() if not has_group(r, "posterior")]
        raise ValueError(f"{without} have no group 'posterior': there are no draws to pool.")
    stacked = {
        group: {name: _stack(get_group(result, group)) for name, result in results.items()}
        for group in groups
    }
    sizes = {
        name: min(stacked[group][name].sizes["sample"] for group in groups) for name in results
    }
    total = min(sizes.values()) if draws is None else draws
    check_count("draws", total)
    rng = np.random.default_rng(random_seed)
    counts = _shares(rng, probabilities, int(total))
    rows = {
        # Without repetition as far as the model's own draws go.
        name: rng.choice(sizes[name], count, replace=count > sizes[name])
        for name, count in zip(results, counts, strict=True)
    }
    order = rng.permutation(int(total))
    labels = np.repeat(np.array(list(results)), counts)[order]
    attributes: dict[str, Any] = {
        "inference_library": "pymc_arm",
        "models": list(results),
        "probabilities": probabilities.tolist(),
    }
    pooled = {group: _pool(group, stacked[group], rows, order, labels) for group in groups}
    return make_tree(pooled, attributes)


def _stack(dataset: xr.Dataset) -> xr.Dataset:
    """Return one row of draws, with plain numbers as labels."""
    kept = dataset[[name for name, v in dataset.items() if {"chain", "draw"} <= set(v.dims)]]
    return kept.stack(sample=("chain", "draw"), create_index=False).drop_vars(["chain", "draw"])


def _shares(rng: np.random.Generator, probabilities: np.ndarray, total: int) -> np.ndarray:
    """Return whole numbers that add up to the total, with expectation probabilities * total."""
    ends = np.floor(np.cumsum(probabilities) * total + rng.random()).astype(int)
    ends[-1] = total
    return np.diff(np.clip(ends, 0, total), prepend=0)


def _pool(
    group: str,
    datasets: Mapping[str, xr.Dataset],
    rows: Mapping[str, np.ndarray],
    order: np.ndarray,
    labels: np.ndarray,
) -> xr.Dataset:
    first, *others = datasets.values()
    shared = [
        name
        for name in first.data_vars
        if all(name in other and _shape(other[name]) == _shape(first[name]) for other in others)
    ]
    if not shared:
        names = {model: sorted(map(str, dataset)) for model, dataset in datasets.items()}
        raise ValueError(
            f"No variable of {group!r} is in all models with one shape: {names}. Give what you "
            "want to pool one name, for example with pm.Deterministic."
        )
    parts = [datasets[name][shared].isel(sample=chosen) for name, chosen in rows.items()]
    joined = xr.concat(parts, "sample", join="override", coords="minimal", compat="override")
    joined = joined.isel(sample=order).rename(sample="draw").expand_dims(chain=[0])
    joined = joined.transpose("chain", "draw", ...)
    return joined.assign_coords(draw=np.arange(len(order)), model=("draw", labels))


def _shape(variable: xr.DataArray) -> dict[Any, int]:
    return {dim: size for dim, size in variable.sizes.items() if dim != "sample"}
