"""What a small run from the prior shows of a small posterior goes into the reference.

Where q fits badly, draws of q need not show why: two components of a mixture that overlap may
explain all data alone, one or the other, and the posterior then has slabs as wide as the prior of
the one that is not needed. Climbs do not end there, and draws of q do not come there. A small run
from the prior does, and :mod:`guard` refuses a reference that has no part there: the whole run
would be made again, from the prior. So q is fitted to its particles first. The guard makes another
run of its own, and still decides.

Which q is better is asked of both: of draws of q, and of the points that were shown, since draws of
a q that misses a part of the posterior seem to fit.
"""

from dataclasses import replace

import numpy as np

from pymc_arm.algorithm.resampling import SCHEMES, log_mean_exp, normalize
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.density import Chart, StudentMixture
from pymc_arm.models.reference.fit import ENOUGH, Reference
from pymc_arm.models.reference.guard import is_rounding, is_small, run_from_prior
from pymc_arm.models.reference.path import ReferencePath
from pymc_arm.models.reference.polish import LARGEST_POLISHED, polish
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.running.processors import one_blas_thread

__all__ = ["look_from_prior"]

# A q whose own draws fit so much worse is not taken, whatever the points say: they are few.
SMALLEST_PART = 0.1

# Not that of the guard, whose run is to know nothing of this one.
SEED = 20161107


def look_from_prior(path: GenericPath, target: SharedTarget, found: Reference) -> Reference:
    """Return the reference with what a small run from the prior shows, if it fits better then.

    Parameters
    ----------
    path
        The path of the model from its prior.
    target
        What the reference was fitted to.
    found
        The reference.
    """
    mixture = found.mixture
    if found.overlap > ENOUGH or not is_small(path) or not isinstance(mixture, StudentMixture):
        return found
    if mixture.dimension > LARGEST_POLISHED:
        return found
    rng = np.random.default_rng(SEED)
    with one_blas_thread(), np.errstate(all="ignore"):
        done = run_from_prior(path, rng)
        state = done.state
        if done.log_evidence == -np.inf:
            return found
        if is_rounding(path, state.particles, state.log_weights):
            return found
        points = ReferencePath(path, found, target).chart_points(state.particles)
        chosen = SCHEMES["systematic"](rng, normalize(state.log_weights), len(points))
        points = points[chosen]
        points = points[np.isfinite(points).all(axis=1)]
        if len(np.unique(points[:, 0])) <= 2 * mixture.dimension:
            return found
        chart = Chart(found.view(target), found.center, found.factor)
        better, overlap, log_evidence, more = polish(rng, chart, mixture, ENOUGH, points)
        log_z = max(log_evidence, found.log_evidence)
        log_f = chart.log_density(points) - log_z
        before = min(found.overlap, _overlap_at_points(mixture, log_f, points))
        after = min(overlap, _overlap_at_points(better, log_f, points))
    if not after > before or overlap < SMALLEST_PART * found.overlap:
        return found
    return replace(
        found,
        mixture=better,
        overlap=overlap,
        log_evidence=log_evidence,
        evaluations=found.evaluations + more,
    )


def _overlap_at_points(
    mixture: StudentMixture, log_density: np.ndarray, points: np.ndarray
) -> float:
    """Return the effective share of draws as points of the posterior tell: 1 / E[f / (Z q)]."""
    ratio = log_density - mixture(points)[0]
    return float(np.exp(-log_mean_exp(np.where(np.isnan(ratio), -np.inf, ratio))))
