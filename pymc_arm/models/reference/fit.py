"""Fits the reference q to a posterior, from gradients alone.

Climbs from prior draws (:mod:`modes`) give a first Gaussian. A set of particles is drawn from it,
resampled towards the posterior as far as they can follow, and moved by Hamiltonian trajectories;
then the Gaussian is fitted again to their places and scores, which minimises the Fisher divergence,
until draws get no nearer. q is a Student-t of as heavy tails as the particles show, with a part
that is stretched along coordinates of long tails. Distinct modes become components of a mixture.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pymc_arm.algorithm.resampling import SCHEMES, effective_share, normalize
from pymc_arm.errors import PathError
from pymc_arm.models.fields.view import FieldMap, FieldView
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.collapsed import CollapsedTarget, Focus
from pymc_arm.models.reference.density import (
    Chart,
    Component,
    ProductDensity,
    StudentMixture,
)
from pymc_arm.models.reference.groups import GroupTarget
from pymc_arm.models.reference.hamiltonian import Sweeps, move
from pymc_arm.models.reference.images import CellSearch, add_images
from pymc_arm.models.reference.laplace import Laplace, laplace
from pymc_arm.models.reference.mixture import (
    LARGEST_WIDE,
    Fit,
    combine,
    fit_chart,
    freedom_of,
    scale_ratio,
)
from pymc_arm.models.reference.modes import find_modes, prior_spread
from pymc_arm.models.reference.polish import LARGEST_POLISHED, polish
from pymc_arm.models.reference.quantiles import Quantiles
from pymc_arm.models.reference.target import SharedTarget, View
from pymc_arm.models.reference.tempered import furthest
from pymc_arm.models.reference.vectors import Information
from pymc_arm.models.reference.views import change_view, look_at_vectors, see_as_fitted
from pymc_arm.models.symmetry.cell import Cell
from pymc_arm.running.processors import one_blas_thread

__all__ = [
    "ENOUGH",
    "Reference",
    "assess",
    "draw_and_move",
    "fit_reference",
    "fit_rounds",
    "follow_laplace",
    "measure_overlap",
]

PRIOR_DRAWS = 400
STARTS = 16
# Draws that tell which view is best.
TRIAL_DRAWS = 500
# Above this overlap no other view is tried.
GOOD_OVERLAP = 0.7
# Particles that q is fitted to: at least twice the dimension for a full covariance from scores.
# Where that would be too many, they fit the widths of the coordinates only, and few are enough.
FEWEST, MOST, PER_DIMENSION = 200, 1200, 3
# Particles that lead the way in many dimensions, and tails that are light there: as many degrees of
# freedom as dimensions, if that is more.
PILOT, LARGE_FREEDOM = 100, 50.0
# Rounds of moving and fitting. They end when draws follow hardly further than the round before:
# radon took 0.04, 0.24, 0.64, 0.71 and 0.68 of the way.
IMPROVED = 1.2
ROUNDS, SWEEPS = 5, 6
# Draws of q for each particle of a round, and the share of them that must be effective.
DRAWS_EACH, SMALLEST_SHARE_LEFT = 4, 0.25
# Tails of the first draws: half the dimension, if that is more.
FIRST_FREEDOM = 10.0
# A reference with a larger effective share of draws is not made better: the path takes such draws,
# weighed, for what they are. Where the share seems to be 0.4, q may lack a tail: a hidden Markov
# model was 0.1 low, five errors.
ENOUGH = 0.7
# Where groups are integrated out, a value costs half a millisecond and a gradient one: a better fit
# costs less than the trajectories of a chain, one of whose draws of q has a large weight. Animals
# caught and caught again: with 0.7 one chain of four moved all of its 2000 particles, for a third
# of 90 CPU seconds; with 0.85 none does, and the run takes 55 (one run each).
ENOUGH_OF_GROUPS = 0.85
# With a larger share than this, Laplace's approximation in few dimensions is not fitted further. A
# part of q that is wider has a tenth of the draws, so that 0.93 is what a normal posterior gives.
NORMAL = 0.85


@dataclass(frozen=True)
class Reference:
    """q: how non-centred the view is, the chart and the mixture in it, and how well it fits.

    ``overlap`` is the effective share of draws of q, ``log_evidence`` what they estimate,
    ``evaluations`` counts gradients, ``crowded`` says that there are more modes than components.
    ``collapsed`` coordinates were integrated out, in ``closed`` form if they are conjugate;
    ``focus`` says where they are. ``field`` standardizes a Gaussian field, ``tail`` is Pareto's k
    of the weights of draws, if measured, ``cell`` stands for all of a symmetric posterior, and
    ``information`` is what the data say about normal vectors, in the view, and ``increments`` is
    how those of ordered vectors are seen.
    """

    noncentering: np.ndarray
    center: np.ndarray
    factor: np.ndarray
    mixture: StudentMixture | ProductDensity
    overlap: float
    log_evidence: float
    evaluations: int
    modes: int
    collapsed: np.ndarray
    focus: Focus | None = None
    crowded: bool = False
    closed: Callable[[GenericPath, np.ndarray], CollapsedTarget] | None = None
    field: FieldMap | None = None
    tail: float = -np.inf
    cell: Cell | None = None
    information: tuple[Information, ...] | None = None
    increments: Quantiles | None = None

    def target(self, path: GenericPath) -> SharedTarget:
        """Return the target that the reference was fitted to."""
        if self.closed is not None:
            return self.closed(path, self.collapsed)
        if len(self.collapsed):
            return GroupTarget(path, self.collapsed, self.focus)
        return SharedTarget(path)

    def view(self, target: SharedTarget) -> View | FieldView:
        """Return the coordinates that the reference lives in."""
        if self.field is not None:
            return FieldView(target, self.field)
        return target.view(self.noncentering, self.information, self.increments)


def fit_reference(
    path: GenericPath,
    rng: np.random.Generator | None = None,
    starts: int = STARTS,
    target: SharedTarget | None = None,
) -> Reference:
    """Fit q to the posterior of a model.

    Parameters
    ----------
    path
        The path of the model, without discrete variables and with a gradient.
    rng
        By default of a fixed seed: q then does not depend on the seed of the run.
    starts
        How many optimisations start from prior draws.
    target
        The compiled target of the path, if there is one already.

    Raises
    ------
    PathError
        If no prior draw has a gradient, or the fit breaks down.
    """
    rng = np.random.default_rng(20160713) if rng is None else rng
    with one_blas_thread(), np.errstate(all="ignore"):
        return _fit_reference(path, rng, starts, target)


def _fit_reference(
    path: GenericPath, rng: np.random.Generator, starts: int, target: SharedTarget | None
) -> Reference:
    if not path.density.gradient.available():
        raise PathError("The model has no gradient that can be evaluated in batches.")
    target = SharedTarget(path) if target is None else target
    target.cell = None
    prior = path.plan.layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
    prior = prior[np.isfinite(prior).all(axis=1)]
    view = target.noncentered()
    center, scale = prior_spread(view, prior)
    likely = path.likely_particles
    search, starting = CellSearch(view, prior), np.concatenate([likely, prior])
    modes, evaluations, crowded = find_modes(
        rng, view, starting, center, scale, len(likely) + starts, search
    )
    target.cell = search.cell
    # Climbs that begin anew would have to be taken to the cell.
    if target.vectors and target.cell is None:
        view, modes, more, crowded = look_at_vectors(rng, view, modes, starting, center, scale)
        evaluations += more
    size = int(np.clip(PER_DIMENSION * target.dimension, FEWEST, MOST))
    size = size if size > 2 * target.dimension else FEWEST
    size = size if len(modes) == 1 else max(size // 2, FEWEST // 2)
    fits = [_start(view, found) for found in modes]
    target.look_around(_trial_points(rng, fits))
    if PER_DIMENSION * target.dimension > 2 * PILOT:
        fits = [_pilot(rng, fit, scale) for fit in fits]
    best = None
    if _may_be_normal(target, fits):
        best = assess(rng, view, [replace(fits[0], freedom=LARGE_FREEDOM)])
    if best is None or not best.overlap > NORMAL:
        fits = fit_rounds(rng, fits, size)
        near = _model_points(fits)
        target.check(near)
        target.look_around(near)
        best = assess(rng, view, fits)
    several = len(target.coordinates) or target.vectors or len(target.increments)
    if several and best.overlap < GOOD_OVERLAP:
        first, view = view, see_as_fitted(rng, target, fits[0])
        changed = (view.noncentering != first.noncentering).any() or view.increments is not None
        if target.vectors or changed:
            others = fit_rounds(rng, [change_view(view, fit, prior) for fit in fits], size)
            evaluations += sum(fit.evaluations for fit in fits)
            best = max(best, assess(rng, view, others), key=lambda each: each.overlap)
            fits = others
    evaluations += sum(fit.evaluations for fit in fits)
    if not np.isfinite(best.log_evidence):
        raise PathError("The reference that was fitted does not meet the posterior.")
    best = replace(best, evaluations=evaluations, modes=len(fits), crowded=crowded)
    enough = ENOUGH_OF_GROUPS if isinstance(target, CollapsedTarget) else ENOUGH
    if best.overlap < enough and best.mixture.dimension <= LARGEST_POLISHED:
        best = _polish(rng, target, best, enough)
    if isinstance(target, CollapsedTarget):
        closed = type(target) if target.conjugate else None
        return replace(best, collapsed=target.collapsed, focus=target.focus, closed=closed)
    return best


def follow_laplace(path: GenericPath, target: SharedTarget) -> float:
    """Return how far draws of Laplace's approximation can follow to the posterior, from 0 to 1.

    Of the first mode that is found: a short look before a fit, for models of many coordinates.
    """
    rng = np.random.default_rng(20160713)
    with one_blas_thread(), np.errstate(all="ignore"):
        view = target.noncentered()
        prior = path.initialize(rng, PRIOR_DRAWS)[0]
        modes, _, _ = find_modes(rng, view, prior, *prior_spread(view, prior), 1)
        fit = _start(view, modes[0])
        density = Component(0.0, np.zeros(target.dimension), None, fit.freedom)
        draws = density.draw(rng, PRIOR_DRAWS)
        ratio = fit.chart.log_density(draws) - density(draws)[0]
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        return furthest(lambda end: effective_share(end * ratio), 0.0, SMALLEST_SHARE_LEFT)


def _may_be_normal(target: SharedTarget, fits: list[Fit]) -> bool:
    """Whether Laplace's method may be all it takes: a single mode in few dimensions."""
    few = len(fits) == 1 and target.dimension <= LARGEST_WIDE
    return few and not isinstance(target, CollapsedTarget)


