"""What paths share whose particles are points of a chart, and move by Hamiltonian trajectories.

p_beta ~ q^(1 - beta) f^beta, for a density q that integrates to one: log Z_1 is zero exactly, and
beta is found by bisection on gamma. Where q is what tells such paths apart.
"""

import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.resampling import effective_sample_size
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Run
from pymc_arm.estimation.refine import FIRST_PROPOSALS
from pymc_arm.estimation.spaces import FullSpace, RefinementSpace
from pymc_arm.models.path import SMALLEST_SCORE, GenericPath
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.hamiltonian import (
    MAX_AUTOCORRELATION,
    ValueAndGradient,
    draw_further,
    move,
)
from pymc_arm.models.reference.tempered import furthest
from pymc_arm.running.chains import FurtherDraws
from pymc_arm.running.placement import Placement

__all__ = ["ChartPath", "ChartSpace", "Position", "forgotten"]

# Particles that explore, however many draws are asked for: what a trajectory costs, each of them
# pays at every step. The error of log Z comes from the bridge at the end, where the draws count.
PARTICLES = 250
# In more dimensions than this there are fewer: each costs more gradients, and the error of log Z
# that is wanted is larger (radon, 777 dimensions, 250 particles: 0.04).
MANY, FEWER_PARTICLES = 300, 150
# Sweeps at the end of the path, where draws are taken: they begin at particles that may be copies
# of few, and only those that have forgotten where they began count one by one. Counts of species
# with a Dirichlet distribution for each place: with ten sweeps one chain of four remembered 0.4,
# and 4000 draws were worth 91.
LAST_SWEEPS = 30
# Prior draws that a search for modes looks at, where each takes milliseconds.
DEAR_DRAWS = 200
# Arrays of the size of all particles that a move holds: points, momenta, gradients, proposals.
ARRAYS = 8


@dataclass(frozen=True)
class Position:
    """The power of f, and the one before."""

    beta: float = 0.0
    previous: float = 0.0


