"""`particles`: waste-free tempering and IBIS, by an author of both.

Its random-walk moves are its default; 200 chains of 100 are what its documentation shows. Releases
to 0.4 ask for NumPy 1 but run with NumPy 2: ``pip install --no-deps particles``.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.peers.target import Target

__all__ = ["ibis", "waste_free"]

CHAINS, LENGTH = 200, 100


def waste_free(model: pm.Model) -> Callable[[int], float]:
    """Run waste-free SMC along adaptive temperatures."""
    from particles.smc_samplers import AdaptiveTempering

    return _prepare(model, AdaptiveTempering)


def ibis(model: pm.Model) -> Callable[[int], float]:
    """Run waste-free SMC that adds one datum at a time."""
    from particles.smc_samplers import IBIS

    return _prepare(model, IBIS)


def _prepare(model: pm.Model, algorithm: Callable) -> Callable[[int], float]:
    import particles

    target = Target(model)
    static = _StaticModel(target)

    def run(seed: int) -> float:
        np.random.seed(seed)  # noqa: NPY002 (the library's only source of randomness)
        static.rng = np.random.default_rng(seed)
        steps = algorithm(model=static, len_chain=LENGTH)
        sampler = particles.SMC(fk=steps, N=CHAINS, collect="off")
        sampler.run()
        return float(sampler.logLt)

    return run


class _StaticModel:
    """A target as the prior and the model that the library asks for."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rng = np.random.default_rng()
        self.prior: Any = self
        self.logpdf = target.compile_batched(target.log_prior)
        self.full = target.compile_batched(target.log_likelihood)

    @cached_property
    def terms(self) -> Callable[[np.ndarray], np.ndarray]:
        """The log-likelihood of each datum, which only IBIS needs."""
        return self.target.compile_batched(self.target.terms)

    @cached_property
    def T(self) -> int:
        """The number of data."""
        return self.terms(self.rvs(1)).shape[1]

    def rvs(self, size: int) -> np.ndarray:
        """Return draws from the prior."""
        return self.target.draw(self.rng, size)

    def logpyt(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the log-likelihood of one datum."""
        return self.terms(theta)[:, t]

    def loglik(self, theta: np.ndarray, t: int | None = None) -> np.ndarray:
        """Return the log-likelihood of the data up to one, or of all."""
        return self.full(theta) if t is None else self.terms(theta)[:, : t + 1].sum(axis=1)

    def logpost(self, theta: np.ndarray, t: int | None = None) -> np.ndarray:
        """Return the log-density of the posterior, not normalised."""
        return self.logpdf(theta) + self.loglik(theta, t)
