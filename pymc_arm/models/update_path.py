"""The path from the posterior of old data to that of all data: p_beta ~ f_old^(1 - beta) f^beta.

Where rows were appended, f_beta is the prior times the likelihood of the old rows times that of the
new ones to the power of beta: new data is tempered in, as on the path from the prior. Where the
density is no product over rows, f_old is that of a second model. Either way a position is a power
of each term, so that the moves are those of the path from the prior.
"""

from dataclasses import replace

import numpy as np

from pymc_arm.algorithm.state import Run
from pymc_arm.estimation.spaces import RefinementSpace
from pymc_arm.models.compiled import ModelPath
from pymc_arm.models.density import Density, name_term
from pymc_arm.models.joined import JoinedDensity
from pymc_arm.models.path import SMALLEST_SCORE, GenericPath
from pymc_arm.models.plan import Plan, Step
from pymc_arm.models.position import Position
from pymc_arm.models.reference.chart_path import ChartSpace

__all__ = ["TwoDensities", "UpdatePath", "path_from_model", "path_from_rows", "powers"]


class TwoDensities:
    """The densities of old data and of all data, as powers of the same terms."""

    density: Density
    log_normalizer: float
    _old_powers: np.ndarray
    _new_powers: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f of all data, normalised as log Z is."""
        return self.log_normalizer + self.density.sum(points, self._new_powers)

    def old_log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f of the old data, normalised as its log Z is."""
        return self.log_normalizer + self.density.sum(points, self._old_powers)

    def log_ratio(self, points: np.ndarray) -> np.ndarray:
        """Return log f - log f_old."""
        return self.density.sum(points, self._new_powers - self._old_powers)

    def impossible(self, point: np.ndarray) -> str:
        """Return the name of the first term that is zero at a point."""
        terms = self.density.terms(point[None])[0]
        return name_term(self.density, int(np.argmin(np.isfinite(terms))))


class UpdatePath(TwoDensities, ModelPath):
    """Travels from one posterior to another over the same coordinates.

    Parameters
    ----------
    path
        The path of the model with all data.
    plan, density
        Over the terms of both posteriors.
    before, after
        The power of each term in f_old and in f.
    """

    keeps_ratios = True

    def __init__(
        self,
        path: ModelPath,
        plan: Plan,
        density: Density,
        before: np.ndarray,
        after: np.ndarray,
    ) -> None:
        supports, draws = path._planned_with[:2]
        GenericPath.__init__(self, plan, density, path.prior, supports, draws, path.log_normalizer)
        self.flat, self.endless, self.corrections = path.flat, path.endless, path.corrections
        self.elimination, self._barren = None, None
        self._to_model = path._to_model
        self.last = Position(1)
        self._old_powers, self._new_powers = before, after

    def score(self, points: np.ndarray) -> np.ndarray | None:
        """Return the gradient of log f, if the dimension is large enough for it to help."""
        if points.shape[1] < SMALLEST_SCORE or not self.density.gradient.available():
            return None
        return self.density.gradient(points, self._new_powers)[1]

    def spaces(self, particles: np.ndarray) -> list[RefinementSpace]:
        """Return the space of all coordinates, if none is discrete."""
        return [] if self.continuous(particles) is None else [ChartSpace(self)]

    def rungs(self, run: Run, particles: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return beta of each step, and log f - log f_old of its particles."""
        betas = np.array([0.0, *(position.fraction for position in run.positions[1:])])
        found = [
            np.array(info.log_ratios) / width
            for info, width in zip(run.history, np.diff(betas), strict=True)
        ]
        return betas, [*found, self.log_ratio(particles)]

    def _weights(self, n: Position) -> np.ndarray:
        beta = n.fraction if n.step else 0.0
        return (1 - beta) * self._old_powers + beta * self._new_powers

    def _data_weights(self, step: Step) -> np.ndarray:
        return self._new_powers - self._old_powers


def powers(count: int, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the power of each term before and after those of new rows come in."""
    after = np.ones(count)
    before = after.copy()
    before[terms] = 0.0
    return before, after


def path_from_rows(path: ModelPath, terms: np.ndarray) -> UpdatePath:
    """Return the path along which the terms of new rows come in."""
    before, after = powers(path.density.count, terms)
    return UpdatePath(path, _plan(path.plan, terms), path.density, before, after)


def path_from_model(path: ModelPath, previous: ModelPath) -> UpdatePath:
    """Return the path from the density of a model with the old data.

    Parameters
    ----------
    path
        Of all data.
    previous
        The path of the old data; its coordinates are those of ``path``.
    """
    density = JoinedDensity(path.density, previous.density)
    count = path.density.count
    after = np.repeat([1.0, 0.0], [count, previous.density.count])
    scopes = np.concatenate([path.plan.scopes, previous.plan.scopes])
    names = (*path.plan.term_names, *previous.plan.term_names)
    plan = replace(path.plan, scopes=scopes, term_names=names)
    return UpdatePath(path, _plan(plan, np.arange(count)), density, 1.0 - after, after)


def _plan(plan: Plan, terms: np.ndarray) -> Plan:
    """Return a plan with all coordinates in at the start, and one step for the new terms."""
    count = len(plan.term_names)
    step = Step("temper", "new data", None, np.zeros(0, dtype=int), terms)
    return replace(
        plan,
        initial=np.arange(plan.layout.dimension),
        initial_terms=np.setdiff1d(np.arange(count), terms),
        steps=(step,),
    )
