"""Sequential Monte Carlo without a move step: what is left of ARM without its kernel.

Particles are weighted and resampled, and never moved, so that all later ones are copies of few.
The paper gives this sampler as many particles as fill ARM's time, and finds it much worse.
"""

import time
from typing import Any

import numpy as np
import pymc as pm

from pymc_arm._compat import InferenceTree
from pymc_arm.algorithm.arm import run
from pymc_arm.algorithm.path import Path
from pymc_arm.sampling import sample, sample_path

__all__ = ["particles_for", "smc"]

# ARM with no rounds of generation, and no move of the copies that a resample leaves.
NEVER_MOVE: dict[str, Any] = {"variant": "arm", "max_rounds": 0, "move": "adaptive"}
# Particles of the first timed run; fewer would measure the cost of a step without particles.
TIMED = 1000
MOST_PARTICLES = 1_000_000


def smc(target: Path | pm.Model, draws: int = 1000, **options: Any) -> InferenceTree:
    """Estimate log Z by weighting and resampling alone.

    Parameters
    ----------
    target
        A path, or a PyMC model.
    draws
        Particles; :func:`particles_for` finds how many fit into a given time.
    **options
        As of :func:`pymc_arm.sample_path` or :func:`pymc_arm.sample`: ``chains``,
        ``random_seed``, ``resample_threshold``, ...

    Returns
    -------
    InferenceData or DataTree
        As of :func:`pymc_arm.sample`. The draws that come back are moved once, at the end, after
        log Z is known.

    Examples
    --------
    >>> from benchmarks.baselines import smc
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> result = smc(path, 1000, random_seed=1, progressbar=False)
    >>> bool(abs(result.attrs["log_marginal_likelihood"] - path.exact_log_evidence) < 0.1)
    True
    """
    fixed = sorted(set(options) & set(NEVER_MOVE))
    if fixed:
        raise ValueError(f"{fixed[0]}={options[fixed[0]]!r}: this sampler never moves.")
    options = {"refine": False, **options, **NEVER_MOVE}
    if isinstance(target, Path):
        return sample_path(target, draws, **options)
    return sample(target, draws, **options)


def particles_for(
    path: Path, seconds: float, random_seed: Any = None, most: int = MOST_PARTICLES
) -> int:
    """Return the number of particles with which one chain without moves takes so long.

    Parameters
    ----------
    path
        The path.
    seconds
        The time of the run to compare with, in seconds of the processor, all threads together.
    random_seed
        Seed of the timed runs.
    most
        Never more than this; memory grows with the particles.

    Examples
    --------
    >>> from benchmarks.baselines import particles_for
    >>> from pymc_arm.testing import GaussianChain
    >>> particles_for(GaussianChain([0.5, -1.0]), seconds=1.0, most=5000) <= 5000
    True
    """
    if not seconds > 0:
        raise ValueError(f"seconds={seconds} must be positive.")
    rng = np.random.default_rng(random_seed)
    run(path, rng, 2, **NEVER_MOVE)
    count = min(TIMED, most)
    while True:
        started = time.process_time()
        run(path, rng, count, **NEVER_MOVE)
        taken = time.process_time() - started
        wanted = int(count * seconds / max(taken, 1e-9))
        if wanted <= 2 * count or count == most:
            return max(1, min(wanted, most))
        count = min(wanted, 10 * count, most)
