"""The conditional distribution of a field given its parameters, by Newton's method.

Second derivatives are differences of gradients. Which of them are not zero is found by trying;
coordinates that share no neighbour are shifted together, so that a random walk of any length takes
three gradients. All rows, each with parameters of its own, go at once, and those that have arrived
stay behind.
"""

from dataclasses import dataclass

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.fields.factors import BandFactor, MatrixFactor, choose_factor
from pymc_arm.models.reference.target import View

__all__ = ["Conditional", "Modes"]

# The step of the differences, in standard deviations of the prior: as in Laplace's method.
DIFFERENCE = 1e-4
# A second derivative smaller than this share of those on the diagonal is rounding.
NEGLIGIBLE = 1e-7
# Points at which the pattern of second derivatives is looked for.
PATTERN_POINTS = 2
# Newton's steps: five are usual. It has arrived if another step would gain less, in nats: what is
# left is smooth in the parameters then.
STEPS, SMALLEST_GAIN = 40, 1e-9
# What a step may promise in vain, by rounding of log f.
ROUNDING = 1e-5
# How often a step is halved, and what is added to a precision that is not positive definite, in
# units of its diagonal.
HALVINGS = 12
DAMPING = (1e-3, 1e-1, 1.0, 10.0, 1e3)
# Elements of the points that are evaluated at once.
LARGEST = 4_000_000


@dataclass(frozen=True)
class Modes:
    """Of each row: the conditional mode, its precision, and log f with the field integrated out.

    That is Laplace's approximation, -inf where no mode was found.
    """

    points: np.ndarray
    precisions: np.ndarray
    log_marginal: np.ndarray


