"""The path from a fitted reference q to the posterior: p_beta ~ q^(1 - beta) f^beta.

It is the bridge of the paper's eq. (aisProb). A q that fits is one step away from the posterior,
and one that does not is a few more. Particles are points of the chart of q, where q is round.
"""

import copy
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved
from pymc_arm.algorithm.settings import Settings
from pymc_arm.estimation.spaces import Everywhere
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.chart_path import ChartPath, Position, forgotten
from pymc_arm.models.reference.density import Chart
from pymc_arm.models.reference.fit import ENOUGH, Reference
from pymc_arm.models.reference.hamiltonian import correlation_with_start
from pymc_arm.models.reference.images import Fold
from pymc_arm.models.reference.target import SharedTarget
from pymc_arm.models.reference.tempered import Tempered
from pymc_arm.models.symmetry.cell import Cell
from pymc_arm.running.chains import FurtherDraws

__all__ = ["ReferencePath"]

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
# What is integrated out is evaluated at some so many nodes, those of the search for them included;
# where integrals are known in closed form, at three, and again where these were far away.
NODES, CLOSED = 60, 5


class ReferencePath(ChartPath):
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

    def __init__(
        self, path: GenericPath, reference: Reference, target: SharedTarget | None = None
    ) -> None:
        self.reference = reference
        path.density.gradient.available()
        target = reference.target(path) if target is None else target
        target.cell = reference.cell
        super().__init__(path, Chart(reference.view(target), reference.center, reference.factor))
        self._everywhere: Chart | None = None
        if reference.cell is not None:
            whole = copy.copy(target)
            whole.cell = None
            view = reference.view(whole)
            self._everywhere = Chart(view, reference.center, reference.factor)

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

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from q, which integrates to one."""
        return self.reference.mixture.draw(rng, size), 0.0

    def settings(self, **given: Any) -> Settings:
        """Return the settings, by default with a resample at every step.

        Where q fits, the posterior is one step away, and weights stay what they are.
        """
        own: dict[str, Any] = {}
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
            if n.beta == 1.0 or forgotten(memory, len(particles)):
                return Moved(moved, rate)
            particles = moved
        return super().move(rng, n, particles)

    def count_particles(self, draws: int) -> int:
        """Return how many particles are to explore, for so many draws at the end."""
        if self.direct:
            return int(np.ceil(TIMES * draws * max(1.0, KEPT / self.reference.overlap)))
        return super().count_particles(draws)

    def draw_further(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, rounds: int
    ) -> FurtherDraws:
        """Move particles of the posterior, and return them after each of so many rounds."""
        if self.direct:
            found, memory = [], 0.0
            for _ in range(rounds):
                particles, _, latest = self._replace(rng, n, particles)
                found.append(particles)
                memory = max(memory, latest)
            if forgotten(memory, len(particles)):
                return FurtherDraws(found, True)
        return super().draw_further(rng, n, particles, rounds)

    def representatives(
        self, rng: np.random.Generator, particles: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return draws as :meth:`posterior` does, of which none is taken to another cell."""
        return self._path.posterior(rng, super().model_points(rng, particles))

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
        points, cell = super().model_points(rng, particles), self.reference.cell
        return points if cell is None else cell.scatter(rng, points)

    def chart_points(self, points: np.ndarray) -> np.ndarray:
        """Return points of the model's own path, such as prior draws, as particles."""
        cell = self.reference.cell
        return super().chart_points(points if cell is None else cell.fold(points))

    @property
    def work(self) -> int:
        """How many elements an evaluation of the density computes."""
        nodes = CLOSED if self.reference.closed is not None else NODES
        return super().work * (nodes if len(self.reference.collapsed) else 1)

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
            if forgotten(memory, len(particles)):
                break
        return particles, float(np.mean(rates)), memory

    def _ratio(self, particles: np.ndarray) -> np.ndarray:
        return self._chart.log_density(particles) - self.reference.mixture(particles)[0]

    def _tempered(self, beta: float) -> Tempered:
        return Tempered(self._chart, self.reference.mixture, beta)
