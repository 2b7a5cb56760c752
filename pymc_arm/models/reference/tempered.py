"""Between a reference q and a posterior: p_beta ~ q^(1 - beta) f^beta, and how far to go."""

from collections.abc import Callable

import numpy as np

__all__ = ["Tempered", "furthest"]

ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# The shortest step, so that a run ends whatever the weights are, and how exactly its end is found:
# gamma is itself known to a few percent only.
SHORTEST = 1e-6
RELATIVE_TOLERANCE = 0.01


class Tempered:
    """The log-density of p_beta, unnormalised, and its gradient."""

    def __init__(
        self, posterior: ValueAndGradient, reference: ValueAndGradient, beta: float
    ) -> None:
        self._posterior, self._reference, self._beta = posterior, reference, beta

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, (size,), and gradients, (size, dimension)."""
        beta = self._beta
        if beta == 1.0:
            return self._posterior(points)
        log_q, score = self._reference(points)
        if beta == 0.0:
            return log_q, score
        values, gradients = self._posterior(points)
        return (1 - beta) * log_q + beta * values, (1 - beta) * score + beta * gradients


def furthest(fraction_at: Callable[[float], float], previous: float, smallest: float) -> float:
    """Return the largest power whose effective fraction is not below ``smallest``."""
    if fraction_at(1.0) >= smallest:
        return 1.0
    low, high = previous, 1.0
    while high - low > RELATIVE_TOLERANCE * (high - previous) and high - previous > SHORTEST:
        middle = 0.5 * (low + high) if low > previous else previous + 0.3 * (high - previous)
        low, high = (middle, high) if fraction_at(middle) >= smallest else (low, middle)
    return max(low, min(previous + SHORTEST, 1.0))
