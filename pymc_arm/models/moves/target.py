"""The distribution that moves leave invariant, and the coordinates in which it is seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_arm.models.support import Support

__all__ = ["ColoredSet", "GradientView", "Identity", "MoveTarget", "View", "term_difference"]

#: Coordinates that share no term, the terms that depend on them, and the place in the set of the
#: coordinate that each term belongs to.
ColoredSet = tuple[np.ndarray, np.ndarray, np.ndarray]


class View(Protocol):
    """Other coordinates of the same points."""

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return points in other coordinates z, and log |dx / dz|."""

    def inverse(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return the points that are seen so, and log |dx / dz|."""


class GradientView(View, Protocol):
    """A view that gradients can follow."""

    def pull_gradients(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return the gradient of log f(x(z)) + log |dx / dz| at z, from that of log f at x."""


class Identity:
    """Points in the coordinates that they have."""

    def forward(self, points: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the points."""
        return points, 0.0

    inverse = forward

    def pull_gradients(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return the gradients."""
        return gradients


@dataclass(frozen=True)
class MoveTarget:
    """The distribution to leave invariant, at one position of the path.

    Attributes
    ----------
    log_density
        The sum of the weighted terms, of each row of points.
    terms
        The terms of a selection, already weighted, (points, terms).
    continuous
        The continuous coordinates that are in.
    sets, discrete_sets
        Coordinates that share no term.
    supports
        The support of each discrete coordinate.
    gradient
        The log-density and its gradient, which is not a number if it turns out that there is none.
    fits_scores
        Whether proposals are fitted with gradients, which calls for them in every move.
    views
        How the continuous coordinates are seen when they move; first of all as they are.
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray]
    continuous: np.ndarray
    sets: Sequence[ColoredSet]
    discrete_sets: Sequence[ColoredSet]
    supports: dict[int, Support]
    gradient: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    fits_scores: bool = True
    views: Sequence[View] = (Identity(),)

    @property
    def moving(self) -> np.ndarray:
        """All coordinates that are in."""
        labels = [chosen[0] for chosen in self.discrete_sets]
        return np.concatenate([self.continuous, *labels, np.zeros(0, int)]).astype(int)


def term_difference(
    target: MoveTarget, after: np.ndarray, before: np.ndarray, selection: np.ndarray
) -> np.ndarray:
    """Return the terms after minus those before, zero where both are -inf."""
    with np.errstate(invalid="ignore"):
        difference = target.terms(after, selection) - target.terms(before, selection)
    # -inf on both sides: neither better nor worse.
    return np.where(np.isnan(difference), 0.0, difference)
