"""The path from the prior where no density can be fitted: p_beta ~ prior likelihood^beta.

The weights of a network, or coefficients of which nobody knows which few are not zero, have a
posterior with a mode for each way to explain the data, and a Student-t around one of them is of no
use. Prior draws are exact whatever the dimension, and normal ones in the non-centred view. So the
prior takes the place of the fitted density, and all data come in together.

The estimate of log Z is made of log-likelihoods, so that moves go on until these are forgotten. In
a network most weights still remember which mode they are at then; what that does to log Z is told
by the families of particles (:mod:`pymc_arm.algorithm.genealogy`).
"""

import copy
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved
from pymc_arm.algorithm.settings import Settings
from pymc_arm.models.density import likelihood_powers
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.chart_path import ChartPath, Position
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.hamiltonian import (
    MOST_SWEEPS,
    ValueAndGradient,
    correlation_with_start,
    move,
)
from pymc_arm.models.reference.modes import prior_spread
from pymc_arm.models.reference.target import SharedTarget

__all__ = ["PriorPath"]

# Prior draws that tell the width of each coordinate.
PRIOR_DRAWS = 400
# Each step costs moves, and its error is small beside that of memory: at 0.7 there are twice as
# many steps.
THRESHOLD = 0.5


class PriorPath(ChartPath):
    """Travels from the prior to the posterior of a model, with all data at once.

    Parameters
    ----------
    path
        The path of the model, without discrete variables, with a gradient, and with a prior whose
        draws are those of its density.
    target
        The compiled target of the path, if there is one already.
    """

    _last_sweeps = MOST_SWEEPS

    def __init__(self, path: GenericPath, target: SharedTarget | None = None) -> None:
        path.density.gradient.available()
        self._target = SharedTarget(path) if target is None else target
        self._target.cell = None
        self._view = view = self._target.noncentered()
        prior = path.initialize(np.random.default_rng(0), PRIOR_DRAWS)[0]
        super().__init__(path, Chart(view, *prior_spread(view, prior), central=False))
        #: The power of each term, one for data and potentials and zero for the prior.
        self._data = likelihood_powers(path.density)

    @property
    def searched(self) -> bool:
        """Whether no search for other modes is to be made: Laplace's method can't weigh these."""
        return True

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from the prior, which integrates to one."""
        return self.chart_points(self._path.initialize(rng, size)[0]), 0.0

    def settings(self, **given: Any) -> Settings:
        """Return the settings, by default with a resample at every step, and few steps."""
        return super().settings(**{"threshold": THRESHOLD, "resampling": "systematic", **given})

    def describe(self, n: Position) -> str:
        """Return the power of the likelihood that the particles have reached."""
        return f"data (power {n.beta:.3g})"

    def move(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Moved:
        """Follow Hamiltonian trajectories until log-likelihoods are forgotten."""
        swept = move(rng, self._tempered(n.beta), particles, told=self._likelihood)
        ends = [self._log_ratio(points) for points in (particles, swept.points)]
        memory = correlation_with_start(particles, ends[0], swept.points, ends[1])
        return Moved(swept.points, swept.acceptance_rate, memory)

    def _likelihood(self, particles: np.ndarray) -> np.ndarray:
        return self._log_ratio(particles)[:, None]

    def _ratio(self, particles: np.ndarray) -> np.ndarray:
        points = self._view.to_model(self._chart.to_view(particles))[0]
        # Where a part of the prior is impossible, draws are from the rest of it.
        return self._path.density.sum(points, self._data) + self._path.prior.log_mass

    def _tempered(self, beta: float) -> ValueAndGradient:
        chart = self._chart
        target = copy.copy(self._target)
        target.powers = np.where(self._data > 0, beta, 1.0)
        view = target.view(self._view.noncentering, self._view.information)
        return Chart(view, chart.center, chart.factor, central=False)
