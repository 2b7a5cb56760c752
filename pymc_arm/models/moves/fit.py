"""What kernels know of the cloud that they move: a Student-t in each view of it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_arm.models.moves.standardized import Standardized
from pymc_arm.models.moves.student import CrossFit, Rows, independent_halves
from pymc_arm.models.moves.target import MoveTarget, View

__all__ = ["Fit", "FittedView", "fit_cloud", "fit_for_others"]

# Points a coordinate that make a covariance worth trying beside the one that scores give.
FEWEST = 4


class FittedView(NamedTuple):
    """A Student-t of the cloud as a view shows it.

    ``view`` is a number among the views of the target, or a view that was fitted too; ``name``
    tells fits of the same view apart.
    """

    name: str
    view: int | Standardized
    student: CrossFit


class Fit(NamedTuple):
    """The Student-t of each view; the first is that of the coordinates as they are.

    A view may be there twice, fitted with and without the gradients of the target. There is none
    if no coordinate is continuous.
    """

    views: tuple[FittedView, ...]

    @property
    def plain(self) -> CrossFit | None:
        """The fit in the first view."""
        return self.views[0].student if self.views else None

    def bind(self, target: MoveTarget) -> list[tuple[str, View, CrossFit]]:
        """Return name, view and Student-t of each, for kernels over a target."""
        return [
            (name, target.views[view] if isinstance(view, int) else view, student)
            for name, view, student in self.views
        ]


def fit_cloud(
    rng: np.random.Generator, target: MoveTarget, points: np.ndarray
) -> tuple[Fit, np.ndarray]:
    """Fit each half of a cloud for the other; return the log-density at its points too."""
    scores, log_density = _scores(target, points)
    if not len(target.continuous):
        return Fit(()), log_density
    halves = independent_halves(rng, points[:, target.continuous])
    return _fit(target, points, scores, halves), log_density


def fit_for_others(target: MoveTarget, points: np.ndarray) -> Fit:
    """Fit a whole cloud, for kernels that will move the particles of other runs."""
    if not len(target.continuous):
        return Fit(())
    scores, _ = _scores(target, points)
    return _fit(target, points, scores, [(slice(None), slice(None))])


def _scores(target: MoveTarget, points: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    if target.gradient is None or not target.fits_scores:
        return None, target.log_density(points)
    log_density, gradients = target.gradient(points)
    return gradients[:, target.continuous], log_density


def _fit(
    target: MoveTarget,
    points: np.ndarray,
    scores: np.ndarray | None,
    halves: Sequence[tuple[Rows, Rows]],
) -> Fit:
    block = target.continuous
    views: list[FittedView] = []
    for number, view in enumerate(target.views):
        seen = view.forward(points)[0][:, block]
        if number == 0 and scores is not None:  # they are of the coordinates as they are
            views.append(FittedView("scores", number, CrossFit.fit(halves, seen, scores)))
            # In a funnel they say less than the points, if these are enough for correlations.
            if len(points) <= FEWEST * len(block):
                continue
        views.append(FittedView(f"view {number}", number, CrossFit.fit(halves, seen)))
    standardized = Standardized.fit(halves, points, block)
    if standardized is not None:
        seen = standardized.forward(points)[0][:, block]
        views.append(FittedView("standardized", standardized, CrossFit.fit(halves, seen)))
    return Fit(tuple(views))