class Conditional:
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
        self.view, self.field = view, field
        self.parameters = np.setdiff1d(np.arange(prior.shape[1]), field)
        low, high = np.quantile(prior, [0.16, 0.84], axis=0)
        self.scale = np.clip(0.5 * (high - low), 1e-8, 1e8)
        self.evaluations = 0
        pattern = self._find_pattern(prior)
        factor = choose_factor(pattern)
        if factor is None:
            raise PathError(f"{len(field)} coordinates of a field depend on too many others.")
        self.factor: BandFactor | MatrixFactor = factor
        self._rows, self._columns = np.nonzero(pattern)
        self._color = _color(pattern)

    @property
    def colors(self) -> int:
        """How many gradients a matrix of second derivatives takes."""
        return int(self._color.max()) + 1

    def join(self, parameters: np.ndarray, field: np.ndarray) -> np.ndarray:
        """Return points of the view."""
        points = np.empty((len(parameters), len(self.parameters) + len(self.field)))
        points[:, self.parameters], points[:, self.field] = parameters, field
        return points

    def find_modes(self, parameters: np.ndarray, start: np.ndarray) -> Modes:
        """Climb from a start for each row.

        Parameters
        ----------
        parameters
            (size, parameters)
        start
            Of the field, (size, field).
        """
        points = self.join(parameters, start)
        values, slopes = self._evaluate(points)
        arrived = np.zeros(len(points), dtype=bool)
        precisions = np.zeros((len(points), *self._shape))
        active = np.flatnonzero(np.isfinite(values))
        for _ in range(STEPS):
            if not len(active):
                break
            found = self._precisions(points[active], slopes[active])
            step, good = self._solve(found, slopes[active][:, self.field])
            precisions[active] = found
            gain = 0.5 * (slopes[active][:, self.field] * step).sum(axis=1)
            there = good & (gain < SMALLEST_GAIN)
            arrived[active[there]] = True
            moving = ~there & np.isfinite(gain) & (gain > 0)
            active, step = active[moving], step[moving]
            if not len(active):
                break
            moved = self._search(points, values, slopes, active, step)
            # Those that gain nothing are at the end of their digits, or lost.
            arrived[active[~moved & (gain[moving] < ROUNDING)]] = True
            active = active[moved]
        determined = arrived & np.isfinite(values)
        log_marginal = np.full(len(points), -np.inf)
        if determined.any():
            numbers = self.factor.pack(precisions[determined])
            constant = 0.5 * len(self.field) * np.log(2 * np.pi)
            volume = self.factor.log_volume(numbers)
            log_marginal[determined] = values[determined] + volume + constant
        return Modes(points[:, self.field], precisions, log_marginal)

    def _search(
        self,
        points: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray,
        active: np.ndarray,
        step: np.ndarray,
    ) -> np.ndarray:
        """Go along the steps as far as that gains anything, in place; return which rows moved."""
        length, waiting = 1.0, np.arange(len(active))
        for _ in range(HALVINGS):
            trial = points[active[waiting]]
            trial[:, self.field] += length * step[waiting]
            new_values, new_slopes = self._evaluate(trial)
            better = new_values > values[active[waiting]]
            rows = active[waiting[better]]
            points[rows], values[rows] = trial[better], new_values[better]
            slopes[rows] = new_slopes[better]
            waiting = waiting[~better]
            length *= 0.4
            if not len(waiting):
                break
        result = np.ones(len(active), dtype=bool)
        result[waiting] = False
        return result

    @property
    def _shape(self) -> tuple[int, ...]:
        factor = self.factor
        return (factor.width + 1 if isinstance(factor, BandFactor) else factor.size, factor.size)

    def _solve(self, precisions: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Newton's steps, of precisions that were made positive definite in place."""
        step, good = self.factor.solve(precisions, slopes)
        first = good.copy()
        for damping in DAMPING:
            rows = np.flatnonzero(~good)
            if not len(rows):
                break
            damped = precisions[rows]
            diagonal = self.factor.diagonal_of(damped)
            size = np.abs(diagonal).max(axis=1, keepdims=True)
            diagonal += damping * np.maximum(np.abs(diagonal), 1e-3 * size)
            step[rows], good[rows] = self.factor.solve(damped, slopes[rows])
        step[~good] = 0.0
        return step, first

    def _evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.evaluations += len(points)
        return self.view(points)

    def _precisions(self, points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return minus the second derivatives at points, as the factor stores them."""
        size, colors = len(points), self.colors
        step = DIFFERENCE * self.scale[self.field]
        values = np.empty((size, len(self._rows)))
        group = max(1, LARGEST // (size * points.shape[1]))
        for first in range(0, colors, group):
            some = np.arange(first, min(first + group, colors))
            shifted = np.repeat(points[None], len(some), axis=0)
            for number, color in enumerate(some):
                own = self._color == color
                shifted[number][:, self.field[own]] += step[own]
            moved = self._evaluate(shifted.reshape(-1, points.shape[1]))[1]
            change = moved.reshape(len(some), size, -1)[:, :, self.field] - slopes[:, self.field]
            mine = np.isin(self._color[self._columns], some)
            rows, columns = self._rows[mine], self._columns[mine]
            number = self._color[columns] - first
            values[:, mine] = -(change[number, :, rows] / step[columns][:, None]).T
        return self.factor.fill(self._rows, self._columns, values)

    def _find_pattern(self, prior: np.ndarray) -> np.ndarray:
        """Return which coordinates of the field depend on each other given the parameters."""
        size = len(self.field)
        pattern = np.eye(size, dtype=bool)
        tried = 0
        for point in prior:
            value, slope = self._evaluate(point[None])
            if not np.isfinite(value[0]):
                continue
            step = DIFFERENCE * self.scale[self.field]
            change = np.empty((size, size))
            rows = max(1, LARGEST // len(point))
            for first in range(0, size, rows):
                own = np.arange(first, min(first + rows, size))
                shifted = np.tile(point, (len(own), 1))
                shifted[np.arange(len(own)), self.field[own]] += step[own]
                moved = self._evaluate(shifted)[1][:, self.field]
                change[own] = (moved - slope[:, self.field]) / step[own, None]
            diagonal = np.sqrt(np.abs(np.diag(change)))
            with np.errstate(all="ignore"):
                share = np.abs(change) / np.maximum(np.outer(diagonal, diagonal), 1e-300)
            pattern |= np.isfinite(share) & (share > NEGLIGIBLE)
            tried += 1
            if tried == PATTERN_POINTS:
                break
        if not tried:
            raise PathError("No prior draw of a field has a gradient.")
        return pattern | pattern.T


def _color(pattern: np.ndarray) -> np.ndarray:
    """Return colors of coordinates so that those of one color have no neighbour in common."""
    if pattern.mean() > 0.5:
        return np.arange(len(pattern))
    links = pattern.astype(np.float32)
    near = links @ links > 0
    color = np.full(len(pattern), -1)
    for coordinate in range(len(pattern)):
        taken = set(color[near[coordinate]].tolist())
        number = 0
        while number in taken:
            number += 1
        color[coordinate] = number
    return color
