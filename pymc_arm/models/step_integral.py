"""Integrals over the coordinate that comes in with a step, and draws of it.

The integral gives W-hat, the factor of a particle's weight, and the nodes from which the coordinate
is drawn. A draw is corrected with all active terms, whether or not they were known to depend on it.
"""

import threading

import numpy as np

from pymc_arm.algorithm.path import Smoothed
from pymc_arm.models.density import Density
from pymc_arm.models.integrate import (
    Grid,
    PriorRange,
    draw_continuous,
    draw_discrete,
    enumerate_values,
    quadrature,
    rough_rule,
)
from pymc_arm.models.plan import Plan
from pymc_arm.models.position import Position, TermSchedule
from pymc_arm.models.support import Support, inside_only

__all__ = ["StepIntegrals"]


class StepIntegrals:
    """The integrals of the steps of a plan.

    Parameters
    ----------
    plan
        The steps.
    density
        The terms.
    schedule
        Which terms are active where.
    supports
        Those of discrete coordinates.
    draws
        Prior draws, which say where the nodes of a quadrature begin.
    """

    def __init__(
        self,
        plan: Plan,
        density: Density,
        schedule: TermSchedule,
        supports: dict[int, Support],
        draws: np.ndarray,
    ) -> None:
        self._density, self._schedule, self._supports = density, schedule, supports
        self._prior_ranges = {
            step.coordinate: PriorRange.of(
                draws[:, step.coordinate], plan.layout.slot_of(step.coordinate).bound
            )
            for step in plan.steps
            if step.method == "quadrature" and step.coordinate is not None
        }
        # The choice of a position and its integral ask for the same one, one after the other.
        self._recent = threading.local()

    def smooth(self, n: Position, particles: np.ndarray) -> Smoothed:
        """Integrate the new coordinate of a position out, for each particle."""
        step = self._schedule.step(n)
        coordinate = step.coordinate
        assert coordinate is not None
        recent = getattr(self._recent, "smoothed", None)
        if recent is not None and recent[0] == n and recent[1] is particles:
            return recent[2]
        affected, weights = self._schedule.affected(n)

        def conditional(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return self._at_values(particles[rows], coordinate, values, affected, weights)

        def own(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
            terms = step.prior_terms
            return self._at_values(particles[rows], coordinate, values, terms, np.ones(len(terms)))

        if step.method == "enumerate":
            support = self._supports[coordinate]
            grid = enumerate_values(
                inside_only(conditional, own) if support.varies else conditional,
                support,
                len(particles),
            )
        else:
            prior_range = self._prior_ranges[coordinate]
            grid = quadrature(conditional, prior_range, len(particles))
        smoothed = Smoothed(grid.log_mass - self._before(n, particles), grid)
        self._recent.smoothed = (n, particles, smoothed)
        return smoothed

    def draw(
        self, rng: np.random.Generator, n: Position, particles: np.ndarray, proposal: Grid
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the new coordinate, and correct it with all active terms, in its scope or not."""
        step = self._schedule.step(n)
        assert step.coordinate is not None
        if step.method == "enumerate":
            draws, log_q = draw_discrete(rng, proposal, self._supports[step.coordinate])
        else:
            draws, log_q = draw_continuous(rng, proposal, self._prior_ranges[step.coordinate])
        new = particles.copy()
        new[:, step.coordinate] = draws
        after = self._density.sum(new, self._schedule.weights(n))
        before = self._density.sum(particles, self._schedule.weights(Position(n.step - 1)))
        # W-hat as smooth had it, with the same terms before.
        log_ratio = proposal.log_mass - self._before(n, particles)
        with np.errstate(invalid="ignore"):
            correction = after - before - log_q - log_ratio
        return new, np.where(np.isnan(correction), -np.inf, correction)

    def conditional_parts(
        self, n: Position, particles: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log prior with log width, and log data, of a new coordinate at common nodes.

        They serve to choose how much of the data a step takes, so a rough rule is enough: the
        nodes of the quadrature of the whole step.
        """
        step = self._schedule.step(n)
        assert step.coordinate is not None
        grid = self.smooth(n, particles).proposal
        values, log_widths = rough_rule(grid, whole=step.method == "enumerate")
        affected, weights = self._schedule.affected(n)
        is_data = self._schedule.tempered[affected] & (self._schedule.activated[affected] == n.step)
        parts = [
            self._at_values(particles, step.coordinate, values, affected[m], weights[m])
            for m in (~is_data, is_data)
        ]
        return parts[0] + log_widths, parts[1]

    def _before(self, n: Position, particles: np.ndarray) -> np.ndarray | float:
        """Return the terms that were active before and that the new coordinate touches."""
        affected, _ = self._schedule.affected(n)
        old = affected[self._schedule.activated[affected] < n.step]
        if not len(old):
            return 0.0
        weights = np.zeros(self._density.count)
        weights[old] = 1.0
        return self._density.sum(particles, weights)

    def _at_values(
        self,
        particles: np.ndarray,
        coordinate: int,
        values: np.ndarray,
        terms: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        """Return the weighted terms with a coordinate set to each of a row of values."""
        full = np.zeros(self._density.count)
        full[terms] = weights
        return self._density.sum_at(particles, coordinate, values, full)
