"""The reference q of a posterior with a Gaussian field, where its field is standardized.

q is a mixture of the parameters, fitted to their density with the field integrated out by Laplace's
method, times a density of the standardized field that is close to a standard normal one: its centre
and widths are those that particles show.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.algorithm.resampling import effective_share, log_mean_exp
from pymc_arm.errors import PathError
from pymc_arm.estimation.convergence import pareto_k
from pymc_arm.models.fields.choose import FEWEST
from pymc_arm.models.fields.fit import COMPARED, Marginal, fit_field_view
from pymc_arm.models.fields.view import FieldMap, FieldView
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.density import Chart, Component, ProductDensity, StudentMixture
from pymc_arm.models.reference.fit import ENOUGH, Reference, draw_and_move, measure_overlap
from pymc_arm.models.reference.polish import polish
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.running.processors import one_blas_thread

__all__ = ["fit_field_reference"]

# Particles that show the centre and the widths of the standardized field, and sweeps over them.
PARTICLES, SWEEPS = 200, 4
ROUNDS = 2
# How far widths are from one at most: then the field is not what it was taken for.
WIDTHS = (0.5, 2.0)
# Degrees of freedom: of the parameters, whose tails may be long, and of the field, in units of its
# size: in many dimensions draws must not differ in distance by more than the posterior does. With
# one for each dimension 74 % of the draws were effective on 100 weights of a Gaussian process, and
# 90 % of normal ones.
FREEDOM, FIELD_FREEDOM, PER_DIMENSION = 8.0, 200.0, 8.0
# A tail has a part of q of its own, with this weight relative to the first part, and as wide as
# this share of its distance. Without, log Z of a random walk with noise of unknown scale was 0.02
# low, two of its errors, in one run of three.
TAIL_SHARE, WIDTH = 0.03, 0.35
# Draws of q, values without gradients, that tell how many of them are effective, and how heavy the
# tail of their weights is.
TAIL_DRAWS = 4000


@dataclass(frozen=True)
class _Density:
    """A chart, q in it, and how well fresh draws fit."""

    chart: Chart
    density: ProductDensity
    overlap: float
    log_evidence: float

    @property
    def field_map(self) -> FieldMap:
        """The functions of the parameters in its view."""
        assert isinstance(self.chart.view, FieldView)
        return self.chart.view.map


def fit_field_reference(
    path: GenericPath,
    target: SharedTarget,
    rng: np.random.Generator | None = None,
    fewest: int = FEWEST,
) -> Reference | None:
    """Fit q to the posterior of a model with a Gaussian field.

    Returns None if the model has no field of so many coordinates with few parameters.

    Raises
    ------
    PathError
        If it has one, and no view of it could be made.
    """
    rng = np.random.default_rng(20160713) if rng is None else rng
    with one_blas_thread(), np.errstate(all="ignore"):
        found = fit_field_view(path, target, rng, fewest)
        if found is None:
            return None
        view, marginal = found
        best = latest = _improve(rng, target, marginal, _with_mixture(rng, _plain_chart(view)))
        evaluations = marginal.conditional.evaluations
        for _ in range(ROUNDS):
            if latest.overlap > ENOUGH:
                break
            chart, more = _adjust(rng, latest)
            evaluations += more
            latest = _with_mixture(rng, chart)
            best = max(best, latest, key=lambda each: each.overlap)
        if not np.isfinite(best.log_evidence):
            raise PathError("The reference that was fitted does not meet the posterior.")
        draws = best.density.draw(rng, TAIL_DRAWS)
        ratio = best.chart.log_density(draws) - best.density(draws)[0]
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        return Reference(
            view.noncentering,
            best.chart.center,
            best.chart.factor,
            best.density,
            effective_share(ratio),
            float(log_mean_exp(ratio)),
            evaluations,
            1,
            np.zeros(0, dtype=int),
            field=best.field_map,
            tail=pareto_k(ratio),
        )


def _plain_chart(view: FieldView) -> Chart:
    dimension = view.target.dimension
    return Chart(view, np.zeros(dimension), np.ones(dimension))


def _improve(
    rng: np.random.Generator, target: SharedTarget, marginal: Marginal, found: _Density
) -> _Density:
    """Return q with functions of the parameters that go through more points, if that is better."""
    for _ in range(ROUNDS):
        if found.overlap > ENOUGH:
            break
        draws = found.density.mixture.draw(rng, len(found.field_map.nodes) + COMPARED)
        improved = marginal.improve(rng, found.field_map, draws)
        if improved is found.field_map:
            break
        again = _with_mixture(rng, _plain_chart(FieldView(target, improved)))
        if again.overlap < found.overlap:
            break
        found = again
    return found


@dataclass(frozen=True)
class _Slice:
    """The density of the parameters where the field is at its centre."""

    chart: Chart
    parameters: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at parameters, in the chart."""
        whole = np.zeros((len(points), len(self.chart.center)))
        whole[:, self.parameters] = points
        return self.chart.log_density(whole)


def _with_mixture(rng: np.random.Generator, chart: Chart) -> _Density:
    """Fit a mixture of the parameters, and see how well draws fit."""
    assert isinstance(chart.view, FieldView)
    parameters = chart.view.map.parameters
    size = len(chart.center) - len(parameters)
    mixture = polish(rng, _Slice(chart, parameters), _start(chart.view.map), ENOUGH)[0]
    freedom = max(FIELD_FREEDOM, PER_DIMENSION * size)
    density = ProductDensity(parameters, mixture, Component(0.0, np.zeros(size), None, freedom))
    return _Density(chart, density, *measure_overlap(rng, chart, density))


def _start(field_map: FieldMap) -> StudentMixture:
    """Return a Student-t of the whitened parameters, with parts for long tails.

    Draws of the first alone would never come to where an exponential tail ends, and a mixture that
    is fitted to draws lacks what none of them shows.
    """
    count = len(field_map.low)
    parts = [(np.zeros(count), 1.0)]
    parts += [(tail, max(1.0, WIDTH * float(np.linalg.norm(tail)))) for tail in field_map.tails]
    shares = np.array([1.0, *np.full(len(parts) - 1, TAIL_SHARE)])
    log_weights = np.log(shares / shares.sum())
    return StudentMixture(
        tuple(
            Component(float(log_weight), mean, width * np.eye(count), FREEDOM)
            for log_weight, (mean, width) in zip(log_weights, parts, strict=True)
        )
    )


def _adjust(rng: np.random.Generator, found: _Density) -> tuple[Chart, int]:
    """Return a chart in which particles of the field are centred, of width one.

    Where they are is known from their scores too: for a normal density x + b^2 times the score is
    its mean, without noise.
    """
    chart, density = found.chart, found.density
    swept, _, evaluations = draw_and_move(rng, chart, density, PARTICLES, SWEEPS)
    spread, slopes = swept.points.std(axis=0), swept.gradients.std(axis=0)
    widths = np.clip(np.sqrt(spread / np.maximum(slopes, 1e-12)), *WIDTHS)
    shift = swept.points.mean(axis=0) + widths**2 * swept.gradients.mean(axis=0)
    parameters = density.first
    shift[parameters], widths[parameters] = 0.0, 1.0
    moved = Chart(chart.view, chart.to_view(shift[None])[0], chart.factor * widths)
    return moved, evaluations
