"""The view in which a posterior is roundest, as particles or a mode tell.

How far each normal coordinate is non-centred, what the data say about normal vectors, and how
increments of ordered ones are seen. All may be anything: log Z stays what it is.
"""

from dataclasses import replace

import numpy as np

from pymc_arm.estimation.approximation.covariance import score_covariance
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.information import find_information
from pymc_arm.models.reference.laplace import Laplace, laplace
from pymc_arm.models.reference.mixture import Fit
from pymc_arm.models.reference.modes import find_modes, prior_spread
from pymc_arm.models.reference.ordered import see_increments
from pymc_arm.models.reference.target import SharedTarget, View
from pymc_arm.models.reference.vectors import Information

__all__ = ["change_view", "find_noncentering", "look_at_vectors", "see_as_fitted"]

# Smaller degrees of non-centring are none: the model's own coordinates cost less.
SMALLEST_DEGREE = 0.02
# The median of the square of a standard normal.
MEDIAN_SQUARE = 0.455
# Prior draws from which climbs start anew once it is known what the data say about vectors.
STARTS = 4


def look_at_vectors(
    rng: np.random.Generator,
    view: View,
    modes: list[Laplace],
    prior: np.ndarray,
    center: np.ndarray,
    scale: np.ndarray,
) -> tuple[View, list[Laplace], int, bool]:
    """Return the view with what the data say about vectors at the mode, and its modes.

    Parameters
    ----------
    view
        A view in which vectors are non-centred.
    modes
        Its modes, best first.
    prior
        Points of the model from which others are looked for, besides the modes.
    center, scale
        The middle of the prior, and its half width.
    """
    target = view.target
    known = view.to_model(np.array([each.mean for each in modes]))[0]
    informed = target.view(
        view.noncentering, find_information(target, known[:1], rng), view.increments
    )
    points = np.concatenate([known, prior])
    found = find_modes(rng, informed, points, center, scale, len(known) + STARTS)
    return informed, *found


def see_as_fitted(rng: np.random.Generator, target: SharedTarget, fit: Fit) -> View:
    """Return the view that particles of another one suggest."""
    noncentering, information = find_noncentering(target, fit), tuple[Information, ...]()
    increments, chart = None, fit.chart
    if target.vectors or len(target.increments):
        points = chart.view.to_model(chart.to_view(rng.permutation(fit.points)))[0]
        information = find_information(target, points, rng) if target.vectors else ()
        increments = see_increments(target.increments, points)
    return target.view(noncentering, information, increments)


def find_noncentering(target: SharedTarget, fit: Fit) -> np.ndarray:
    """Return the degree of non-centring of each coordinate from the scores of its innovations.

    The mean square of a score is the mean curvature. Of an innovation it is one plus s^2 over the
    variance that the data give x, and the prior's share of that is one. s may vary a lot, so it is
    the median square, over that of a standard normal, that counts: the mean gave eight schools 0.2.
    """
    points = fit.chart.to_view(fit.points)
    scores = fit.chart.view(points)[1]
    noncentering = np.zeros(target.dimension)
    square = np.median(scores[:, target.coordinates] ** 2, axis=0) / MEDIAN_SQUARE
    noncentering[target.coordinates] = 1 / np.maximum(square, 1.0)
    noncentering[noncentering < SMALLEST_DEGREE] = 0.0
    return noncentering


def change_view(view: View, fit: Fit, prior: np.ndarray) -> Fit:
    """Return the particles in another view, with a chart fitted to them there."""
    old = fit.chart
    points = view.from_model(old.view.to_model(old.to_view(fit.points))[0])[0]
    if len(points) > 2 * points.shape[1]:
        mean, covariance = score_covariance(points, view(points)[1])
        chart = Chart(view, mean, np.linalg.cholesky(covariance))
    else:
        middle = laplace(view, points.mean(axis=0), prior_spread(view, prior)[1])
        chart = Chart(view, middle.mean, middle.factor)
    none = points[:0]
    return replace(fit, chart=chart, points=none, scores=none, beta=0.0, evaluations=len(points))
