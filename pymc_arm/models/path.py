"""The path of any PyMC model: prior draws, then one step of the plan after another."""

import copy
import functools
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Moved, Path, Smoothed
from pymc_arm.algorithm.settings import Settings
from pymc_arm.algorithm.tempering import effective_fraction, furthest
from pymc_arm.estimation.spaces import FullSpace, RefinementSpace
from pymc_arm.models.branches import branch_modes
from pymc_arm.models.density import Density, name_term
from pymc_arm.models.graph.loops import has_loop
from pymc_arm.models.integrate import Grid
from pymc_arm.models.marginal import MarginalSpace, independent_sets
from pymc_arm.models.moves import (
    KERNELS,
    LARGEST_REPEATS,
    FrozenSweep,
    Identity,
    MoveTarget,
    Sweep,
    View,
)
from pymc_arm.models.noncentered import find_noncentered
from pymc_arm.models.plan import Plan, Step
from pymc_arm.models.position import Position, TermSchedule
from pymc_arm.models.prior import Prior
from pymc_arm.models.step_integral import StepIntegrals
from pymc_arm.models.support import Support
from pymc_arm.running.placement import Placement

__all__ = ["GenericPath"]

# What a step of a loop on NumPy takes, in elements of its arrays: some 50 microseconds.
LOOP = 20
# A step that would leave a smaller effective fraction than this is split by tempering; between
# this and the threshold, the generate loop is the remedy.
SMALLEST_FRACTION = 0.3
# Fits of a cloud are as good without scores below so many dimensions. There gradients are compiled
# when a sweep that does not arrive asks for them: on small models that takes longer than a chain
# (0.9 s of CPU and 0.2 s on a regression of 4 coefficients), and where it is needed the error is
# the same (a regression with heavy priors: -0.44 of 4 chains, and -0.49 of 6 with scores).
SMALLEST_SCORE = 12
# Square matrices that fitting both halves of a cloud takes, and that each view holds, and arrays of
# an evaluation.
MATRICES, VIEW_MATRICES, ARRAYS = 4, 4, 10


