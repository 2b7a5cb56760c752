"""Weights and resampling, with every weight in logs.

Each scheme takes normalised log-weights and returns ancestor indices whose expected counts are
``size`` times the weights. Residual resampling is the default, as in the paper; asymptotically it
never does worse than multinomial (Chopin, 2004).
"""

from collections.abc import Callable

import numpy as np

__all__ = [
    "SCHEMES",
    "effective_sample_size",
    "effective_share",
    "log_mean_exp",
    "log_sum_exp",
    "normalize",
    "variance_of_mean",
]


def log_sum_exp(values: np.ndarray) -> float:
    """Return log(sum(exp(values))), with -inf for no mass at all."""
    largest = np.max(values, initial=-np.inf)
    if not np.isfinite(largest):
        return float(largest)
    return float(largest + np.log(np.sum(np.exp(values - largest))))


def log_mean_exp(values: np.ndarray) -> float:
    """Return log(mean(exp(values)))."""
    return log_sum_exp(np.asarray(values)) - float(np.log(np.size(values)))


def normalize(log_weights: np.ndarray) -> np.ndarray:
    """Return log-weights whose exponentials sum to one."""
    return log_weights - log_sum_exp(log_weights)


def effective_sample_size(log_weights: np.ndarray) -> float:
    """Return R_eff = (sum w)^2 / sum w^2, the paper's eq. (4); zero if every weight is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.algorithm.resampling import effective_sample_size
    >>> effective_sample_size(np.log([0.5, 0.5, 0.0 + 1e-300]))
    2.0
    """
    largest = np.max(log_weights, initial=-np.inf)
    if not np.isfinite(largest):
        return 0.0 if largest == -np.inf else np.nan
    weights = np.exp(log_weights - largest)  # before squaring: logs of 1e16 have no digits left
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def effective_share(log_weights: np.ndarray) -> float:
    """Return R_eff / R, with weights that are not numbers as zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.algorithm.resampling import effective_share
    >>> effective_share(np.array([0.0, 0.0, np.nan, -np.inf]))
    0.5
    """
    usable = np.where(np.isnan(log_weights), -np.inf, log_weights)
    return effective_sample_size(usable) / len(usable)


def variance_of_mean(log_weights: np.ndarray, log_values: np.ndarray | float) -> float:
    """Return the variance of log m, m = sum rho v, as sum rho^2 (v / m - 1)^2.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.algorithm.resampling import variance_of_mean
    >>> variance_of_mean(np.log([0.5, 0.5]), np.array([0.0, 0.0]))
    0.0
    """
    if not np.ndim(log_values):
        return 0.0
    log_mean = log_sum_exp(log_weights + log_values)
    if not np.isfinite(log_mean):
        return np.inf
    return float(np.sum((np.exp(log_weights) * np.expm1(log_values - log_mean)) ** 2))


def multinomial(rng: np.random.Generator, log_weights: np.ndarray, size: int) -> np.ndarray:
    """Draw every ancestor independently."""
    return _invert(np.exp(log_weights), np.sort(rng.random(size)))


def stratified(rng: np.random.Generator, log_weights: np.ndarray, size: int) -> np.ndarray:
    """Draw one ancestor from each of ``size`` equal slices of the weights."""
    return _invert(np.exp(log_weights), (np.arange(size) + rng.random(size)) / size)


def systematic(rng: np.random.Generator, log_weights: np.ndarray, size: int) -> np.ndarray:
    """Draw all ancestors with a single uniform number."""
    return _invert(np.exp(log_weights), (np.arange(size) + rng.random()) / size)


def residual(rng: np.random.Generator, log_weights: np.ndarray, size: int) -> np.ndarray:
    """Keep floor(R w) copies of each particle; draw the rest from what is left of the weights."""
    expected = size * np.exp(log_weights)
    # Weights of a whole number of copies must not fall just below it by rounding.
    copies = np.floor(expected * (1 + 1e-12)).astype(np.int64)
    kept = np.repeat(np.arange(len(copies)), copies)
    missing = size - len(kept)
    if missing <= 0:
        return kept[:size]
    rest = np.maximum(expected - copies, 0)
    return np.concatenate([kept, _invert(rest / rest.sum(), np.sort(rng.random(missing)))])


def _invert(weights: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the index at which the cumulated weights pass each of the sorted points."""
    cumulated = np.cumsum(weights)
    return np.searchsorted(cumulated / cumulated[-1], points, side="right").clip(
        0, len(weights) - 1
    )


SCHEMES: dict[str, Callable[[np.random.Generator, np.ndarray, int], np.ndarray]] = {
    "residual": residual,
    "multinomial": multinomial,
    "systematic": systematic,
    "stratified": stratified,
}
