"""The direct call, for users who have a covariance matrix and labels, and no PyMC model."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pymc_arm.families.gpc.path import GPCPath

__all__ = ["gpc"]


def gpc(
    K: Any,
    y: Any,
    *,
    draws: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    mean: Any = 0.0,
    lookahead: Literal["ep"] | None = "ep",
    representation: Literal["z", "x"] = "z",
    kernel: Literal["overrelaxed", "slice"] = "overrelaxed",
    relaxation: float = 0.05,
    sweeps: int = 1,
    order: Literal["informative", "given", "random"] | Sequence[int] = "informative",
    dtype: Any = None,
    threads: int | None = None,
    name: str = "f",
    **settings: Any,
) -> Any:
    """Estimate log p(y) of a Gaussian process classifier with probit link, and its posterior.

    The model is f ~ N(mean, K), p(y_i = 1 | f) = Phi(f_i).

    Parameters
    ----------
    K
        Covariance matrix of the process at the inputs, positive definite; no jitter is added.
    y
        Labels: 0/1, booleans or -1/+1.
    draws
        Particles of a chain, and draws of it that come back.
    chains
        Independent runs.
    random_seed
        Seed.
    mean
        Prior mean, a number or a vector.
    lookahead
        ``"ep"`` lets every step know the labels to come through EP. None is the paper's path,
        whose mean squared error x time is hundreds to thousands of times larger.
    representation, kernel, relaxation, sweeps, order, dtype, threads, name
        See :class:`~pymc_arm.families.gpc.path.GPCPath`.
    **settings
        Settings of the run, such as ``variant`` and ``threshold``; see
        :class:`pymc_arm.Settings`.

    Returns
    -------
    InferenceData or DataTree
        As of :func:`pymc_arm.sample`, with the process in ``posterior``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_arm
    >>> K = np.array([[4.0, 3.0], [3.0, 4.0]])
    >>> found = pymc_arm.gpc(K, [1, 1], random_seed=1, progressbar=False)
    >>> exact = np.log(1 / 4 + np.arcsin(3 / 5) / (2 * np.pi))
    >>> bool(abs(found.attrs["log_marginal_likelihood"] - exact) < 0.02)
    True
    """
    from pymc_arm.sampling import sample_path

    path = GPCPath(
        K,
        y,
        mean=mean,
        lookahead=lookahead,
        representation=representation,
        kernel=kernel,
        relaxation=relaxation,
        sweeps=sweeps,
        order=order,
        random_seed=random_seed if isinstance(random_seed, (int, np.integer)) else None,
        dtype=dtype,
        threads=threads,
        name=name,
    )
    return sample_path(path, draws=draws, chains=chains, random_seed=random_seed, **settings)
