"""How far to raise a power: the temperatures of a tempered step, found from the particles."""

from collections.abc import Callable

import numpy as np

from pymc_arm.algorithm.resampling import effective_sample_size

__all__ = ["effective_fraction", "furthest"]

# The shortest first piece of a bridge: log-likelihoods of prior draws may range over 1e300. Later
# pieces make the power grow by this share at least, so that the run ends whatever the weights are;
# sound clouds ask for less from a million dimensions on. And how exactly an end is found.
SHORTEST = 1e-300
SMALLEST_GROWTH = 1e-3
RELATIVE_TOLERANCE = 0.01


def effective_fraction(log_ratio: np.ndarray, log_weights: np.ndarray) -> float:
    """Return the effective share of weighted particles after another factor of their weights."""
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    return effective_sample_size(log_ratio + log_weights) / len(log_weights)


def furthest(fraction_at: Callable[[float], float], previous: float, smallest: float) -> float:
    """Return the largest end whose effective fraction is not below ``smallest``.

    By bisection on the log of the share that is added, since nothing is known of its scale.
    """
    if fraction_at(1.0) >= smallest:
        return 1.0
    low = np.log(max(SHORTEST, SMALLEST_GROWTH * previous))
    high = np.log(1.0 - previous)
    while high - low > RELATIVE_TOLERANCE:
        middle = 0.5 * (low + high)
        enough = fraction_at(previous + float(np.exp(middle))) >= smallest
        low, high = (middle, high) if enough else (low, middle)
    return min(previous + float(np.exp(low)), 1.0)
