"""Run the models of a comparison that have not been run yet."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm.comparison.reading import read_attributes, read_evidence
from pymc_arm.errors import TrustWarning
from pymc_arm.sampling import sample

__all__ = ["run_models"]

# How much one more run may cost, against the one before, when an error is asked for.
LARGEST_GROWTH = 8.0
MOST_RUNS = 4


def run_models(
    models: Mapping[str, Any], target_se: float | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Sample the models among these, each with a random stream of its own."""
    waiting = [name for name, model in models.items() if isinstance(model, pm.Model)]
    if options and not waiting:
        raise TypeError(
            f"{sorted(options)} would be passed to pymc_arm.sample, but every model has been run."
        )
    results = dict(models)
    seed = options.get("random_seed")
    for place, name in enumerate(waiting):
        own = dict(options)
        if isinstance(seed, int | np.integer):
            # Different models on one stream would have correlated errors.
            own["random_seed"] = int(
                np.random.SeedSequence([int(seed), place]).generate_state(1)[0]
            )
        results[name] = _sample(name, models[name], target_se, own)
    return results


def _sample(name: str, model: pm.Model, target_se: float | None, options: dict[str, Any]) -> Any:
    result = sample(model, **options)
    if target_se is None:
        return result
    for _ in range(MOST_RUNS - 1):
        error = read_evidence(result).standard_error
        if error <= target_se:
            return result
        # A little more than the square root law asks for: the error itself is an estimate.
        growth = min(LARGEST_GROWTH, 1.3 * (error / target_se) ** 2)
        draws = math.ceil(growth * int(read_attributes(result)["draws"]))
        result = sample(model, **{**options, "draws": draws})
    error = read_evidence(result).standard_error
    if error > target_se:
        warnings.warn(
            f"The standard error of log Z of {name!r} is {error:.3g} with "
            f"{read_attributes(result)['draws']} draws a chain, not below "
            f"target_se={target_se:.3g}. "
            "Give more chains or draws.",
            TrustWarning,
            stacklevel=4,
        )
    return result
