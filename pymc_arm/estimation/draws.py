"""Draws of the posterior out of the particles of several chains."""

from collections.abc import Sequence

import numpy as np

from pymc_arm.algorithm.resampling import normalize, residual

__all__ = ["deal_out"]


def deal_out(
    rng: np.random.Generator, log_evidences: np.ndarray, sizes: Sequence[int]
) -> list[np.ndarray]:
    """Pool the particles of chains with weights by Z-hat, and deal them out to as many chains.

    A particle of a chain has the weight Z-hat over the number of its particles: that is what makes
    a mean over all of them consistent, and Z-hat unbiased. Chains whose Z-hat is the same keep each
    of their particles exactly once.

    Parameters
    ----------
    rng
        For resampling, and the order.
    log_evidences
        log Z-hat of each chain.
    sizes
        How many particles each chain has, and shall have.

    Returns
    -------
    list of numpy.ndarray
        For each chain, indices into the particles of all chains, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_arm.estimation.draws import deal_out
    >>> first, second = deal_out(np.random.default_rng(1), np.array([0.0, 0.0]), [3, 3])
    >>> sorted([*first.tolist(), *second.tolist()])
    [0, 1, 2, 3, 4, 5]
    """
    shares = np.asarray(log_evidences, dtype=float) - np.log(sizes)
    chosen = residual(rng, normalize(np.repeat(shares, sizes)), int(np.sum(sizes)))
    return np.split(rng.permutation(chosen), np.cumsum(sizes)[:-1])
