"""The density of the variables that are left, when discrete ones are summed.

It has the methods of :class:`pymc_arm.models.density.LogDensity`, over the coordinates that are
left. Its terms are those of the model that depend on no summed variable, and two more for each
component of the factor graph: log P, a prior, and log F - log P, the data (see
:mod:`pymc_arm.models.elimination.sums`). All of them add up to log sum_z f(c, z).
"""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.density import LogDensity
from pymc_arm.models.elimination.arrangement import (
    OF_LIKELIHOOD,
    OF_MODEL,
    OF_PRIOR,
    Given,
    arrange,
)
from pymc_arm.models.elimination.sums import Sums
from pymc_arm.models.elimination.tables import WeightedGradient
from pymc_arm.models.support import Support
from pymc_arm.models.terms import Layout

__all__ = ["EliminatedDensity", "NotNormalized"]

# How many selections of components are kept ready for use.
PREPARED = 512
# Points at which gradients are compared with differences, the size of these, and from which
# relative error on a gradient is wrong: differences themselves are good to 1e-6.
TRIED, DIFFERENCE, TOLERANCE = 8, 1e-5, 1e-3
# With more cells than this a point is not evaluated twice: finding equal points costs about 500.
COSTLY = 500
# How many terms a cell is as much work as: it is added up, shifted, exponentiated and summed. So a
# chain of 40 states starts at a reference, which takes 5 CPU s, and 11 from the prior.
CELL = 3
# How far the sum of a prior may be from one.
NORMALIZED = 1e-6


class NotNormalized(Exception):
    """The prior of a discrete variable does not sum to one."""


