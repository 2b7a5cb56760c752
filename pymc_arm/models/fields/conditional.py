"""The conditional distribution of a field given its parameters, by Newton's method.

Second derivatives are differences of gradients. Which of them are not zero is found by trying;
coordinates that share no neighbour are shifted together, so that a random walk of any length takes
three gradients. All rows, each with parameters of its own, go at once, and those that have arrived
stay behind.
"""

from typing import Any

import numpy as np
import scipy

from pymc_arm.models.fields.factors import SparseFactor, choose_factor
from pymc_arm.models.fields.gradient import FieldGradient, compile_field_gradient
from pymc_arm.models.fields.target import LARGEST, FieldTarget, LargeFieldError, Modes
from pymc_arm.models.reference.target import View

__all__ = ["Conditional"]

# A second derivative smaller than this share of those on the diagonal is rounding.
NEGLIGIBLE = 1e-7
# Points at which the pattern of second derivatives is looked for, and how far from zero. At draws
# of a vague prior the data may have curvatures beside which all others are rounding.
PATTERN_POINTS, NEAR = 2, 2.0
# From so many coordinates on one point is looked at: each takes a gradient for every coordinate.
MANY = 600
# Coordinates that depend on more than this share of all are common: coefficients, intercepts.
COMMON, FEWEST_COMMON = 0.2, 8
# Newton's steps: five are usual. It has arrived if another step would gain less, in nats: what is
# left is smooth in the parameters then.
STEPS, SMALLEST_GAIN = 40, 1e-9
# From so many colors on a precision serves for more steps than one, while each has less left to
# gain than this share of the one before, and at most so many; they go on for longer, so that the
# precision there is the last.
COSTLY, CLOSER, MOST_FOLLOWING, FOLLOWED = 6, 0.3, 12, 0.01
# A parabola has the same precision everywhere: one step from where it promised this much, in nats,
# leads to its mode. A level with 191 effects and shocks of the seasons took 195,000 gradients.
FAR = 1.0
# What a step may promise in vain, by rounding of log f.
ROUNDING = 1e-5
# What is added to a precision that is not positive definite, in units of its diagonal.
DAMPING = (1e-3, 1e-1, 1.0, 10.0, 1e3)


