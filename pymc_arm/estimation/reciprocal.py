"""Log Z from the densities at draws of a posterior alone: a check, and no more.

With a density g inside of where the draws are, the mean of g / f over them is 1 / Z (Gelfand and
Dey, 1994). Here g is a normal density fitted to one half of the draws, cut off at the distance that
half of those exceed, and the mean is taken over the other half. It takes no evaluation besides that
of f at the draws, and is good to a few hundredths where the posterior is about normal. Where it is
not, the estimate says so by its error.
"""

import numpy as np
import scipy

from pymc_arm.estimation.estimate import Evidence

__all__ = ["reciprocal_estimate"]

# The share of draws that g covers. Less leaves few draws, and more has tails that f may not have.
COVERED = 0.5
# Fewer draws of a half than so many a dimension have no covariance.
FEWEST_PER_DIMENSION = 5


def reciprocal_estimate(points: np.ndarray, log_density: np.ndarray, effective: float) -> Evidence:
    """Estimate log Z from draws and log f there; the error is infinite where that is impossible.

    Parameters
    ----------
    points
        Draws, (size, dimension).
    log_density
        log f at them.
    effective
        How many independent draws they are worth.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.estimation.reciprocal import reciprocal_estimate
    >>> points = np.random.default_rng(1).normal(size=(2000, 3))
    >>> found = reciprocal_estimate(points, -0.5 * (points**2).sum(axis=1), 2000)
    >>> bool(abs(found.log_evidence - 1.5 * np.log(2 * np.pi)) < 4 * found.standard_error)
    True
    """
    size, dimension = points.shape
    usable = np.isfinite(log_density) & np.isfinite(points).all(axis=1)
    halves = np.arange(0, size, 2), np.arange(1, size, 2)
    if not usable.all() or size < 2 * FEWEST_PER_DIMENSION * dimension:
        return Evidence(np.nan, np.inf, 1)
    shift = float(np.median(log_density))
    terms = []
    for fitted, judged in (halves, halves[::-1]):
        mean = points[fitted].mean(axis=0)
        covariance = np.atleast_2d(np.cov(points[fitted].T))
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:  # a coordinate that does not vary
            return Evidence(np.nan, np.inf, 1)
        near, far = (
            np.square(scipy.linalg.solve_triangular(factor, (points[k] - mean).T, lower=True)).sum(
                axis=0
            )
            for k in (fitted, judged)
        )
        limit = float(np.quantile(near, COVERED))
        log_g = -0.5 * far - 0.5 * dimension * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
        log_g -= np.log(scipy.special.chdtr(dimension, limit))
        with np.errstate(over="ignore"):
            terms.append(np.where(far < limit, np.exp(log_g - log_density[judged] + shift), 0.0))
    values = np.concatenate(terms)
    mean_value = float(values.mean())
    if not 0 < mean_value < np.inf:
        return Evidence(np.nan, np.inf, 1)
    error = float(values.std() / mean_value / np.sqrt(max(min(effective, size), 1.0)))
    return Evidence(shift - float(np.log(mean_value)), error, size - 1)