class ChartSpace(FullSpace):
    """All coordinates of a chart, with as few draws of the bridge's density as it takes.

    The particles are good to 0.02 already. With 20 draws for each, as from the prior, a run on a
    regression with 3020 rows took 13 CPU seconds after the fit, to an error of 0.0001.
    """

    proposals = FIRST_PROPOSALS

    def fit_to(self, particles: Any) -> "ChartSpace":
        """Return the same space: points are particles."""
        return ChartSpace(self._path, points_are_particles=True)

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of log f, unless a fit in few dimensions is as good without."""
        few = self._points_are_particles and points.shape[1] < SMALLEST_SCORE
        return None if few else super().score(points)


def forgotten(memory: float, size: int) -> bool:
    """Whether so many particles have forgotten where they began, by the largest correlation."""
    return bool(memory <= MAX_AUTOCORRELATION + 4 / np.sqrt(size))


class ChartPath(Path):
    """A path to the posterior of a model, in a chart.

    Parameters
    ----------
    path
        The path of the model from its prior, without discrete variables and with a gradient.
    chart
        Where particles live.
    """

    length: int | None = None
    keeps_ratios = True
    start = Position()
    placement = Placement.PROCESSES
    #: The most sweeps at the end, where draws are taken.
    _last_sweeps = LAST_SWEEPS

    def __init__(self, path: GenericPath, chart: Chart) -> None:
        self._path, self._chart = path, chart
        self.flat, self.endless, self.rounding = path.flat, path.endless, path.rounding
        # ``advance`` and ``smooth`` ask for the same ratio, one after the other.
        self._recent = threading.local()

    @abstractmethod
    def _ratio(self, particles: np.ndarray) -> np.ndarray:
        """Return log f - log q."""

    @abstractmethod
    def _tempered(self, beta: float) -> ValueAndGradient:
        """Return the log-density of p_beta, unnormalised, and its gradient in the chart."""

    @property
    def direct(self) -> bool:
        """Whether q fits so well that its draws, weighed, are all that is needed."""
        return False

    @property
    def searched(self) -> bool:
        """Whether no search for other modes is to be made."""
        return False

    @property
    def model_path(self) -> GenericPath:
        """The model's own path from the prior."""
        return self._path

    def finished(self, n: Position) -> bool:
        """Whether the posterior is reached."""
        return n.beta == 1.0

    def advance(
        self, n: Position, particles: np.ndarray, log_weights: np.ndarray, threshold: float
    ) -> Position:
        """Go as far as the particles can follow, by bisection on gamma."""
        ratio = self._log_ratio(particles)

        def fraction_at(end: float) -> float:
            with np.errstate(invalid="ignore"):
                weights = (end - n.beta) * ratio + log_weights
            return effective_sample_size(weights) / len(weights)

        return Position(furthest(fraction_at, n.beta, threshold), n.beta)

    def settings(self, **given: Any) -> Settings:
        """Return the settings, by default with a resample at every step.

        Beta goes until gamma is at the threshold; weights that are not made equal there would leave
        nothing for the step that follows.
        """
        return super().settings(**{"resample_threshold": 1.0, **given})

    def move(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Moved:
        """Follow Hamiltonian trajectories until the start is forgotten."""
        swept = move(rng, self._tempered(n.beta), particles)
        return Moved(swept.points, swept.acceptance_rate)

    def count_particles(self, draws: int) -> int:
        """Return how many particles are to explore, for so many draws at the end."""
        most = PARTICLES if len(self._chart.center) <= MANY else FEWER_PARTICLES
        return -(-draws // -(-draws // most))

    def draw_further(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, rounds: int
    ) -> FurtherDraws:
        """Move particles of the posterior, and return them after each of so many rounds."""
        target = self._tempered(n.beta)
        swept = move(rng, target, particles, self._last_sweeps)
        more, divergent = draw_further(rng, target, swept, rounds - 1)
        if self._chart.view.walled:
            divergent = np.nan
        forgot = forgotten(swept.memory, len(particles))
        return FurtherDraws([swept.points, *more], forgot, divergent)

    def smooth(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Smoothed:
        """Return (beta' - beta) (log f - log q)."""
        return Smoothed((n.beta - n.previous) * self._log_ratio(particles))

    def augment(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, proposal: Any
    ) -> tuple[np.ndarray, float]:
        """Return the particles: nothing comes in."""
        return particles, 0.0

    def rungs(self, run: Run, particles: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return beta of each step, and log f - log q of its particles."""
        betas = np.array([position.beta for position in run.positions])
        found = [
            np.array(info.log_ratios) / width
            for info, width in zip(run.history, np.diff(betas), strict=True)
        ]
        return betas, [*found, self._log_ratio(particles)]

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return draws as the model's own path does; what was integrated out is drawn."""
        return self._path.posterior(rng, self.model_points(rng, particles))

    def model_points(self, rng: np.random.Generator, particles: np.ndarray) -> np.ndarray:
        """Return particles in the coordinates of the model's own path."""
        view = self._chart.view
        return view.target.complete(rng, view.to_model(self._chart.to_view(particles))[0])

    def chart_points(self, points: np.ndarray) -> np.ndarray:
        """Return points of the model's own path, such as prior draws, as particles."""
        return self._chart.from_view(self._chart.view.from_model(points)[0])

    def prior_particles(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return prior draws as particles: where a search for modes starts.

        Where draws are taken one at a time there are fewer of them: they would take longer than the
        rest of the run.
        """
        if isinstance(self._path.prior, PriorSampler) and self._path.prior.one_by_one:
            size = min(size, DEAR_DRAWS)
        return self.chart_points(self._path.initialize(rng, size)[0])

    @property
    def likely_particles(self) -> np.ndarray:
        """Points where modes may be that no prior draw shows."""
        points = self._path.likely_particles
        return self.chart_points(points) if len(points) else points

    def continuous(self, particles: np.ndarray) -> np.ndarray:
        """Return the particles themselves."""
        return particles

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f in the chart, normalised as log Z is."""
        return self._chart.log_density(points)

    def score(self, points: np.ndarray) -> np.ndarray:
        """Return the gradient of log f in the chart."""
        return self._chart(points)[1]

    def spaces(self, particles: np.ndarray) -> Sequence[RefinementSpace]:
        """Return the chart: coordinates that were made round are easy to fit."""
        return [ChartSpace(self)]

    @property
    def work(self) -> int:
        """How many elements an evaluation of the density computes."""
        return self._path.work

    def particle_bytes(self) -> int:
        """Return the size of a row and of what its move takes."""
        return 8 * ARRAYS * self._path.plan.layout.dimension

    def fixed_bytes(self) -> int:
        """Return the size of the matrices of q and of the bridge, and of an evaluation."""
        return 8 * 4 * self._path.plan.layout.dimension**2 + self._path.fixed_bytes()

    def _log_ratio(self, particles: np.ndarray) -> np.ndarray:
        recent = getattr(self._recent, "ratio", None)
        if recent is None or recent[0] is not particles:
            with np.errstate(invalid="ignore"):
                ratio = self._ratio(particles)
            recent = particles, np.where(np.isnan(ratio), -np.inf, ratio)
            self._recent.ratio = recent
        return recent[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_recent"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._recent = threading.local()
