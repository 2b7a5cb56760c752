"""The path from a fitted reference q to the posterior: p_beta ~ q^(1 - beta) f^beta.

It is the bridge of the paper's eq. (aisProb). q is normalised, so log Z_1 is zero exactly; beta is
found by bisection on gamma, so that a q that fits is one step away from the posterior, and one that
does not is a few more. Particles are points of the chart of q, where q is round.
"""

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.resampling import effective_sample_size
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.state import Run
from pymc_arm.estimation.refine import FIRST_PROPOSALS
from pymc_arm.estimation.spaces import Everywhere, FullSpace, RefinementSpace
from pymc_arm.models.path import SMALLEST_SCORE, GenericPath
from pymc_arm.models.prior import PriorSampler
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.fit import ENOUGH, Reference
from pymc_arm.models.reference.hamiltonian import (
    MAX_AUTOCORRELATION,
    correlation_with_start,
    draw_further,
    move,
)
from pymc_arm.models.reference.images import Fold
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.models.reference.tempered import Tempered, furthest
from pymc_arm.models.symmetry.cell import Cell
from pymc_arm.running.chains import FurtherDraws
from pymc_arm.running.placement import Placement

__all__ = ["ChartSpace", "Position", "ReferencePath"]

# Where the overlap is large enough, draws of q, which cost one value each, are all it takes: twice
# as many as are asked for, weighed and resampled. With 4000 draws the error of log Z is then 0.007
# at most. A trajectory costs several gradients.
TIMES = 2
# Where a field is standardized, the tails of its parameters were looked for, and a smaller share
# than ``ENOUGH`` will do: there are more draws of q instead. 1560 effects of 46,861 rows (39 %)
# took more than 120 CPU seconds with particles that travel, and 2905 states of a volatility (30 %)
# had twice the error.
ENOUGH_OF_FIELD = 0.15
# Where Pareto's k of the weights is larger, their variance is infinite: q lacks a tail, however
# large the share of effective draws seems. (Four groups with correlated slopes, by scales and
# correlations as coordinates: 0.81, k between 0.56 and 0.71, and log Z 0.04 low, six errors.)
HEAVY = 0.5
# Up to this share of effective draws a q that fits is one step away, and from this share on its
# weighed draws are kept as they are: half of them, taken by their weights, are the draws of a
# chain, hardly any of them twice. With all of them resampled and copies moved apart, a chain of
# 1000 draws took 4000 values (wells), now 2000. Where q is enough for a field and no more, there
# are as many draws as make up for it, and both bounds are this part of its share: with 0.7, one
# chain of four had a draw of large weight (2905 states), and moved all of its 3600 particles.
SMALLEST_STEP, KEPT, SURE = 0.5, 0.55, 0.3
PROPOSALS = 3
# Particles that explore, however many draws are asked for: what a trajectory costs, each of them
# pays at every step. The error of log Z comes from the bridge at the end, where the draws count.
PARTICLES = 250
# In more dimensions than this there are fewer: each costs more gradients, and the error of log Z
# that is wanted is larger (radon, 777 dimensions, 250 particles: 0.04).
MANY, FEWER_PARTICLES = 300, 150
# What is integrated out is evaluated at some so many nodes, those of the search for them included;
# where integrals are known in closed form, at three, and again where these were far away.
NODES, CLOSED = 60, 5
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


