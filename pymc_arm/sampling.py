"""``sample_path``: chains of any path, as an InferenceData."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pymc_arm._compat import InferenceTree
from pymc_arm.chains import pilot, run_chains, spawn_generators
from pymc_arm.path import Path
from pymc_arm.results import make_inference_tree, pool
from pymc_arm.settings import Settings

__all__ = ["sample_path"]


def sample_path(
    path: Path,
    draws: int = 1000,
    *,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | Sequence[int] | np.random.Generator | None = None,
    allocation: Literal["adaptive", "pilot", "optimal"] = "adaptive",
    budget: int | None = None,
    progressbar: bool = True,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    **settings: Any,
) -> InferenceTree:
    """Estimate log Z of a path, and draw from its last distribution.

    Parameters
    ----------
    path
        The sequence of distributions.
    draws
        R, the number of particles of each chain, and of the posterior draws it returns.
    chains
        The number of independent runs. Their Z-hat are averaged, and their spread is the error.
    cores
        How many chains run at the same time; by default as many as there are processors.
    random_seed
        One seed for everything.
    allocation
        ``"adaptive"``: as the algorithm decides, step by step. ``"pilot"``: as a first run decided,
        which makes Z-hat strictly unbiased. ``"optimal"``: by Theorem 1 from a first run, within
        ``budget``.
    budget
        R_tot for ``allocation="optimal"``; by default ``draws`` a step.
    progressbar
        Whether to show progress.
    coords, dims
        Labels for the draws, as in ArviZ.
    **settings
        The fields of :class:`pymc_arm.Settings`: ``variant``, ``threshold``, ``max_rounds``, ...

    Returns
    -------
    InferenceData or DataTree
        With groups ``posterior``, ``sample_stats`` and ``arm``, and log Z in its ``attrs``.

    Examples
    --------
    >>> import pymc_arm
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = pymc_arm.sample_path(path, draws=500, random_seed=1, progressbar=False)
    >>> error = result.attrs["log_marginal_likelihood"] - path.exact_log_evidence
    >>> bool(abs(error) < 0.1)
    True
    """
    if chains < 1:
        raise ValueError(f"chains={chains}: at least one chain is needed.")
    if allocation not in ("adaptive", "pilot", "optimal"):
        raise ValueError(f"allocation={allocation!r} is not 'adaptive', 'pilot' or 'optimal'.")
    if budget is not None and allocation != "optimal":
        raise ValueError(f"budget={budget} has a meaning only with allocation='optimal'.")
    config = Settings(**settings)
    *generators, spare = spawn_generators(random_seed, chains)
    counts = None
    if allocation != "adaptive":
        optimal = allocation == "optimal"
        path, counts = pilot(path, draws, spare, config, optimal=optimal, budget=budget)
        config = Settings(**{**settings, "variant": "rm"})
    results = run_chains(
        path, draws, generators, config, counts=counts, cores=cores, progressbar=progressbar
    )
    evidence = pool(
        [chain.log_evidence for chain in results], [chain.predicted_variance for chain in results]
    )
    recorded = {"draws": draws, "chains": chains, "allocation": allocation, **vars(config)}
    return make_inference_tree(results, evidence, recorded, coords=coords, dims=dims)
