"""One adversary: a PyMC model, its exact log evidence, and a second way to the same number."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pymc as pm

from benchmarks.suite.integrate import Plan

__all__ = ["Adversary", "Answer"]


@dataclass(frozen=True)
class Answer:
    """What is known exactly of a model.

    Attributes
    ----------
    log_evidence
        The log marginal likelihood with properly normalised priors.
    moments
        Posterior mean and standard deviation of some scalars: ``"x"``, ``"x[3]"`` (the fourth
        element in C order), or ``"log x"`` where the mean of x itself would be unstable.
    """

    log_evidence: float
    moments: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Adversary:
    """A PyMC model that is ordinary to its user and awkward for an estimator.

    Attributes
    ----------
    name
        Unique name, a valid Python identifier.
    build
        Returns a fresh model.
    solve
        Computes the answer with NumPy and SciPy only.
    method
        How the truth is obtained.
    reason
        What an estimator may stumble over.
    plan
        How `benchmarks.suite.integrate` integrates PyMC's own log-density, as a check of the truth.
    second
        The log evidence by other means, where there is no plan.
    """

    name: str
    build: Callable[[], pm.Model]
    solve: Callable[[], Answer]
    method: str
    reason: str
    plan: Plan | None = None
    second: Callable[[], float] | None = None

    @cached_property
    def answer(self) -> Answer:
        """The exact answer, computed once."""
        return self.solve()

    def log_evidence(self) -> float:
        """Return the exact log marginal likelihood."""
        return self.answer.log_evidence