class ReferencePath(Path):
    """Travels from a reference to the posterior of a model.

    Parameters
    ----------
    path
        The path of the model from its prior, without discrete variables and with a gradient.
    reference
        From :func:`pymc_arm.models.reference.fit_reference`.
    target
        The compiled target of the path, if there is one already.
    """

    length: int | None = None
    keeps_ratios = True
    start = Position()
    placement = Placement.PROCESSES

    def __init__(
        self, path: GenericPath, reference: Reference, target: SharedTarget | None = None
    ) -> None:
        self.reference, self._path = reference, path
        self.flat, self.endless, self.rounding = path.flat, path.endless, path.rounding
        path.density.gradient.available()
        target = reference.target(path) if target is None else target
        target.cell = reference.cell
        self._chart = Chart(reference.view(target), reference.center, reference.factor)
        self._everywhere: Chart | None = None
        if reference.cell is not None:
            whole = copy.copy(target)
            whole.cell = None
            view = reference.view(whole)
            self._everywhere = Chart(view, reference.center, reference.factor)
        # ``advance`` and ``smooth`` ask for the same ratio, one after the other.
        self._recent = threading.local()

    @property
    def direct(self) -> bool:
        """Whether q fits so well that its draws, weighed, are all that is needed."""
        own = ENOUGH if self.reference.field is None else ENOUGH_OF_FIELD
        return self.reference.overlap > own and not self.reference.tail > HEAVY

    @property
    def searched(self) -> bool:
        """Whether other modes were looked for when q was fitted, so that nothing is left to do.

        Of a field given its parameters, and of these with the field integrated out.
        """
        return self.reference.field is not None

    @property
    def model_path(self) -> GenericPath:
        """The path from the prior."""
        return self._path

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from q, which integrates to one."""
        return self.reference.mixture.draw(rng, size), 0.0

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
        nothing for the step that follows. Where q fits, the posterior is one step away, and weights
        stay what they are.
        """
        own: dict[str, Any] = {"resample_threshold": 1.0}
        if self.direct:
            own = {"threshold": SMALLEST_STEP, "resample_threshold": KEPT}
            if self.reference.overlap < ENOUGH:
                own = dict.fromkeys(own, SURE * self.reference.overlap)
            own["resampling"] = "systematic"
        return super().settings(**{**own, **given})

    def describe(self, n: Position) -> str:
        """Return the power of the posterior that the particles have reached."""
        return f"from the reference (beta {n.beta:.3g})"

    def move(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Moved:
        """Replace particles by draws of q where it fits, else follow Hamiltonian trajectories.

        Both leave p_beta invariant; the second goes on until the start is forgotten.
        """
        if self.direct:
            moved, rate, memory = self._replace(rng, n, particles)
            # At the end they are draws already, and copies are to be moved apart. All are moved:
            # copies are where weights are large, so that moving them alone would thin these places.
            if n.beta == 1.0 or memory <= MAX_AUTOCORRELATION + 4 / np.sqrt(len(particles)):
                return Moved(moved, rate)
            particles = moved
        swept = move(rng, Tempered(self._chart, self.reference.mixture, n.beta), particles)
        return Moved(swept.points, swept.acceptance_rate)

    def count_particles(self, draws: int) -> int:
        """Return how many particles are to explore, for so many draws at the end."""
        if self.direct:
            return int(np.ceil(TIMES * draws * max(1.0, KEPT / self.reference.overlap)))
        most = PARTICLES if self.reference.mixture.dimension <= MANY else FEWER_PARTICLES
        return -(-draws // -(-draws // most))

    def draw_further(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, rounds: int
    ) -> FurtherDraws:
        """Move particles of the posterior, and return them after each of so many rounds."""
        few_enough = MAX_AUTOCORRELATION + 4 / np.sqrt(len(particles))
        if self.direct:
            found, memory = [], 0.0
            for _ in range(rounds):
                particles, _, latest = self._replace(rng, n, particles)
                found.append(particles)
                memory = max(memory, latest)
            if memory <= few_enough:
                return FurtherDraws(found, True)
        target = Tempered(self._chart, self.reference.mixture, n.beta)
        swept = move(rng, target, particles, LAST_SWEEPS)
        more, divergent = draw_further(rng, target, swept, rounds - 1)
        if self._chart.view.walled:
            divergent = np.nan
        return FurtherDraws([swept.points, *more], swept.memory <= few_enough, divergent)

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

    def representatives(
        self, rng: np.random.Generator, particles: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return draws as :meth:`posterior` does, of which none is taken to another cell."""
        return self._path.posterior(rng, self._representatives(rng, particles))

    @property
    def everywhere(self) -> Everywhere | None:
        """The density in all cells of a symmetric posterior."""
        chart, cell = self._everywhere, self.reference.cell
        if chart is None or cell is None:
            return None
        return Everywhere(
            lambda points: chart.log_density(points) + cell.log_images,
            lambda points: chart(points)[1],
            lambda points: self._fold(chart, cell, points),
        )

    def _fold(self, chart: Chart, cell: Cell, points: np.ndarray) -> np.ndarray:
        return chart.from_view(Fold(chart.view, cell)(chart.to_view(points)))

    def model_points(self, rng: np.random.Generator, particles: np.ndarray) -> np.ndarray:
        """Return particles in the coordinates of the model's own path.

        Where the posterior is symmetric, each is a random image of the particle.
        """
        points, cell = self._representatives(rng, particles), self.reference.cell
        return points if cell is None else cell.scatter(rng, points)

    def _representatives(self, rng: np.random.Generator, particles: np.ndarray) -> np.ndarray:
        """Return particles in the coordinates of the model; in the cell, if there is one."""
        view = self._chart.view
        return view.target.complete(rng, view.to_model(self._chart.to_view(particles))[0])

    def chart_points(self, points: np.ndarray) -> np.ndarray:
        """Return points of the model's own path, such as prior draws, as particles."""
        cell = self.reference.cell
        points = points if cell is None else cell.fold(points)
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
        nodes = CLOSED if self.reference.closed is not None else NODES
        return self._path.work * (nodes if len(self.reference.collapsed) else 1)

    def particle_bytes(self) -> int:
        """Return the size of a row and of what its move takes."""
        return 8 * ARRAYS * self._path.plan.layout.dimension

    def fixed_bytes(self) -> int:
        """Return the size of the matrices of q and of the bridge, and of an evaluation."""
        return 8 * 4 * self._path.plan.layout.dimension**2 + self._path.fixed_bytes()

    def _replace(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray
    ) -> tuple[np.ndarray, float, float]:
        """Propose draws of q to each particle (independence Metropolis), a few times.

        Returns the particles, the acceptance rate, and what they remember of the start.
        """
        start, start_ratio = particles, self._log_ratio(particles)
        ratio, rates, memory = start_ratio, [], 1.0
        for _ in range(PROPOSALS):
            fresh = self.reference.mixture.draw(rng, len(particles))
            fresh_ratio = self._log_ratio(fresh)
            with np.errstate(invalid="ignore"):
                difference = n.beta * (fresh_ratio - ratio)
            accepted = np.log(rng.random(len(fresh))) < difference
            particles = np.where(accepted[:, None], fresh, particles)
            ratio = np.where(accepted, fresh_ratio, ratio)
            rates.append(float(accepted.mean()))
            memory = correlation_with_start(start, start_ratio, particles, ratio)
            if memory <= MAX_AUTOCORRELATION + 4 / np.sqrt(len(particles)):
                break
        return particles, float(np.mean(rates)), memory

    def _log_ratio(self, particles: np.ndarray) -> np.ndarray:
        recent = getattr(self._recent, "ratio", None)
        if recent is None or recent[0] is not particles:
            with np.errstate(invalid="ignore"):
                ratio = self._chart.log_density(particles) - self.reference.mixture(particles)[0]
            recent = particles, np.where(np.isnan(ratio), -np.inf, ratio)
            self._recent.ratio = recent
        return recent[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_recent"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._recent = threading.local()
