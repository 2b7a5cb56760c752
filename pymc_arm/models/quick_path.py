"""The densities of old data and of all data, compiled for a few evaluations at given draws.

An update that weighs draws takes some thousand values of the density and no more. A whole path
(:mod:`pymc_arm.models.compiled`) has prior draws, scopes, supports, a plan and a simplified graph,
none of which it needs: on a regression of 500 rows that takes 0.5 CPU seconds, and this 0.1. What
is unusual in a model (corrections of priors, operations without an array form) is left to the
whole path.
"""

import logging
from collections.abc import Mapping

import numpy as np
import pymc as pm
import xarray as xr

from pymc_arm._compat import COMPILING
from pymc_arm.models.appended import Rows, find_terms
from pymc_arm.models.checks import LKJ, check_model, shape_of
from pymc_arm.models.compiled import ToModel
from pymc_arm.models.density import LogDensity
from pymc_arm.models.given_draws import there_and_back
from pymc_arm.models.position import Position
from pymc_arm.models.terms import Layout, build_terms
from pymc_arm.models.transforms import is_usual
from pymc_arm.models.update_path import TwoDensities, powers

__all__ = ["QuickPath", "quick_path"]

_log = logging.getLogger("pymc")

# Draws at which the density is compared with PyTensor's own function.
COMPARED = 20
# With more rows than this slices are pushed to the data, so that new rows are evaluated alone.
# These rewrites take 0.1 (logistic regression) to 0.4 CPU seconds (Student-t), and 4000 draws of an
# old row 0.0002 and 0.00005, once for weights and three times where moments are matched: they pay
# from 200 to 8000 rows on.
MANY_ROWS = 1000


class QuickPath(TwoDensities):
    """What weighing draws asks of a path; there are no moves along it.

    Parameters
    ----------
    model
        With all data.
    layout
        Of its free variables.
    density
        Its terms.
    terms
        Those of new rows.
    """

    start, last = Position(0), Position(1)
    flat: tuple[str, ...] = ()
    log_normalizer = 0.0

    def __init__(
        self, model: pm.Model, layout: Layout, density: LogDensity, terms: np.ndarray
    ) -> None:
        self.density, self.layout = density, layout
        self.shapes = {rv.name: shape_of(rv) for rv in model.free_RVs}
        self._to_model = ToModel(model)
        self._old_powers, self._new_powers = powers(density.count, terms)

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws of all free variables and deterministics."""
        return self._to_model(self.layout, particles)

    def describe_model(self) -> dict[str, str]:
        """Return what is recorded of a model, as the whole path does."""
        return {"backend": self.density.backend, "corrections": ""}


def quick_path(model: pm.Model, draws: xr.Dataset, rows: Mapping[str, Rows]) -> QuickPath | None:
    """Return the densities at draws, or None where the whole path is needed.

    Parameters
    ----------
    model
        With all data.
    draws
        Of its free variables, with dimensions chain and draw.
    rows
        How many rows of each observed variable are old.
    """
    check_model(model)
    for rv in model.free_RVs:
        unusual = not is_usual(rv, model.rvs_to_transforms.get(rv))
        shape = draws[rv.name].shape if rv.name in draws else None
        if unusual or type(rv.owner.op).__name__ in LKJ or shape is None:
            return None
        if shape[2:] != shape_of(rv) or not np.prod(shape[:2]):
            return None
    some = {
        rv.name: draws[rv.name].values.reshape(-1, *draws[rv.name].shape[2:])[:COMPARED]
        for rv in model.free_RVs
    }
    try:
        with COMPILING:
            values = there_and_back(model)(some)[::2]
            layout = Layout.of(model, values)
            x, blocks = build_terms(model, layout)
            many = sum(own.all for own in rows.values()) > MANY_ROWS
            reference = layout.ravel(values, len(values[0]))
            density = LogDensity(x, blocks, reference, rewrites="some" if many else "none")
            return QuickPath(model, layout, density, find_terms(density, rows))
    except Exception as error:  # compilers raise anything: the whole path finds out
        _log.info("pymc_arm: compiled as a whole: %s: %s", type(error).__name__, error)
        return None