class EliminatedDensity:
    """The log-density of a model, summed over discrete coordinates.

    Parameters
    ----------
    density
        All terms of the model.
    layout
        All coordinates.
    scopes
        Which terms depend on which coordinates, (terms, coordinates).
    supports
        Those of the coordinates that are summed: all of a variable, or none.
    draws
        Prior draws of all coordinates, (size, dimension).
    largest
        The number of cells of the largest table that is allowed.

    Raises
    ------
    TooLarge
        If a table would be larger.
    NotNormalized
        If the prior of the summed variables does not sum to one.
    """

    def __init__(
        self,
        density: LogDensity,
        layout: Layout,
        scopes: np.ndarray,
        supports: Mapping[int, Support],
        draws: np.ndarray,
        largest: float,
    ) -> None:
        self.whole, self.notes, self.backend = density, density.notes, density.backend
        self._scopes, self._supports, self._largest = scopes, dict(supports), largest
        self._summed = np.array(sorted(supports), dtype=int)
        #: The coordinates of the model that are left.
        self.kept = np.delete(np.arange(layout.dimension), self._summed)
        self._placeholder = draws[0].copy()
        self.reference = draws[:, self.kept]
        owner = np.repeat(np.arange(len(density.blocks)), density.sizes)
        kinds = np.array([block.kind for block in density.blocks])
        self._is_prior = (kinds == "prior")[owner]
        touched = np.asarray(scopes[:, self._summed].any(axis=1))
        #: The terms of the model that depend on what is summed.
        self.touched = np.flatnonzero(touched)
        left = np.array([slot.start in set(self.kept.tolist()) for slot in layout.slots])
        of_left = np.zeros(density.count, dtype=bool)  # the prior of a variable that is left
        of_left[self._is_prior] = left[owner[self._is_prior]]
        if (self._is_prior & ~of_left & ~touched).any():
            raise NotNormalized
        self.sums = Sums(
            density,
            scopes,
            self.touched,
            self._is_prior,
            supports,
            bool((of_left & touched).any()),
            largest,
        )
        self._prepared: dict[bytes, tuple[Sums, np.ndarray]] = {}
        given = Given(
            density,
            layout,
            scopes,
            self._summed,
            self.kept,
            owner,
            self._is_prior,
            touched,
            left,
            of_left,
        )
        self._terms = arrange(given, self.sums)
        self.blocks, self.sizes = self._terms.blocks, self._terms.sizes
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        #: Which terms depend on which of the coordinates that are left.
        self.scopes = self._terms.scopes
        #: How many observations are in each term.
        self.observations = self._terms.observations
        #: Variables whose priors share a sum, so that neither has one by itself.
        self.together = self._terms.together
        self._check_prior(draws)
        self.gradient = _Gradient(self)

    @property
    def count(self) -> int:
        """The number of terms."""
        return int(self.offsets[-1])

    @property
    def work(self) -> int:
        """How many single terms an evaluation at one point takes, and as much for its cells."""
        return int(np.sum(self._terms.kinds == OF_MODEL)) + CELL * self.sums.work

    @property
    def held(self) -> int:
        """The elements that an evaluation with its gradient holds at least, for one point."""
        return max(self.whole.held, 3 * self.sums.work)

    def configurations(self, most: int) -> np.ndarray:
        """Return all values of what is summed, (size, summed); none where they are too many."""
        supports = [self._supports[coordinate] for coordinate in self._summed]
        if math.prod(support.count for support in supports) > most:
            return np.zeros((0, len(supports)))
        return np.array(list(itertools.product(*(support.values for support in supports))))

    def terms(self, points: np.ndarray, selection: np.ndarray | None = None) -> np.ndarray:
        """Return terms at points, (size, len(selection)); all of them without a selection."""
        chosen = np.arange(self.count) if selection is None else np.asarray(selection)
        points, inverse = self._distinct(points, chosen)
        whole = self.expand(points)
        result = np.empty((len(points), len(chosen)))
        kinds, numbers = self._terms.kinds[chosen], self._terms.numbers[chosen]
        if (kinds == OF_MODEL).any():
            result[:, kinds == OF_MODEL] = self.whole.terms(whole, numbers[kinds == OF_MODEL])
        if (kinds != OF_MODEL).any():
            full, prior = self._some_sums(whole, kinds, numbers)
            result[:, kinds == OF_PRIOR] = prior[:, numbers[kinds == OF_PRIOR]]
            result[:, kinds == OF_LIKELIHOOD] = self._likelihood(full, prior)[
                :, numbers[kinds == OF_LIKELIHOOD]
            ]
        return result if inverse is None else result[inverse]

    def sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return sum_k weights[k] t_k at each point, over the terms of positive weight."""
        selection = np.flatnonzero(weights)
        with np.errstate(invalid="ignore", over="ignore"):
            total = self.terms(points, selection) @ weights[selection]
        total[np.isnan(total)] = -np.inf
        return total

    def terms_at(
        self, points: np.ndarray, columns: np.ndarray, values: np.ndarray, selection: np.ndarray
    ) -> np.ndarray:
        """Return terms at points whose ``columns`` have each of some values.

        ``values`` are (points, number, columns), and the result (points, number, terms).
        """
        spread = np.repeat(points, values.shape[1], axis=0)
        spread[:, columns] = values.reshape(len(spread), -1)
        return self.terms(spread, selection).reshape(*values.shape[:2], -1)

    def sum_at(
        self, points: np.ndarray, column: int, values: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return sum_k weights[k] t_k at points with a column set to each of a row of values."""
        spread = np.repeat(points, values.shape[1], axis=0)
        spread[:, column] = values.ravel()
        return self.sum(spread, weights).reshape(values.shape)

    def graphs_of(
        self, terms: np.ndarray
    ) -> tuple[TensorVariable, list[TensorVariable], list[int]]:
        """Return x, graphs over it of terms that are in order, and the number of terms of each.

        Raises
        ------
        ValueError
            If a sum is among them: it has no graph.
        """
        if (self._terms.kinds[terms] != OF_MODEL).any():
            raise ValueError("a sum over discrete variables has no graph")
        x, graphs, counts = self.whole.graphs_of(self._terms.numbers[terms])
        left = pt.tensor("x", dtype="float64", shape=(len(self.kept),))
        filled = pt.set_subtensor(pt.constant(self._placeholder)[self.kept], left)
        return left, graph_replace(graphs, {x: filled}, strict=False), counts

    def expand(self, points: np.ndarray) -> np.ndarray:
        """Return points of the model, with some value for the summed coordinates."""
        whole = np.tile(self._placeholder, (len(points), 1))
        whole[:, self.kept] = points
        return whole

    def draw(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return points of the model, with the summed coordinates drawn given the others."""
        return self.sums.draw(rng, self.expand(points))

    def rounding(self) -> float:
        """Return how far rounding may put the sum off, where nothing is left.

        PyTensor has priors of whole numbers in single precision: that of each term, at one draw.
        """
        point = self.draw(np.random.default_rng(0), np.zeros((1, len(self.kept))))
        terms = self.whole.terms(point)
        terms = 1 + np.abs(terms[np.isfinite(terms)])
        return float(np.finfo(np.float32).eps / 2 * np.sqrt((terms**2).sum()))

    def _likelihood(self, full: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Return log F - log P of each component of F."""
        with np.errstate(invalid="ignore"):
            difference = full.copy()
            for number, component in enumerate(self._terms.component_of_prior):
                difference[:, component] -= prior[:, number]
        difference[np.isnan(difference)] = -np.inf
        return difference

    def _distinct(
        self, points: np.ndarray, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the points without copies, and where each is among them, where that pays."""
        if self.sums.work < COSTLY or len(points) < 2 or not self._terms.kinds[chosen].any():
            return points, None
        distinct, inverse = np.unique(points, axis=0, return_inverse=True)
        if len(distinct) == len(points):
            return points, None
        return distinct, inverse.ravel()

    def _some_sums(
        self, whole: np.ndarray, kinds: np.ndarray, numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log F and log P, of those components at least that are asked for."""
        wanted = np.zeros(len(self._terms.members), dtype=bool)
        wanted[numbers[kinds == OF_LIKELIHOOD]] = True
        wanted[self._terms.component_of_prior[numbers[kinds == OF_PRIOR]]] = True
        if wanted.all():
            return self.sums(whole)
        key = wanted.tobytes()
        if key not in self._prepared:
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            terms = np.sort(
                np.concatenate([self._terms.members[n] for n in np.flatnonzero(wanted)])
            )
            own = {
                coordinate: self._supports[coordinate]
                for number in np.flatnonzero(wanted)
                for coordinate in self.sums.full.schedule.components[number]
            }
            some = Sums(
                self.whole,
                self._scopes,
                terms,
                self._is_prior,
                own,
                self.sums.prior is not None,
                self._largest,
            )
            known: list[int] = []
            if some.prior is not None:
                assert self.sums.prior is not None
                every = {c: n for n, c in enumerate(self.sums.prior.schedule.components)}
                known = [every[c] for c in some.prior.schedule.components]
            self._prepared[key] = some, np.array(known, dtype=int)
        some, places = self._prepared[key]
        full = np.zeros((len(whole), len(wanted)))
        prior = np.zeros((len(whole), len(self._terms.component_of_prior)))
        full[:, wanted], prior[:, places] = some(whole)
        return full, prior

    def _check_prior(self, draws: np.ndarray) -> None:
        """Refuse variables whose prior does not sum to one."""
        # Whether all mass is below the last value of a count depends on its parents.
        count = 20 if all(support.finite for support in self._supports.values()) else 200
        some = draws[:: max(1, len(draws) // count)][:count]
        if self.sums.prior is not None:
            found = self.sums(some)[1][:, self._terms.free]
        else:
            terms = self.touched[self._is_prior[self.touched]]
            alone = (self._scopes, terms, self._is_prior, self._supports, False, self._largest)
            found = Sums(self.whole, *alone)(some)[0]
        if not (np.abs(found) < NORMALIZED).all():
            raise NotNormalized


class _Gradient:
    """Value and gradient of sum_k w_k t_k for the density of what is left.

    Parameters
    ----------
    density
        The density.
    """

    backend = "numpy"

    def __init__(self, density: EliminatedDensity) -> None:
        self._density = density
        self._rest: WeightedGradient | None = None
        self._possible: bool | None = None

    def available(self) -> bool:
        """Whether there is a gradient that agrees with differences."""
        if self._possible is None:
            self._possible = False
            try:
                self._possible = self._is_right()
            except Exception as error:  # PyTensor raises anything for what it can't derive
                text = f"no gradient of the sums: {type(error).__name__}: {error}"
                self._density.notes.append(text.splitlines()[0][:200])
        return self._possible

    def __call__(self, points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values, (size,), and the gradients, (size, dimension).

        Where the density is zero, so is the gradient.
        """
        density = self._density
        kinds, numbers = density._terms.kinds, density._terms.numbers
        whole = density.expand(points)
        of_rest = kinds == OF_MODEL
        total, gradient = np.zeros(len(points)), np.zeros(whole.shape)
        if weights[of_rest].any():
            terms = numbers[of_rest]
            if self._rest is None:
                self._rest = WeightedGradient(density.whole, np.sort(terms))
            order = np.argsort(terms)
            total += density.sum(points, np.where(of_rest, weights, 0.0))
            rows = np.broadcast_to(weights[of_rest][order], (len(points), len(terms)))
            gradient += self._rest(whole, rows)
        if weights[~of_rest].any():
            of_full = np.zeros(len(density._terms.members))
            of_full[numbers[kinds == OF_LIKELIHOOD]] = weights[kinds == OF_LIKELIHOOD]
            of_prior = -of_full[density._terms.component_of_prior]
            of_prior[numbers[kinds == OF_PRIOR]] += weights[kinds == OF_PRIOR]
            full, prior, found = density.sums.differentiate(whole, of_full, of_prior)
            difference = density._likelihood(full, prior)
            with np.errstate(invalid="ignore"):
                total += difference[:, of_full != 0] @ of_full[of_full != 0]
                chosen = numbers[(kinds == OF_PRIOR) & (weights != 0)]
                total += prior[:, chosen] @ weights[(kinds == OF_PRIOR) & (weights != 0)]
            gradient += found
        total[np.isnan(total)] = -np.inf
        gradient = gradient[:, density.kept]
        gradient[~np.isfinite(gradient).all(axis=1) | (total == -np.inf)] = 0.0
        return total, gradient

    def _is_right(self) -> bool:
        density = self._density
        if not density.sums.gradient_is_quick():
            density.notes.append("no gradient of the sums: it would be a loop in Python")
            return False
        weights = np.random.default_rng(0).uniform(0.5, 1.5, density.count)
        points = density.reference[:TRIED]
        steps = DIFFERENCE * np.random.default_rng(1).normal(size=points.shape)
        steps[:, (points == np.round(points)).all(axis=0)] = 0.0  # what is left may be discrete
        with np.errstate(all="ignore"):
            values, gradients = self(points, weights)
            ends = [density.sum(points + sign * steps, weights) for sign in (1, -1)]
            difference, slope = 0.5 * (ends[0] - ends[1]), (gradients * steps).sum(axis=1)
        good = np.isfinite(values) & np.isfinite(difference)
        wrong = np.abs(difference - slope)[good] / (DIFFERENCE + np.abs(slope[good]))
        if good.any() and np.median(wrong) < TOLERANCE:
            return True
        density.notes.append("no gradient of the sums: it differs from differences")
        return False
