"""NUTS by nutpie, and bridge sampling with its draws."""

from collections.abc import Callable

import arviz
import numpy as np
import pymc as pm

from benchmarks.peers.bridge import warp3_bridge
from benchmarks.peers.target import Target

__all__ = ["nuts_bridge"]


def nuts_bridge(model: pm.Model) -> Callable[[int], float]:
    """Run nutpie in its defaults, and warp-3 bridge sampling with what it returns."""
    import nutpie

    target = Target(model)
    log_joint = target.compile_batched(target.log_joint)
    compiled = nutpie.compile_pymc_model(model)

    def run(seed: int) -> float:
        trace = nutpie.sample(compiled, seed=seed, progress_bar=False, store_unconstrained=True)
        draws = trace.sample_stats["unconstrained_draw"].to_numpy()
        second = draws[:, draws.shape[1] // 2 :]
        sizes = [float(arviz.ess(second[..., i])) for i in range(target.dimension)]
        return warp3_bridge(draws, log_joint, np.random.default_rng(seed), np.median(sizes))

    return run
