"""The reference q where there are draws of the posterior already.

No climbs and no moves: the draws know where the mass is. What is left is the view in which it is
roundest, and the covariance from places and scores. Where a model has a Gaussian field, q is that
of :mod:`pymc_arm.models.fields`, which needs no draws, and these are seen in its coordinates: the
scale of a group and its effects are a funnel as they are, and about normal there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.estimation.spaces import RefinementSpace
from pymc_arm.models.fields.choose import FEWEST, find_field
from pymc_arm.models.fields.reference import fit_field_reference
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.chart_path import ChartSpace
from pymc_arm.models.reference.choose import FIELD_OVERLAP
from pymc_arm.models.reference.density import Chart, ProductDensity, StudentMixture
from pymc_arm.models.reference.fit import Reference, assess
from pymc_arm.models.reference.mixture import Fit, fit_chart, freedom_of
from pymc_arm.models.reference.path import ReferencePath
from pymc_arm.models.reference.target import SharedTarget, View
from pymc_arm.models.reference.views import see_as_fitted
from pymc_arm.running.processors import one_blas_thread

__all__ = ["FieldPath", "find_field_path", "fit_reference_to_draws"]

# Prior draws that tell whether there is a field.
PRIOR_DRAWS = 50


@dataclass(frozen=True)
class _Density:
    """A reference density as bridges ask for one."""

    mixture: StudentMixture | ProductDensity
    components: int = 1

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        return self.mixture.draw(rng, size)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        return self.mixture(points)[0]


class FieldSpace(ChartSpace):
    """The chart of a field, and the density that was fitted in it."""

    def __init__(self, path: "FieldPath") -> None:
        super().__init__(path, points_are_particles=True)
        self.known_density = _Density(path.reference.mixture)

    def fit_to(self, particles: Any) -> "FieldSpace":
        """Return the same space: it is made for no particles."""
        return self


class FieldPath(ReferencePath):
    """A posterior in the coordinates of its field, where draws are bridged to the reference."""

    def spaces(self, particles: np.ndarray) -> Sequence[RefinementSpace]:
        """Return the chart with the density of the reference."""
        return [FieldSpace(self)]


def find_field_path(path: GenericPath, fewest: int = FEWEST) -> FieldPath | None:
    """Return a posterior in the coordinates of its field; None where it has none of that size.

    What is asked of the field is what a run asks of it
    (:func:`pymc_arm.models.reference.choose.choose_path`).

    Parameters
    ----------
    path
        The path of the model.
    fewest
        The smallest number of coordinates of a field.
    """
    layout = path.plan.layout
    if layout.discrete.any():
        return None
    prior = layout.ravel(path.prior.draw(np.random.default_rng(0), PRIOR_DRAWS), PRIOR_DRAWS)
    prior = prior[np.isfinite(prior).all(axis=1)]
    if not len(find_field(path, prior, fewest)) or not path.density.gradient.available():
        return None
    target = SharedTarget(path)
    try:
        reference = fit_field_reference(path, target, None, fewest)
    except (PathError, np.linalg.LinAlgError):
        return None  # the coordinates as they are remain
    if reference is None or not reference.overlap > FIELD_OVERLAP:
        return None
    return FieldPath(path, reference, target)


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
        fits = [_fit_to_draws(target.view(), points)]
        if len(target.coordinates) or target.vectors:
            fits.append(_fit_to_draws(target.noncentered(), points))
            between = see_as_fitted(rng, target, fits[-1])
            fits.append(_fit_to_draws(between, points))
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