class Conditional(FieldTarget):
    """Finds modes of a field given its parameters.

    Parameters
    ----------
    view
        The target; its coordinates are both.
    field
        The coordinates of the field.
    prior
        Prior draws in the view, all finite.

    Raises
    ------
    PathError
        If the field is too large for a matrix and no band.
    """

    def __init__(self, view: View, field: np.ndarray, prior: np.ndarray) -> None:
        super().__init__(view, field, prior)
        #: The gradient in the field alone, where that spares the work of a matrix for each point.
        self._alone: FieldGradient | None = None
        pattern = np.eye(len(field), dtype=bool)
        near = view.near_zero(np.random.default_rng(0), 4 * PATTERN_POINTS, NEAR)
        chosen: SparseFactor | None = None
        for points in (near, prior):
            pattern |= self._find_pattern(points)
            chosen = choose_factor(pattern)
            if chosen is None:
                raise LargeFieldError(
                    f"{len(field)} coordinates of a field depend on too many others."
                )
        assert chosen is not None
        self.factor = chosen
        self._rows, self._columns = np.nonzero(pattern)
        common = pattern.sum(axis=1) > max(COMMON * len(field), FEWEST_COMMON)
        self._color = _color(pattern, common)
        # An element in the row of a common coordinate is measured in its column.
        turned = common[self._rows] & ~common[self._columns]
        keys = self._columns * len(field) + self._rows
        self._source = np.arange(len(self._rows))
        order = np.argsort(keys)
        own = (self._rows * len(field) + self._columns)[turned]
        self._source[turned] = order[np.searchsorted(keys[order], own)]
        if self.colors >= COSTLY and view.plain:
            self._alone = compile_field_gradient(view.target.path.density, field)

    @property
    def colors(self) -> int:
        """How many gradients a matrix of second derivatives takes."""
        return int(self._color.max()) + 1

    def find_modes(
        self, parameters: np.ndarray, start: np.ndarray, known: np.ndarray | None = None
    ) -> Modes:
        """Climb from a start for each row.

        Parameters
        ----------
        parameters
            (size, parameters)
        start
            Of the field, (size, field).
        known
            Numbers of factors that are about right there, if there are any.
        """
        points = self.join(parameters, start)
        values, slopes = self.evaluate(points)
        arrived = np.zeros(len(points), dtype=bool)
        numbers = np.zeros((len(points), self.factor.count))
        active = np.flatnonzero(np.isfinite(values))
        if known is not None and self.colors >= COSTLY:
            self._follow(
                points, values, slopes, active, known[active], np.full(len(active), np.inf)
            )
        left = np.full(len(points), np.inf)
        for _ in range(STEPS):
            if not len(active):
                break
            step, gain, factors = self._newton(points[active], slopes[active])
            # What does not shrink any more is rounding.
            stuck = (gain < ROUNDING) & (gain > CLOSER * left[active])
            left[active] = gain
            there = np.array([f is not None for f in factors]) & ((gain < SMALLEST_GAIN) | stuck)
            moving = np.flatnonzero(~there & ~stuck & np.isfinite(gain) & (gain > 0))
            moved = self.search(points, values, slopes, active[moving], step[moving])
            # Those that gain nothing are at the end of their digits, or lost.
            for number in moving[~moved & (gain[moving] < ROUNDING)]:
                there[number] = factors[number] is not None
            for number in np.flatnonzero(there):
                numbers[active[number]] = self.factor.pack(factors[number])
            arrived[active[there]] = True
            going = np.array([n for n in moving[moved] if factors[n] is not None], dtype=int)
            if self.colors >= COSTLY and len(going):
                rows, latest = (
                    active[going],
                    np.array([self.factor.pack(factors[n]) for n in going]),
                )
                given = slopes[np.ix_(rows, self.field)]
                promised = 0.5 * (given * self.factor.solve_by(latest, given)).sum(axis=1)
                ended = (gain[going] > FAR) & (promised < SMALLEST_GAIN)
                arrived[rows[ended]], numbers[rows[ended]] = True, latest[ended]
                self._follow(
                    points, values, slopes, rows[~ended], latest[~ended], gain[going[~ended]]
                )
            active = active[moving[moved]]
            active = active[~arrived[active]]
        log_marginal = values + self.factor.log_volume(numbers)
        log_marginal += 0.5 * len(self.field) * np.log(2 * np.pi)
        log_marginal[~arrived] = -np.inf
        return Modes(points[:, self.field], numbers, log_marginal)

    def _newton(
        self, points: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[Any]]:
        """Return Newton's steps, what they promise, and the factors of positive precisions.

        Where a precision is not positive, something is added to its diagonal for the step.
        """
        given = slopes[:, self.field]
        step, factors = np.zeros_like(given), []
        for number, values in enumerate(self._second_derivatives(points, slopes)):
            matrix = self.factor.matrix(self._rows, self._columns, values)
            factors.append(self.factor.factorize(matrix))
            found, damping = factors[-1], iter(DAMPING)
            while found is None and (share := next(damping, None)) is not None:
                diagonal = np.abs(matrix.diagonal())
                more = share * np.maximum(diagonal, 1e-3 * diagonal.max())
                found = self.factor.factorize((matrix + scipy.sparse.diags(more)).tocsc())
            if found is not None:
                step[number] = self.factor.solve(found, given[number])
        return step, 0.5 * (given * step).sum(axis=1), factors

    def _follow(
        self,
        points: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray,
        active: np.ndarray,
        numbers: np.ndarray,
        gain: np.ndarray,
    ) -> None:
        """Take more steps with the same factors, in place, as long as they come closer quickly.

        A step takes one gradient, and a matrix of second derivatives as many as there are colors.
        """
        for _ in range(MOST_FOLLOWING):
            given = slopes[np.ix_(active, self.field)]
            step = self.factor.solve_by(numbers, given)
            promised = 0.5 * (given * step).sum(axis=1)
            closer = (promised < CLOSER * gain) & (promised > FOLLOWED * SMALLEST_GAIN)
            if not closer.any():
                break
            trial = points[active[closer]]
            trial[:, self.field] += step[closer]
            new_values, new_slopes = self.evaluate(trial)
            better = new_values > values[active[closer]] - SMALLEST_GAIN
            left = np.flatnonzero(closer)[better]
            active, numbers, gain = active[left], numbers[left], promised[left]
            points[active], values[active] = trial[better], new_values[better]
            slopes[active] = new_slopes[better]

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, and gradients of which only those in the field are right."""
        if self._alone is None:
            self.count(len(points))
            return self.view(points)
        values, slopes = self._evaluate_fields(points, points[:, None, self.field])
        gradients = np.zeros_like(points)
        gradients[:, self.field] = slopes[:, 0]
        return values[:, 0], gradients

    def _evaluate_fields(
        self, points: np.ndarray, fields: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return values and slopes of many fields at each point: (size, fields, field)."""
        self.count(fields.shape[0] * fields.shape[1])
        if self._alone is not None:
            values, slopes = self._alone(points, fields)
            return values + self.view.target.path.log_normalizer, slopes
        spread = np.repeat(points, fields.shape[1], axis=0)
        spread[:, self.field] = fields.reshape(len(spread), -1)
        values, gradients = self.view(spread)
        return values.reshape(fields.shape[:2]), gradients[:, self.field].reshape(fields.shape)

    def _second_derivatives(self, points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return minus the second derivatives at points, (size, places of the pattern)."""
        size, colors = len(points), self.colors
        step = self.step
        values = np.empty((size, len(self._rows)))
        group = max(1, LARGEST // (size * points.shape[1]))
        for first in range(0, colors, group):
            some = np.arange(first, min(first + group, colors))
            shifted = np.repeat(points[:, None, self.field], len(some), axis=1)
            for place, color in enumerate(some):
                own = self._color == color
                shifted[:, place, own] += step[own]
            change = self._evaluate_fields(points, shifted)[1] - slopes[:, None, self.field]
            mine = np.isin(self._color[self._columns], some)
            rows, columns = self._rows[mine], self._columns[mine]
            number = self._color[columns] - first
            values[:, mine] = -change[:, number, rows] / step[columns]
        return values[:, self._source]

    def _find_pattern(self, points: np.ndarray) -> np.ndarray:
        """Return which coordinates of the field depend on each other at some of the points."""
        size = len(self.field)
        pattern = np.eye(size, dtype=bool)
        tried, most = 0, PATTERN_POINTS if size <= MANY else 1
        for point in points:
            value, slope = self.evaluate(point[None])
            if not np.isfinite(value[0]):
                continue
            change = self.hessian(point, slope[0, self.field])
            diagonal = np.sqrt(np.abs(np.diag(change)))
            with np.errstate(all="ignore"):
                share = np.abs(change) / np.maximum(np.outer(diagonal, diagonal), 1e-300)
            pattern |= np.isfinite(share) & (share > NEGLIGIBLE)
            tried += 1
            if tried == most:
                break
        return pattern | pattern.T


def _color(pattern: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Return colors of coordinates so that those of one color have no neighbour in common.

    Common coordinates, which most others depend on, have colors of their own and do not count.
    """
    links = pattern[~common].astype(np.float32)
    near = links.T @ links > 0
    color = np.full(len(pattern), -1)
    for coordinate in np.flatnonzero(~common):
        taken = set(color[near[coordinate]].tolist())
        number = 0
        while number in taken:
            number += 1
        color[coordinate] = number
    color[common] = color.max() + 1 + np.arange(common.sum())
    return color
