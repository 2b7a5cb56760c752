"""Draws from several models at once, each model with its posterior probability.

A prediction that ignores which model is true is a mixture of the models' predictions, weighted by
their posterior probabilities. As draws: each model contributes its share of them. What the models
mean by a variable is the user's responsibility; only those that all models have, under one name
and with one shape, can be pooled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable

from pymc_arm._compat import (
    COMPILING,
    InferenceTree,
    find_model,
    get_group,
    has_group,
    make_tree,
)
from pymc_arm.arguments import check_count
from pymc_arm.comparison import compare
from pymc_arm.comparison.resizing import change_data

__all__ = ["average_models", "average_predictions"]

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
    probabilities = _probabilities(results, prior_odds)
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
    # Groups are mixed alike, so that a draw and what it predicts stay together.
    mixing = rng.integers(2**32)
    pooled = {
        group: _pool(group, _choose(stacked[group], rows), np.random.default_rng(mixing), counts)
        for group in groups
    }
    return make_tree(pooled, _attributes(results, probabilities))


def average_predictions(
    models: Mapping[str, Any],
    results: Mapping[str, InferenceTree],
    data: Mapping[str, Any] | None = None,
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    draws: int | None = None,
    random_seed: int | None = None,
) -> InferenceTree:
    """Predict what is observed, at new inputs, by all models in proportion to their probabilities.

    Parameters
    ----------
    models
        By name; they are left as they are.
    results
        Their results, by the same names.
    data
        New values of ``pm.Data``, as for ``pm.set_data``. A model is given those that it has. By
        default data stay what they are.
    coords
        New labels of dimensions that change their length.
    prior_odds, draws
        As in :func:`average_models`.
    random_seed
        A seed for which draws are taken, and for the predictions.

    Returns
    -------
    InferenceData or DataTree
        With one chain of the group ``predictions``: the observed variables that all models have.
        The coordinate ``model`` says which model each draw is from.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_arm
    >>> def line(slope):
    ...     with pm.Model() as model:
    ...         x = pm.Data("x", np.array([-1.0, 0.0, 1.0]))
    ...         b = pm.Normal("b", 0, 1) if slope else 0.0
    ...         pm.Normal("y", b * x, 1, observed=[-1.5, 0.2, 1.4], shape=x.shape[0])
    ...     return model
    >>> models = {"line": line(True), "flat": line(False)}
    >>> options = {"draws": 200, "random_seed": 1, "progressbar": False}
    >>> results = {name: pymc_arm.sample(model, **options) for name, model in models.items()}
    >>> found = pymc_arm.average_predictions(models, results, {"x": [2.0, 3.0]}, random_seed=1)
    >>> found["predictions"]["y"].shape
    (1, 800, 2)
    """
    if set(models) != set(results):
        raise ValueError(f"models has {sorted(models)}, and results has {sorted(results)}.")
    known = {name: find_model(models[name]) for name in results}
    _check_data_names(known, data or {})
    probabilities = _probabilities(results, prior_odds)
    sizes = [_draws_of(results[name], known[name]) for name in results]
    total = max(sizes) if draws is None else draws
    check_count("draws", total)
    rng = np.random.default_rng(random_seed)
    counts = _shares(rng, probabilities, int(total))
    parts: dict[str, xr.Dataset] = {}
    for name, size, count in zip(results, sizes, counts, strict=True):
        rows = rng.choice(size, count, replace=count > size)
        seed = int(rng.integers(2**31))
        # A model without a share is asked for one draw all the same: whether it fits the others
        # must not depend on the seed.
        chosen = rows if count else np.zeros(1, dtype=int)
        found = _predict(results[name], known[name], data or {}, coords, chosen, seed)
        parts[name] = found.isel(sample=slice(0, count))
    pooled = {"predictions": _pool("predictions", parts, rng, counts)}
    return make_tree(pooled, _attributes(results, probabilities))


def _probabilities(
    results: Mapping[str, InferenceTree],
    prior_odds: Mapping[str, float] | Sequence[float] | None,
) -> np.ndarray:
    table = compare(results, prior_odds).loc[list(results)]
    found: np.ndarray = table["probability"].to_numpy()
    return found


def _attributes(results: Mapping[str, InferenceTree], probabilities: np.ndarray) -> dict[str, Any]:
    return {
        "inference_library": "pymc_arm",
        "models": list(results),
        "probabilities": probabilities.tolist(),
    }


def _check_data_names(models: Mapping[str, pm.Model], data: Mapping[str, Any]) -> None:
    """Refuse data that no model has."""
    for name in data:
        if not any(isinstance(m.named_vars.get(name), SharedVariable) for m in models.values()):
            known = sorted(
                {
                    key
                    for model in models.values()
                    for key, value in model.named_vars.items()
                    if isinstance(value, SharedVariable)
                }
            )
            raise ValueError(f"No model has the pm.Data {name!r}; there are {known}.")


def _draws_of(result: InferenceTree, model: pm.Model) -> int:
    """Return how many draws a result has; of a model without variables any number will do."""
    if not model.free_RVs:
        return 1
    sizes = get_group(result, "posterior").sizes
    return int(sizes["chain"] * sizes["draw"])


def _predict(
    result: InferenceTree,
    model: pm.Model,
    data: Mapping[str, Any],
    coords: Mapping[str, Sequence[Any]] | None,
    rows: np.ndarray,
    seed: int,
) -> xr.Dataset:
    """Return predictions by some of the draws of a model, along the dimension ``sample``."""
    copy = model.copy()
    own = {name: value for name, value in data.items() if name in copy.named_vars}
    labels = {dim: given for dim, given in (coords or {}).items() if dim in copy.dim_lengths}
    if model.free_RVs:
        stacked = _stack(get_group(result, "posterior"))
        chosen = stacked.isel(sample=rows).rename(sample="draw").expand_dims(chain=[0])
        chosen = chosen.transpose("chain", "draw", ...)
    else:
        # PyMC reads how many predictions to make off some variable.
        counted = xr.DataArray(np.arange(len(rows))[None], dims=("chain", "draw"))
        chosen = xr.Dataset({"row": counted})
    groups = {"posterior": chosen}
    if has_group(result, "constant_data"):
        # PyMC takes draws of a variable as they are only if it sees that no data above it changed.
        groups["constant_data"] = get_group(result, "constant_data")
    names = [rv.name for rv in copy.observed_RVs]
    change_data(copy, own, labels)
    with COMPILING, copy:
        found = pm.sample_posterior_predictive(
            make_tree(groups, {}),
            var_names=names,
            predictions=True,
            progressbar=False,
            random_seed=seed,
        )
    return _stack(get_group(found, "predictions"))


def _stack(dataset: xr.Dataset) -> xr.Dataset:
    """Return one row of draws, with plain numbers as labels."""
    kept = dataset[[name for name, v in dataset.items() if {"chain", "draw"} <= set(v.dims)]]
    return kept.stack(sample=("chain", "draw"), create_index=False).drop_vars(["chain", "draw"])


def _shares(rng: np.random.Generator, probabilities: np.ndarray, total: int) -> np.ndarray:
    """Return whole numbers that add up to the total, with expectation probabilities * total."""
    ends = np.floor(np.cumsum(probabilities) * total + rng.random()).astype(int)
    ends[-1] = total
    return np.diff(np.clip(ends, 0, total), prepend=0)


def _choose(
    datasets: Mapping[str, xr.Dataset], rows: Mapping[str, np.ndarray]
) -> dict[str, xr.Dataset]:
    return {name: datasets[name].isel(sample=chosen) for name, chosen in rows.items()}


def _pool(
    group: str,
    datasets: Mapping[str, xr.Dataset],
    rng: np.random.Generator,
    counts: np.ndarray,
) -> xr.Dataset:
    """Return the draws of all models in one row, mixed."""
    first, *others = datasets.values()
    shared = [
        name
        for name in first.data_vars
        if all(name in other and _shape(other[name]) == _shape(first[name]) for other in others)
    ]
    if not shared:
        names = {
            model: {str(key): _shape(value) for key, value in dataset.items()}
            for model, dataset in datasets.items()
        }
        raise ValueError(
            f"No variable of {group!r} is in all models with one shape: {names}. Give what you "
            "want to pool one name, for example with pm.Deterministic."
        )
    order = rng.permutation(int(counts.sum()))
    labels = np.repeat(np.array(list(datasets)), counts)[order]
    parts = [dataset[shared] for dataset in datasets.values()]
    joined = xr.concat(parts, "sample", join="override", coords="minimal", compat="override")
    joined = joined.isel(sample=order).rename(sample="draw").expand_dims(chain=[0])
    joined = joined.transpose("chain", "draw", ...)
    return joined.assign_coords(draw=np.arange(len(order)), model=("draw", labels))


def _shape(variable: xr.DataArray) -> dict[Any, int]:
    return {dim: size for dim, size in variable.sizes.items() if dim != "sample"}
