"""Theorem 1: the best number of particles for each step, and the variance of a single run.

With v_n the variance of W / E[W] under p_n, and independent particles, Var(log Z-hat) is
sum v_n / R_n. Under a budget sum R_n = R_tot it is smallest at R_n proportional to sqrt(v_n), where
it is V_min = (sum sqrt(v_n))^2 / R_tot.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pymc_arm.algorithm.arm import Info

__all__ = ["increment_variances", "optimal_counts", "predicted_variance"]


def increment_variances(history: Sequence[Info]) -> np.ndarray:
    """Return v_n-hat = R_n / R_eff,n - 1 of each step of a run."""
    return np.array([info.increment_variance for info in history])


def predicted_variance(history: Sequence[Info]) -> float:
    """Predict Var(log Z-hat) from a single run: sum v_n-hat / R_n, for equal weights.

    Weights rho that were carried over make the n-th term sum rho^2 (W / m_n - 1)^2. It holds for
    particles that are independent at each step; copies that have not been moved apart make the
    true variance larger.

    Examples
    --------
    >>> from pymc_arm.algorithm.allocation import predicted_variance
    >>> predicted_variance([])
    0.0
    """
    return float(sum(info.predicted_variance for info in history))


def optimal_counts(variances: ArrayLike, budget: int) -> np.ndarray:
    """Return R_n^opt = sqrt(v_n) / sum sqrt(v_n) * R_tot, eq. (6), each at least 2.

    Parameters
    ----------
    variances
        v_n, from a pilot run.
    budget
        R_tot, the sum of the particles over all steps.

    Examples
    --------
    >>> from pymc_arm.algorithm.allocation import optimal_counts
    >>> optimal_counts([1.0, 4.0, 1.0], budget=400).tolist()
    [100, 200, 100]
    """
    roots = np.sqrt(np.asarray(variances, dtype=float))
    steps = len(roots)
    if steps == 0:
        return np.empty(0, dtype=int)
    if budget < 2 * steps:
        raise ValueError(
            f"budget={budget} is less than two particles for each of the {steps} steps; "
            f"give at least {2 * steps}."
        )
    if not np.all(np.isfinite(roots)):
        step = int(np.argmin(np.isfinite(roots)))
        raise ValueError(
            f"variances[{step}] is {roots[step] ** 2}: no particle of the pilot run had weight in "
            "that step. Use more draws."
        )
    shares = roots / roots.sum() if roots.sum() > 0 else np.full(steps, 1 / steps)
    # A step whose pilot saw no variance still needs particles, to notice if that was luck.
    counts: np.ndarray = np.maximum(np.floor(shares * budget).astype(int), 2)
    while counts.sum() > budget:
        counts[np.argmax(counts)] -= counts.sum() - budget
        counts = np.maximum(counts, 2)
    return counts
