"""Fits the reference q to draws of the posterior that are there already.

No climbs and no moves: the draws know where the mass is. What is left is the view in which it is
roundest, and the covariance from places and scores.
"""

from dataclasses import replace

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.fit import Reference, assess, find_shares
from pymc_arm.models.reference.mixture import Fit, fit_chart, freedom_of
from pymc_arm.models.reference.target import SharedTarget, View
from pymc_arm.running.processors import one_blas_thread

__all__ = ["fit_reference_to_draws"]


def fit_reference_to_draws(
    path: GenericPath, points: np.ndarray, rng: np.random.Generator
) -> Reference:
    """Fit q to draws of the posterior that are there already, in the view where it fits best.

    Parameters
    ----------
    path
        The path of the model, without discrete variables and with a gradient.
    points
        The draws, (size, dimension).
    rng
        For draws of q.

    Raises
    ------
    PathError
        If there is no gradient, or draws of q do not meet the posterior.
    """
    if not path.density.gradient.available():
        raise PathError("The model has no gradient that can be evaluated in batches.")
    with one_blas_thread(), np.errstate(all="ignore"):
        target = SharedTarget(path)
        shares = np.zeros(target.dimension)
        fits = [_fit_to_draws(target.view(shares), points)]
        if len(target.coordinates):
            shares[target.coordinates] = 1.0
            fits.append(_fit_to_draws(target.view(shares), points))
            between = find_shares(target, fits[-1])
            fits.append(_fit_to_draws(target.view(between), points))
        found = [assess(rng, fit.chart.view, [fit]) for fit in fits]
        best = max(found, key=lambda each: each.overlap)
    if not np.isfinite(best.log_evidence):
        raise PathError("The reference that was fitted does not meet the posterior.")
    return replace(best, evaluations=sum(fit.evaluations for fit in fits))


def _fit_to_draws(view: View, points: np.ndarray) -> Fit:
    """Return a chart fitted to draws of the posterior and their scores."""
    local = view.from_model(points)[0]
    scores = view(local)[1]
    # Widths come first: the covariance from scores is sensitive to coordinates of other scales.
    start = Chart(view, local.mean(axis=0), np.diag(np.maximum(local.std(axis=0), 1e-300)))
    mean, factor = fit_chart(start.from_view(local), scores @ start.factor)
    chart = Chart(view, start.to_view(mean), start.factor @ factor)
    inside = chart.from_view(local)
    return Fit(chart, freedom_of(inside), inside, scores @ chart.factor, 1.0, len(points))
