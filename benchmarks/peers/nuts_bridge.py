"""NUTS by nutpie, and bridge sampling with its draws."""

from collections.abc import Callable
from typing import Any

import arviz
import numpy as np
import pymc as pm

from benchmarks.peers.bridge import warp3_bridge_with_error
from benchmarks.peers.target import Target

__all__ = ["nuts_bridge", "sample_and_bridge"]


def nuts_bridge(model: pm.Model) -> Callable[[int], float]:
    """Run nutpie in its defaults, and warp-3 bridge sampling with what it returns."""
    run = sample_and_bridge(model)
    return lambda seed: run(seed)[1]


def sample_and_bridge(model: pm.Model) -> Callable[[int], tuple[Any, float, float]]:
    """Return a function from a seed to the trace, log Z and its standard error."""
    import nutpie

    target = Target(model)
    log_joint = target.compile_batched(target.log_joint)
    compiled = nutpie.compile_pymc_model(model)

    def run(seed: int) -> tuple[Any, float, float]:
        trace = nutpie.sample(compiled, seed=seed, progress_bar=False, store_unconstrained=True)
        draws = trace.sample_stats["unconstrained_draw"].to_numpy()
        second = draws[:, draws.shape[1] // 2 :]
        sizes = [float(arviz.ess(second[..., i])) for i in range(target.dimension)]
        rng = np.random.default_rng(seed)
        return trace, *warp3_bridge_with_error(draws, log_joint, rng, float(np.median(sizes)))

    return run
