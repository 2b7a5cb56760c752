"""How heavy the tails of points are: the degrees of freedom of a Student-t."""

import numpy as np

__all__ = ["degrees_of_freedom"]

# Distances that vary less than this more than normal ones are those of a normal density.
NORMAL = 1e-3


def degrees_of_freedom(
    distances: np.ndarray, dimension: int, lowest: float, highest: float
) -> float:
    """Return the degrees of freedom that the kurtosis of squared distances from the mean tells.

    Parameters
    ----------
    distances
        Squared, in units of the covariance, so that their mean is the dimension.
    dimension
        Of the points.
    lowest, highest
        The bounds of what is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.estimation.approximation.tails import degrees_of_freedom
    >>> points = np.random.default_rng(1).standard_t(20, 1_000_000) * np.sqrt(18 / 20)
    >>> round(degrees_of_freedom(points**2, 1, 4.5, 100))
    20
    """
    kurtosis = float((distances**2).mean() / (dimension * (dimension + 2)))
    return float(np.clip(4 + 2 / max(kurtosis - 1, NORMAL), lowest, highest))
