"""PyMC's own sequential Monte Carlo sampler."""

from collections.abc import Callable

import pymc as pm

from pymc_arm.comparison import read_evidence

__all__ = ["sample_smc"]


def sample_smc(model: pm.Model) -> Callable[[int], float]:
    """Run ``pm.sample_smc`` with 1000 draws in each of four chains."""

    def run(seed: int) -> float:
        with model:
            result = pm.sample_smc(draws=1000, chains=4, random_seed=seed, progressbar=False)
        return read_evidence(result).log_evidence

    return run
