"""What kernels know of the cloud that they move: a Student-t in each view of it."""

from typing import NamedTuple

import numpy as np

from pymc_arm.models.moves.student import CrossFit, independent_halves
from pymc_arm.models.moves.target import MoveTarget, View

__all__ = ["Fit", "fit_cloud"]


class Fit(NamedTuple):
    """The Student-t of each view; the first is that of the coordinates as they are.

    A view may be there twice, fitted with and without the gradients of the target. There is none
    if no coordinate is continuous.
    """

    views: tuple[tuple[View, CrossFit], ...]

    @property
    def plain(self) -> CrossFit | None:
        """The fit in the first view."""
        return self.views[0][1] if self.views else None


def fit_cloud(
    rng: np.random.Generator, target: MoveTarget, points: np.ndarray
) -> tuple[Fit, np.ndarray]:
    """Fit the cloud in each view, and return the log-density at its points."""
    block = target.continuous
    if target.gradient is None:
        log_density, scores = target.log_density(points), None
    else:
        log_density, gradients = target.gradient(points)
        scores = gradients[:, block]
    if not len(block):
        return Fit(()), log_density
    halves = independent_halves(rng, points[:, block])
    views: list[tuple[View, CrossFit]] = []
    for number, view in enumerate(target.views):
        seen = view.forward(points)[0][:, block]
        if number == 0 and scores is not None:  # they are of the coordinates as they are
            views.append((view, CrossFit(halves, seen, scores)))
            # In a funnel they say less than the points, if these are enough for correlations.
            if len(points) <= 4 * len(block):
                continue
        views.append((view, CrossFit(halves, seen)))
    return Fit(tuple(views)), log_density
