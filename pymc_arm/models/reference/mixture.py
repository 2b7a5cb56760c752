"""From Gaussians that were fitted to the parts of a posterior to the mixture q of Student-t.

q has as heavy tails as the particles show, with parts that are stretched along coordinates of long
tails, and in few dimensions a part that is wider. Distinct modes become components.
"""

from dataclasses import dataclass, replace

import numpy as np

from pymc_arm.estimation.approximation.covariance import score_covariance
from pymc_arm.estimation.approximation.tails import degrees_of_freedom
from pymc_arm.models.fields.view import FieldView
from pymc_arm.models.reference.density import Chart, Component, StudentMixture
from pymc_arm.models.reference.target import View

__all__ = ["Fit", "combine", "fit_chart", "freedom_of", "scale_ratio"]

# The bounds of the degrees of freedom that are fitted; the upper one is twice the dimension if that
# is more. The distance from the centre varies by 1 in sqrt(freedom / 2) then, and no more than that
# of a normal density by twice: particles that differ in it by more need many trajectories.
FREEDOMS = (5.0, 200.0)
# A coordinate has a long tail if skewness and half its excess kurtosis exceed this (an exponential
# has 5; of 200 particles, noise gives 0.3). At most so many are stretched, by this factor and with
# this weight each: a tail costs a tenth of the draws, and reaches to eight standard deviations.
LONG_TAIL, MOST_TAILS, STRETCH, TAIL_WEIGHT = 0.6, 3, 3.0, 0.1
# In few dimensions a part of the draws is from a wider density with heavier tails: they cost little
# there, and show what the rest does not reach. More dimensions make such draws useless.
LARGEST_WIDE, WIDTH, WIDE_WEIGHT, WIDE_FREEDOM = 12, 2.5, 0.1, 3.0
# Stretched components cost two more products of a matrix for each evaluation.
LARGEST_TAILED = 300
# No component of a mixture has less weight than this: Laplace's masses are off by factors.
SMALLEST_WEIGHT = 0.05


@dataclass(frozen=True)
class Fit:
    """A chart with tails, particles in it with their scores, and gradients evaluated so far.

    ``beta`` is how far draws of the chart before could follow towards the posterior. ``log_mass``
    is the weight of the component, where it is not what the height of the density says.
    """

    chart: Chart
    freedom: float
    points: np.ndarray
    scores: np.ndarray
    beta: float
    evaluations: int
    log_mass: float | None = None


def freedom_of(points: np.ndarray) -> float:
    """Return degrees of freedom from the kurtosis of the particles' distances."""
    distances, dimension = (points**2).sum(axis=1), points.shape[1]
    lowest, highest = FREEDOMS
    distances = distances / distances.mean() * dimension
    return degrees_of_freedom(distances, dimension, lowest, max(highest, 2 * dimension))


def scale_ratio(freedom: float) -> float:
    """Return the ratio of scale and standard deviation of a Student-t."""
    return float(np.sqrt((freedom - 2) / freedom))


def fit_chart(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and factor of the Gaussian of least Fisher divergence, in the present chart.

    With fewer particles than twice the dimension, only the widths of the coordinates of the chart
    are fitted; they are those of Laplace's method, or of the last fit.
    """
    size, dimension = points.shape
    if size > 2 * dimension:
        mean, covariance = score_covariance(points, scores)
        return mean, np.linalg.cholesky(covariance)
    variance = points.var(axis=0) / np.maximum(scores.var(axis=0), 1e-12)
    widths = np.clip(np.sqrt(np.sqrt(variance)), 0.3, 3.0)
    return points.mean(axis=0), np.diag(widths)


def _with_tails(fit: Fit) -> tuple[Component, ...]:
    """Return a Student-t, and the same stretched along coordinates with long tails.

    The logarithm of a scale that may be zero has an exponential tail, which no Student-t in many
    dimensions has in one direction alone. On eight schools log Z was 0.1 low without: particles
    that q does not give are not found by short moves either.
    """
    dimension = len(fit.chart.center)
    origin = np.zeros(dimension)
    tails = _tails(fit.points @ fit.chart.factor.T)
    most = MOST_TAILS if dimension <= LARGEST_TAILED else 0
    chosen = [k for k in np.argsort(tails)[::-1][:most] if tails[k] > LONG_TAIL]
    wide = WIDE_WEIGHT if dimension <= LARGEST_WIDE else 0.0
    main = Component(np.log(1 - wide - TAIL_WEIGHT * len(chosen)), origin, None, fit.freedom)
    parts = [main]
    if wide:
        parts.append(Component(np.log(wide), origin, WIDTH * np.eye(dimension), WIDE_FREEDOM))
    for number in chosen:
        # Along which all coordinates follow this one, in the chart.
        direction = fit.chart.factor[number] / np.linalg.norm(fit.chart.factor[number])
        factor = np.eye(dimension) + (STRETCH - 1) * np.outer(direction, direction)
        parts.append(Component(np.log(TAIL_WEIGHT), origin, factor, fit.freedom))
    return tuple(parts)


def _tails(points: np.ndarray) -> np.ndarray:
    """Return how long the tail of each coordinate is; zero where there are no points to tell."""
    if not len(points):
        return np.zeros(points.shape[1])
    standard = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-300)
    skewness, kurtosis = (standard**3).mean(axis=0), (standard**4).mean(axis=0)
    tails: np.ndarray = np.abs(skewness) + 0.5 * np.maximum(kurtosis - 3, 0.0)
    return tails


def _log_mass(view: View | FieldView, fit: Fit) -> float:
    """Return the log of the mass of a component, up to a constant."""
    if fit.log_mass is not None:
        return fit.log_mass
    return float(view(fit.chart.center[None])[0][0]) + fit.chart.log_volume


def combine(view: View | FieldView, fits: list[Fit]) -> tuple[Chart, StudentMixture]:
    """Return the chart of the first component, and all of them in it."""
    # The covariance of a Student-t is wider than its scale.
    shrunk = [scale_ratio(fit.freedom) * fit.chart.factor for fit in fits]
    main = Chart(view, fits[0].chart.center, shrunk[0])
    if len(fits) == 1:
        return main, StudentMixture(_with_tails(fits[0]))
    masses = np.array([_log_mass(view, fit) for fit in fits])
    # Where the support ends, the density may be zero at the center of a fit, or of all of them.
    masses = np.where(np.isfinite(masses), masses, -np.inf)
    masses = masses if np.isfinite(masses).any() else np.zeros(len(fits))
    weights = np.maximum(np.exp(masses - np.logaddexp.reduce(masses)), SMALLEST_WEIGHT)
    log_weights = np.log(weights / weights.sum())
    parts = [
        Component(
            float(log_weight),
            main.from_view(fit.chart.center[None])[0],
            np.linalg.solve(main.factor, factor),
            fit.freedom,
        )
        for fit, factor, log_weight in zip(fits, shrunk, log_weights, strict=True)
    ]
    if len(main.center) <= LARGEST_WIDE:
        parts += [
            replace(part, factor=WIDTH * part.factor, freedom=WIDE_FREEDOM)
            for part in parts
            if part.factor is not None
        ]
        wide = np.repeat(np.log([1 - WIDE_WEIGHT, WIDE_WEIGHT]), len(fits))
        parts = [
            replace(part, log_weight=part.log_weight + float(more))
            for part, more in zip(parts, wide, strict=True)
        ]
    return main, StudentMixture(tuple(parts))
