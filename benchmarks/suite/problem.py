"""One benchmark problem: a PyMC model together with its exact log evidence."""

from collections.abc import Callable
from dataclasses import dataclass

import pymc as pm

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """A PyMC model whose log marginal likelihood is known.

    Attributes
    ----------
    name
        Unique name, a valid Python identifier.
    build
        Returns a fresh model; two calls share nothing but the data.
    log_evidence
        The log marginal likelihood with properly normalised priors, computed from the data with
        NumPy and SciPy only. The first call may take a second; later calls are cached.
    method
        How the truth is obtained, e.g. ``"Kalman filter"``.
    kinds
        The features of PyMC or of the posterior that the problem exercises.
    standard_error
        Standard error of the truth; zero where it is exact to the precision of a quadrature (better
        than 1e-5).
    hard
        Why an estimator may fail here, or None.
    """

    name: str
    build: Callable[[], pm.Model]
    log_evidence: Callable[[], float]
    method: str
    kinds: tuple[str, ...]
    standard_error: float = 0.0
    hard: str | None = None
