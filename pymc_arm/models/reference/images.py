"""How a fit uses symmetries: modes that are images of each other are one, and q is fitted to it.

The first mode tells the cell (:mod:`pymc_arm.models.symmetry.cell`). Then the target is the
posterior in that cell, times the number of its images. Where the cell ends within a mode, what is
beyond lies in the cell as a part of an image of the mode, which becomes a component of q.
"""

from dataclasses import replace

import numpy as np

from pymc_arm.models.fields.view import FieldView
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.laplace import Laplace
from pymc_arm.models.reference.mixture import Fit
from pymc_arm.models.reference.target import View
from pymc_arm.models.symmetry.anchors import find_cell
from pymc_arm.models.symmetry.cell import Cell
from pymc_arm.models.symmetry.find import find_symmetries

__all__ = ["CellSearch", "Fold", "add_images"]

# Draws around a mode that tell how blocks vary, and how much of a fit lies in another cell.
DRAWS = 200
# An image of a fit becomes a component of q if this share of the fit lies beyond a wall, and there
# are at most so many. Its weight is the root of the share: in proportion to the share, the few
# draws that come there would have weights that are large, and with all of the weight, draws of it
# that are not in the cell would be most.
SMALLEST_SHARE, MOST_IMAGES = 0.02, 8


class CellSearch:
    """Looks for the cell around the first mode of a posterior.

    Parameters
    ----------
    view
        The posterior.
    prior
        Prior draws, in the coordinates of the model.
    """

    def __init__(self, view: View, prior: np.ndarray) -> None:
        self._view, self._prior = view, prior
        #: What was found.
        self.cell: Cell | None = None

    def __call__(self, mode: Laplace) -> "Fold | None":
        """Find the cell, and return what takes points to their images in it, if there is one."""
        view, target = self._view, self._view.target
        path = target.path
        found = find_symmetries(
            path.log_density, path.plan.layout.slots, self._prior, np.random.default_rng(0)
        )
        if not found.symmetries:
            return None
        noise = np.random.default_rng(0).normal(size=(DRAWS, len(mode.mean)))
        draws = mode.mean + noise @ mode.factor.T
        points = view.to_model(np.concatenate([mode.mean[None], draws]))[0]
        self.cell = find_cell(found, target.log_density, points[0], points[1:], target.kept)
        return None if self.cell is None else Fold(view, self.cell)


class Fold:
    """Takes points of a view to their images in a cell."""

    def __init__(self, view: View | FieldView, cell: Cell) -> None:
        self._view, self._cell = view, cell

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the images; points in the cell as they are, to the last digit."""
        inside = self._view.to_model(points)[0]
        moved = np.isfinite(inside).all(axis=1)
        moved[moved] = ~self._cell.contains(inside[moved])
        result = points.copy()
        if moved.any():
            result[moved] = self._view.from_model(self._cell.fold(inside[moved]))[0]
        return result


def add_images(rng: np.random.Generator, view: View, fits: list[Fit]) -> list[Fit]:
    """Return fits, and those images of them that reach into the cell.

    Only where coordinates are those of the model: elsewhere an image of a normal density is none.
    """
    cell = view.target.cell
    if cell is None or not view.linear:
        return fits
    images = []
    for fit in fits:
        chart = fit.chart
        mass = float(view(chart.center[None])[0][0]) + chart.log_volume
        draws = chart.to_view(rng.normal(size=(DRAWS, len(chart.center))))
        for matrix, share in cell.images_reached(view.to_model(draws)[0], SMALLEST_SHARE)[
            :MOST_IMAGES
        ]:
            own = matrix[np.ix_(view.target.kept, view.target.kept)]
            moved = Chart(view, own @ chart.center, own @ chart.factor)
            images.append(
                replace(fit, chart=moved, log_mass=mass + 0.5 * np.log(share), evaluations=0)
            )
    return [*fits, *images]
