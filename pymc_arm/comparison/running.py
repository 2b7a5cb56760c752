"""Run the models of a comparison that have not been run yet."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm.checkpoint import Checkpoint
from pymc_arm.sampling import sample

__all__ = ["run_models"]


def run_models(models: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Sample the models among these, each with a random stream and a checkpoint of its own."""
    waiting = [name for name, model in models.items() if isinstance(model, pm.Model)]
    if options and not waiting:
        raise TypeError(
            f"{sorted(options)} would be passed to pymc_arm.sample, but every model has been run."
        )
    results = dict(models)
    for place, name in enumerate(waiting):
        own = dict(options)
        seed, checkpoint = own.get("random_seed"), own.get("checkpoint")
        if isinstance(seed, int | np.integer):
            # Different models on one stream would have correlated errors.
            own["random_seed"] = int(
                np.random.SeedSequence([int(seed), place]).generate_state(1)[0]
            )
        if checkpoint is not None:
            own["checkpoint"] = _subdirectory(checkpoint, f"{place}-{name}")
        results[name] = sample(models[name], **own)
    return results


def _subdirectory(checkpoint: Any, name: str) -> Checkpoint:
    """Return a checkpoint below the one that was given, since a run needs one for itself."""
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    folder = re.sub(r"[^\w.-]+", "_", name)
    return replace(checkpoint, directory=Path(checkpoint.directory) / folder)