def _polish(
    rng: np.random.Generator, target: SharedTarget, found: Reference, enough: float
) -> Reference:
    """Return the same reference with a mixture of more components, if that fits better."""
    assert isinstance(found.mixture, StudentMixture)
    chart = Chart(found.view(target), found.center, found.factor)
    mixture, overlap, log_evidence, evaluations = polish(rng, chart, found.mixture, enough)
    return replace(
        found,
        mixture=mixture,
        overlap=overlap,
        log_evidence=log_evidence,
        evaluations=found.evaluations + evaluations,
    )


def _trial_points(rng: np.random.Generator, fits: list[Fit]) -> np.ndarray:
    """Return draws of the Gaussians as points of the model."""
    charts = [fit.chart for fit in fits]
    draws = [c.to_view(rng.normal(size=(TRIAL_DRAWS // 5, len(c.center)))) for c in charts]
    return np.concatenate([c.view.to_model(d)[0] for c, d in zip(charts, draws, strict=True)])


def _model_points(fits: list[Fit]) -> np.ndarray:
    """Return the particles as points of the model."""
    views = [(fit.chart.view, fit.chart.to_view(fit.points)) for fit in fits]
    return np.concatenate([view.to_model(points)[0] for view, points in views])


def fit_rounds(rng: np.random.Generator, fits: list[Fit], size: int) -> list[Fit]:
    """Fit each component again, until the posterior is reached or draws get no nearer to it."""
    for _ in range(ROUNDS):
        before = [fit.beta for fit in fits]
        fits = [_fit_again(rng, fit, size) for fit in fits]
        if all(b > 0 and f.beta < IMPROVED * b for b, f in zip(before, fits, strict=True)):
            break
    return fits


def assess(rng: np.random.Generator, view: View | FieldView, fits: list[Fit]) -> Reference:
    """Combine the components, and see how well fresh draws fit."""
    own = add_images(rng, view, fits) if isinstance(view, View) else fits
    chart, mixture = combine(view, own)
    overlap, log_evidence = measure_overlap(rng, chart, mixture)
    none = np.zeros(0, dtype=int)
    return Reference(
        view.noncentering,
        chart.center,
        chart.factor,
        mixture,
        overlap,
        log_evidence,
        0,
        len(fits),
        none,
        cell=view.target.cell,
        information=view.information,
        increments=None if isinstance(view, FieldView) else view.increments,
    )


def measure_overlap(
    rng: np.random.Generator, chart: Chart, density: StudentMixture | ProductDensity
) -> tuple[float, float]:
    """Return the effective share of fresh draws of a density, and what they estimate."""
    draws = density.draw(rng, TRIAL_DRAWS)
    with np.errstate(invalid="ignore"):
        ratio = chart.log_density(draws) - density(draws)[0]
    ratio = np.where(np.isnan(ratio), -np.inf, ratio)
    return effective_share(ratio), float(np.logaddexp.reduce(ratio) - np.log(len(ratio)))


def _start(view: View, found: Laplace) -> Fit:
    """Return the Gaussian of a mode, without particles."""
    dimension = len(found.mean)
    none, freedom = np.zeros((0, dimension)), max(FIRST_FREEDOM, 0.5 * dimension)
    return Fit(Chart(view, found.mean, found.factor), freedom, none, none, 0.0, 0)


def _pilot(rng: np.random.Generator, fit: Fit, scale: np.ndarray) -> Fit:
    """Lead a few particles to where the mass is, with the curvature at their mean as metric.

    The mode of a hierarchy may be far from the mass. A Hessian costs 2 d gradients, where moving
    enough particles for a covariance from scores costs 60 d.
    """
    for _ in range(ROUNDS):
        before = fit.beta
        swept, wide, beta, evaluations = _draw_and_move(rng, fit, PILOT)
        mean = wide.to_view(swept.points.mean(axis=0))
        curved = laplace(wide.view, mean, scale)
        chart = Chart(wide.view, mean, curved.factor)
        none = swept.points[:0]
        evaluations += fit.evaluations + curved.evaluations
        fit = Fit(chart, max(LARGE_FREEDOM, len(mean)), none, none, beta, evaluations)
        if before > 0 and beta < IMPROVED * before:
            break
    return replace(fit, beta=0.0)


def _fit_again(rng: np.random.Generator, fit: Fit, size: int) -> Fit:
    """Draw from the present q, go towards the posterior as far as draws can follow, and fit.

    Draws that the posterior does not know are left behind by resampling; moved ones would stay
    where they are, and their scores would spoil the fit.
    """
    swept, wide, beta, evaluations = _draw_and_move(rng, fit, size)
    mean, factor = fit_chart(swept.points, swept.gradients)
    chart = Chart(wide.view, wide.to_view(mean), wide.factor @ factor)
    points = np.linalg.solve(factor, (swept.points - mean).T).T
    scores = swept.gradients @ factor
    return Fit(chart, freedom_of(points), points, scores, beta, fit.evaluations + evaluations)


def _draw_and_move(
    rng: np.random.Generator, fit: Fit, size: int
) -> tuple[Sweeps, Chart, float, int]:
    """Return moved particles in the chart that they were drawn in, beta, and the evaluations."""
    reference = Component(0.0, np.zeros(len(fit.chart.center)), None, fit.freedom)
    wide = Chart(fit.chart.view, fit.chart.center, scale_ratio(fit.freedom) * fit.chart.factor)
    swept, beta, evaluations = draw_and_move(rng, wide, reference, size, SWEEPS)
    return swept, wide, beta, evaluations


def draw_and_move(
    rng: np.random.Generator,
    chart: Chart,
    density: Component | ProductDensity,
    size: int,
    sweeps: int,
) -> tuple[Sweeps, float, int]:
    """Draw, go towards the posterior as far as draws can follow, resample and move.

    Returns the moved particles, beta, and the evaluations.

    Raises
    ------
    PathError
        If no draw is possible.
    """
    draws = density.draw(rng, DRAWS_EACH * size)
    with np.errstate(invalid="ignore"):
        ratio = chart.log_density(draws) - density(draws)[0]
    ratio = np.where(np.isnan(ratio), -np.inf, ratio)
    if not np.isfinite(ratio).any():
        raise PathError("The reference that was fitted does not meet the posterior.")
    beta = furthest(lambda end: effective_share(end * ratio), 0.0, SMALLEST_SHARE_LEFT)
    chosen = SCHEMES["systematic"](rng, normalize(beta * ratio), size)
    # Particles in narrow places have scores that would spoil the fit: none is led there.
    swept = move(rng, chart, draws[chosen], sweeps, retries=0)
    return swept, beta, len(draws) + swept.evaluations
