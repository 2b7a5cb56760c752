"""pocoMC: persistent sampling in a space that a normalising flow makes simple."""

from collections.abc import Callable

import numpy as np
import pymc as pm

from benchmarks.peers.target import Target

__all__ = ["pocomc"]


class _Prior:
    """The prior, as pocoMC asks for it."""

    def __init__(self, target: Target, seed: int) -> None:
        self.dim = target.dimension
        self.bounds = np.tile([-np.inf, np.inf], (self.dim, 1))
        self._target = target
        self._rng = np.random.default_rng(seed)
        self.logpdf: Callable[[np.ndarray], np.ndarray]

    def rvs(self, size: int = 1) -> np.ndarray:
        """Return (size, dimension) draws."""
        return self._target.draw(self._rng, size)


def pocomc(model: pm.Model) -> Callable[[int], float]:
    """Run pocoMC in its defaults (512 effective samples), with a vectorised likelihood."""
    from pocomc import Sampler

    target = Target(model)
    log_prior = target.compile_batched(target.log_prior)
    likelihood = target.compile_batched(target.log_likelihood)

    def run(seed: int) -> float:
        prior = _Prior(target, seed)
        prior.logpdf = log_prior
        sampler = Sampler(prior, likelihood, vectorize=True, random_state=seed)
        sampler.run(progress=False)
        log_evidence, _ = sampler.evidence()
        return float(log_evidence)

    return run