class GenericPath(Path):
    """Travels along a plan with the terms of a model.

    Particles are rows of coordinates; those that have not come in yet hold prior draws.
    """

    length: int | None = None
    #: How often a move sweeps over the particles, at most.
    _repeats = LARGEST_REPEATS
    #: Data whose density depends on variables, but is the same wherever the path has looked.
    flat: tuple[str, ...] = ()
    #: Coordinates along which the density has no finite integral.
    endless: tuple[str, ...] = ()

    def __init__(
        self,
        plan: Plan,
        density: Density,
        prior: Prior,
        supports: dict[str, Support],
        draws: np.ndarray,
        log_normalizer: float = 0.0,
    ) -> None:
        self.plan, self.density, self.prior = plan, density, prior
        self.log_normalizer = log_normalizer
        #: The part of it that belongs to variables that are integrated, and not drawn.
        self.log_factor_integrated = 0.0
        self.start = Position(0)
        # What numba compiles releases the interpreter's lock.
        numba = density.backend == "numba"
        self.placement = Placement.PROCESSES_OR_THREADS if numba else Placement.PROCESSES
        layout = plan.layout
        self._discrete = layout.discrete
        self._supports = {
            coordinate: supports[slot.name]
            for slot in layout.slots
            if slot.discrete
            for coordinate in slot.coordinates
        }
        self._group = np.concatenate(
            [np.zeros(0, int), *(np.full(s.size, k) for k, s in enumerate(layout.slots))]
        ).astype(int)
        self._schedule = TermSchedule(plan, density.count)
        self._integrals = StepIntegrals(plan, density, self._schedule, self._supports, draws)
        #: Kernels that a pilot run notes, and that a run after it repeats.
        self._record: dict[Position, FrozenSweep] | None = None
        self._frozen_moves: dict[Position, FrozenSweep] | None = None
        self.innovations = find_noncentered(density, layout, plan.scopes, draws)
        self._target = functools.lru_cache(maxsize=4)(self._make_target)
        self._sets = functools.lru_cache(maxsize=4)(self._color)

    def settings(self, **given: Any) -> Settings:
        """Resample as soon as data has been tempered in.

        Data comes in so that gamma equals the threshold: then it is time to resample.
        """
        threshold = Settings.of(given).threshold
        return Settings.of({"resample_threshold": min(1.0, threshold + 0.2), **given})

    def initialize(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
        """Draw from the joint prior, which integrates to one: log Z_1 is zero.

        That holds for priors whose log-density lacks a constant too, since their draws are right.
        Those that are integrated and not drawn need the constant. Where a part of the prior is
        impossible, log Z_1 is the logarithm of the other part's mass.
        """
        points = self.plan.layout.ravel(self.prior.draw(rng, size), size)
        if not self.plan.steps:  # no free variables: the likelihood is a number
            likelihood = np.ones(self.density.count)
            likelihood[self.plan.initial_terms] = 0.0
            return points, float(self.density.sum(points[:1], likelihood)[0])
        return points, self.prior.log_mass + self.log_factor_integrated

    def finished(self, n: Position) -> bool:
        """Whether all steps are done, to the end."""
        return n.step == len(self.plan.steps) and n.fraction == 1.0

    def advance(
        self, n: Position, particles: np.ndarray, log_weights: np.ndarray, threshold: float
    ) -> Position:
        """Take the next step as far as the particles can follow, by bisection on gamma."""
        entering = n.fraction == 1.0
        number = n.step + 1 if entering else n.step
        previous = 0.0 if entering else n.fraction
        step = self.plan.steps[number - 1]
        if entering and step.coordinate is not None:
            whole = Position(number)
            ratio = self.smooth(np.random.default_rng(0), whole, particles).log_ratio
            smallest = min(SMALLEST_FRACTION, threshold)
            if not len(step.data_terms) or effective_fraction(ratio, log_weights) >= smallest:
                return whole
            prior, data = self._integrals.conditional_parts(whole, particles)

            def fraction_at(end: float) -> float:
                return effective_fraction(
                    np.logaddexp.reduce(prior + end * data, axis=1), log_weights
                )

        else:
            remaining = self.density.sum(particles, self._data_weights(step))

            def fraction_at(end: float) -> float:
                return effective_fraction((end - previous) * remaining, log_weights)

            smallest = threshold
        return Position(number, furthest(fraction_at, previous, smallest), previous)

    def describe(self, n: Position) -> str:
        """Return the coordinate or the data of a step."""
        label = self.plan.steps[n.step - 1].label
        return label if n.fraction == 1.0 else f"{label} ({n.fraction:.2g})"

    def observations(self, n: Position) -> tuple[int, str]:
        """Count the data of a step, potentials left out."""
        rows = self.plan.steps[n.step - 1].data_terms
        counts = self.density.observations[rows]
        total = int(counts.sum())
        return total, name_term(self.density, int(rows[counts > 0][0])) if total == 1 else ""

    def move(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Moved:
        """Sweep over the coordinates that are in, until the start is forgotten.

        With frozen moves a position at which the pilot did not move is left as it is, except for
        the last, whose moves do not enter Z-hat.
        """
        if self._frozen_moves is not None and not (
            self.finished(n) and n not in self._frozen_moves
        ):
            if n not in self._frozen_moves:
                return Moved(particles)
            return self._frozen_moves[n].run(rng, self._target(n), KERNELS, particles)
        sweep = Sweep(self._target(n), KERNELS, self._repeats)
        moved = sweep.run(rng, particles)
        if self._record is not None and n not in self._record:
            self._record[n] = sweep.freeze(particles)
        return moved

    def with_short_moves(self, repeats: int) -> "GenericPath":
        """Return a path whose moves end after so many sweeps, wherever particles are then."""
        path = copy.copy(self)
        path._repeats = repeats
        return path

    def recording(self) -> "GenericPath":
        """Return a path that notes the kernels of the first move at each position."""
        path = copy.copy(self)
        path._record = {}
        return path

    @property
    def recorded_moves(self) -> dict[Position, FrozenSweep] | None:
        """The kernels that were noted."""
        return self._record

    def with_frozen_moves(self, recorded: dict[Position, FrozenSweep] | None) -> "GenericPath":
        """Return a path that repeats kernels that were noted."""
        path = copy.copy(self)
        path._record, path._frozen_moves = None, recorded
        return path

    def smooth(self, rng: np.random.Generator, n: Position, particles: np.ndarray) -> Smoothed:
        """Integrate the new coordinate out, or add the next share of the data."""
        step = self.plan.steps[n.step - 1]
        if not self._schedule.introduces(n):
            share = n.fraction - n.previous
            return Smoothed(share * self.density.sum(particles, self._data_weights(step)))
        return self._integrals.smooth(n, particles)

    def augment(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, proposal: Grid | None
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Draw the new coordinate, and correct it with all active terms, in its scope or not."""
        if proposal is None:
            return particles, 0.0
        return self._integrals.draw(rng, n, particles, proposal)

    def integration_error(self, proposal: Grid | None, log_weights: np.ndarray) -> float:
        """Return the mean over particles of what the nodes may have missed."""
        if proposal is None:
            return 0.0
        return float(np.log1p(np.exp(log_weights) @ np.minimum(proposal.missed, 1e100)))

    def posterior(self, rng: np.random.Generator, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Return the coordinates by variable, still transformed."""
        values = self.plan.layout.unravel(particles)
        return {
            slot.name: value for slot, value in zip(self.plan.layout.slots, values, strict=True)
        }

    def join(self, sets: list[Any]) -> Any:
        """Join particles, or grids whose rows differ in length."""
        return Grid.join(sets) if isinstance(sets[0], Grid) else super().join(sets)

    def continuous(self, particles: np.ndarray) -> np.ndarray | None:
        """Return the particles themselves, if no coordinate is discrete."""
        return None if self._discrete.any() or not particles.shape[1] else particles

    def spaces(self, particles: np.ndarray) -> list[RefinementSpace]:
        """Return the space of all coordinates, and those without a set that can be drawn."""
        whole: list[RefinementSpace] = (
            [] if self.continuous(particles) is None else [FullSpace(self)]
        )
        sets = independent_sets(self.plan.scopes, self._discrete)
        parts = (self.plan, self.density, self._supports, self.log_normalizer)
        return whole + [MarginalSpace(*parts, chosen) for chosen in sets]

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f_N, normalised as log Z is."""
        everything = np.ones(self.density.count)
        return self.log_normalizer + self.density.sum(points, everything)

    @property
    def likely_particles(self) -> np.ndarray:
        """Points where modes may be that no prior draw shows (:mod:`pymc_arm.models.branches`)."""
        return self._likely_particles

    @functools.cached_property
    def _likely_particles(self) -> np.ndarray:
        # Not public: what a path keeps under a public name tells checkpoints of other runs apart.
        if self._discrete.any():
            return np.zeros((0, self.plan.layout.dimension))
        return branch_modes(self.density)

    def prepare(self) -> None:
        """Compile the gradient, if enough variables will be in for every move to call for it."""
        if np.sum(~self._discrete) >= SMALLEST_SCORE:
            self.density.gradient.available()

    @property
    def work(self) -> int:
        """How many elements an evaluation of the density computes; a loop costs many times that."""
        graphs = [piece for block in self.density.blocks for piece in block.pieces]
        return self.density.work * (LOOP if has_loop(graphs) else 1)

    def particle_bytes(self) -> int:
        """Return the size of a row of coordinates, and of the terms of a set that moves singly."""
        _, sets, discrete_sets = self._sets(len(self.plan.steps))
        terms = max((len(terms) for _, terms, _ in (*sets, *discrete_sets)), default=0)
        return 8 * (self.plan.layout.dimension + terms)

    def fixed_bytes(self) -> int:
        """Return the size of the matrices that moves fit, and of the terms of a few points."""
        continuous = np.flatnonzero(~self._discrete)
        matrices = MATRICES + VIEW_MATRICES * len(self._views(continuous))
        return 8 * (matrices * len(continuous) ** 2 + ARRAYS * self.density.held)

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of log f_N, if the dimension is large enough for it to help."""
        if points.shape[1] < SMALLEST_SCORE or not self.density.gradient.available():
            return None
        return self.density.gradient(points, np.ones(self.density.count))[1]

    def _weights(self, n: Position) -> np.ndarray:
        """Return the power of each term at a position."""
        return self._schedule.weights(n)

    def _data_weights(self, step: Step) -> np.ndarray:
        weights = np.zeros(self.density.count)
        weights[step.data_terms] = 1.0
        return weights

    def _make_target(self, n: Position) -> MoveTarget:
        weights = self._weights(n)
        continuous, sets, discrete_sets = self._sets(n.step)

        def log_density(points: np.ndarray) -> np.ndarray:
            return _zero_where_infinite(self.density.sum(points, weights))

        def terms(points: np.ndarray, selection: np.ndarray) -> np.ndarray:
            return _zero_where_infinite(self.density.terms(points, selection) * weights[selection])

        def gradient(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            if not self.density.gradient.available():  # compiled when it is first asked for
                return log_density(points), np.full(points.shape, np.nan)
            values, gradients = self.density.gradient(points, weights)
            return _zero_where_infinite(values), gradients

        fits_scores = len(continuous) >= SMALLEST_SCORE and self.density.gradient.available()
        return MoveTarget(
            log_density=log_density,
            terms=terms,
            continuous=continuous,
            sets=sets,
            discrete_sets=discrete_sets,
            supports=self._supports,
            gradient=gradient,
            fits_scores=fits_scores,
            views=self._views(continuous),
        )

    def _views(self, continuous: np.ndarray) -> list[View]:
        """Return how the coordinates that are in can be seen."""
        innovations = self.innovations.select(continuous)
        return [Identity(), *([innovations] if len(innovations.coordinates) else [])]

    def _color(self, step: int) -> tuple[np.ndarray, list[Any], list[Any]]:
        """Return the continuous coordinates that are in, and the sets to move together."""
        return self._schedule.sets_to_move(step, self._group)


def _zero_where_infinite(values: np.ndarray) -> np.ndarray:
    """Return log-densities with -inf for +inf: no move may end where a density overflows.

    It does so far out, by rounding: the mass of a truncated normal between its bounds is zero to
    all digits where its scale is above 1e16. Points of infinite density have no mass themselves.
    """
    return np.where(values == np.inf, -np.inf, values)
