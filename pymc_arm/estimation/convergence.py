"""How far draws and weights can be relied on: split R-hat, effective sample size, Pareto k.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021) for
rank-normalised split R-hat and effective sample sizes, and of Vehtari, Simpson, Gelman, Yao and
Gabry (2024) for the shape k of the tail of importance weights.
"""

import numpy as np
import scipy

from pymc_arm.algorithm.resampling import log_mean_exp

__all__ = [
    "LARGEST_PARETO_K",
    "effective_sizes",
    "largest_sound_r_hat",
    "pareto_k",
    "split_r_hat",
]

# Above this shape the mean of weights converges too slowly for its error to be known (Vehtari and
# others, 2024); weights with a variance have k < 0.5.
LARGEST_PARETO_K = 0.7
# Fewer weights than this have no tail to fit.
SMALLEST_TAIL = 20
# The largest of 2000 weights with a tail of shape 0.8 tells a smaller shape once in 200 times.
CLEARLY_BOUNDED = 0.4


def pareto_k(log_weights: np.ndarray) -> float:
    """Return the shape k of the generalised Pareto distribution that fits the largest weights.

    The tail is the largest min(size / 5, 3 sqrt(size)) weights; the fit is that of Zhang and
    Stephens (2009). Weights in clusters (modes of which q has different shares) look heavy-tailed
    to such a fit when they are not: 2.1 was seen where no weight was above 3.7 times their mean. Of
    n weights with a tail of shape k the largest is about n^k times the mean; where that is clearly
    smaller, it has the last word. It is -inf where there are too few different weights to tell.

    Examples
    --------
    Squared reciprocals of uniform draws have a tail of shape 2.

    >>> import numpy as np
    >>> from pymc_arm.estimation.convergence import pareto_k
    >>> uniform = np.random.default_rng(1).random(20_000)
    >>> round(pareto_k(-2 * np.log(uniform)))
    2
    """
    values = np.asarray(log_weights, dtype=float)
    values = np.sort(values[np.isfinite(values)])
    count = int(min(len(values) / 5, 3 * np.sqrt(len(values))))
    if count < SMALLEST_TAIL:
        return -np.inf
    cutoff, largest = values[-count - 1], values[-1]
    excess = np.exp(values[-count:] - largest) - np.exp(cutoff - largest)
    excess = excess[excess > 0]
    # Equal weights, to rounding, have no tail at all.
    if len(excess) < SMALLEST_TAIL or largest - cutoff < 1e-8:
        return -np.inf
    log_mean = log_mean_exp(values)
    by_largest = float((largest - log_mean) / np.log(len(values)))
    return by_largest if by_largest < CLEARLY_BOUNDED else _pareto_shape(excess)


def _pareto_shape(excess: np.ndarray) -> float:
    """Return the shape of sorted exceedances (Zhang and Stephens, 2009), shrunk towards 1/2."""
    size = len(excess)
    grid = 30 + int(np.sqrt(size))
    candidates = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    candidates = candidates / (3 * excess[int(size / 4 + 0.5) - 1]) + 1 / excess[-1]
    shapes = np.log1p(-candidates[:, None] * excess).mean(axis=1)
    log_likelihood = size * (np.log(-candidates / shapes) - shapes - 1)
    weights = scipy.special.softmax(log_likelihood)
    shape = float(np.log1p(-float(weights @ candidates) * excess).mean())
    # A weak prior at 1/2, worth ten exceedances, as in the reference.
    return (size * shape + 5.0) / (size + 10)


def split_r_hat(draws: np.ndarray) -> np.ndarray:
    """Return rank-normalised split R-hat of each column: the larger of bulk and folded.

    Parameters
    ----------
    draws
        Equally weighted draws, (chain, draw, column).

    Returns
    -------
    numpy.ndarray
        One number a column; NaN where a column is constant.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    bulk, tails = (_r_hat(_rank_normalize(values)) for values in (halves, folded))
    return np.where(tails > bulk, tails, bulk)


def largest_sound_r_hat(chains: int, draws: int, columns: int, chance: float) -> float:
    """Return what the largest R-hat of independent draws exceeds with a small chance.

    With m halves of h independent draws R-hat^2 is (h - 1 + F) / h, and F has Fisher's
    distribution with m - 1 and m (h - 1) degrees of freedom. Each column counts twice: bulk and
    folded.
    """
    half, count = draws // 2, 2 * chains
    if half < 2:
        return np.inf
    level = chance / (2 * max(columns, 1))
    ratio = float(scipy.special.fdtri(count - 1, count * (half - 1), 1 - level))
    return float(np.sqrt((half - 1 + ratio) / half))


def effective_sizes(draws: np.ndarray) -> np.ndarray:
    """Return the effective number of draws of each column: the smaller of bulk and tails.

    Autocorrelations are summed by Geyer's initial monotone sequence; the tails are the indicators
    of the 5 % and the 95 % quantile. NaN where a column is constant.
    """
    halves = _split(draws)
    bulk = _effective_size(_rank_normalize(halves))
    low, high = np.quantile(halves, [0.05, 0.95], axis=(0, 1))
    tails = [_effective_size((halves <= limit).astype(float)) for limit in (low, high)]
    smallest: np.ndarray = np.fmin.reduce([bulk, *tails])
    return smallest


def _split(draws: np.ndarray) -> np.ndarray:
    """Return the halves of chains as chains."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]]).astype(float)


def _rank_normalize(draws: np.ndarray) -> np.ndarray:
    """Return the normal scores of the ranks over all chains."""
    flat = draws.reshape(-1, draws.shape[2])
    order = np.argsort(flat, axis=0)
    ranks = np.empty(flat.shape)
    np.put_along_axis(ranks, order, np.arange(1.0, len(flat) + 1)[:, None], axis=0)
    ordered = np.take_along_axis(flat, order, axis=0)
    for column in np.flatnonzero((ordered[1:] == ordered[:-1]).any(axis=0)):
        # Ties share the mean of their ranks.
        _, inverse, counts = np.unique(ordered[:, column], return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        ranks[order[:, column], column] = (last - 0.5 * (counts - 1))[inverse]
    scores: np.ndarray = scipy.special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    return scores.reshape(draws.shape)


def _r_hat(draws: np.ndarray) -> np.ndarray:
    size = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.sqrt((size - 1) / size + between / within)
    return found


def _effective_size(draws: np.ndarray) -> np.ndarray:
    """Return chains times draws over the autocorrelation time, by column."""
    chains, size, columns = draws.shape
    length = scipy.fft.next_fast_len(2 * size)
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), length, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, length, axis=1)[:, :size].mean(axis=0) / size
    within = covariance[0] * size / max(size - 1, 1)
    between = draws.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else np.zeros(columns)
    total = covariance[0] + between
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    even = size - size % 2
    pairs = correlation[:even].reshape(-1, 2, columns).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(max(chains * size, 10)))
    return np.where(total > 0, chains * size / time, np.nan)
