"""Fields whose factor is too large to be a function of the parameters, element by element.

Crossed effects of 700 subjects and 800 items have a factor of 300,000 elements: the effects of the
one depend on each other through those of the other. But what changes with the parameters is how
wide each effect is, much more than how they hang together. So the precision is taken as E C E, with
the C of one place, and a diagonal E that is a function of the parameters: its elements are second
derivatives, and those of effects that do not meet in a term are found together, with one gradient
for all subjects and one for all items.

Any E and C leave log Z as it is (:mod:`view`). With 1560 effects of 46,861 rows, 1.5 standard
deviations from where C was taken, the log-weights of draws varied no more than with the exact
factor, and a step with E C E left a thousandth of what was to be gained.
"""

import numpy as np
import scipy

from pymc_arm.errors import PathError
from pymc_arm.models.fields.target import FieldTarget, Modes
from pymc_arm.models.reference.target import View

__all__ = ["ScaledConditional", "ScaledFactor"]

# A matrix of so many rows is 128 MB.
LARGEST_SIZE = 4000
# More kinds of coordinates than this, none of which meets another one of its kind: the field is
# dense, and how its coordinates hang together changes with the parameters.
MOST_COLORS = 8
# A second derivative smaller than this share of those on the diagonal is rounding.
NEGLIGIBLE = 1e-7
# Points near zero that are tried for the first C, and how far they are from it.
POINTS, NEAR = 8, 0.5
# What is added to a precision that is not positive definite, in units of its diagonal.
DAMPING = (0.0, 1e-3, 1e-1, 1.0, 10.0)
# Steps, and after how many of them E is taken anew; five or six are usual near the place of C. Rows
# have arrived where another one would gain less, in nats, or no more than rounding.
STEPS, RENEWED, SMALLEST_GAIN, ROUNDING = 40, 6, 1e-8, 1e-5
# Elements of the density at all draws that are held at once.
ROWS = 256


class ScaledFactor:
    """Turns standard normal numbers into those with a precision E C E, and back.

    ``numbers`` are the logarithms of the diagonal of E, (size, field).

    Parameters
    ----------
    lower
        The lower triangular factor of C.
    """

    def __init__(self, lower: np.ndarray) -> None:
        self._lower = np.asfortranarray(lower)
        self._log_diagonal = float(np.log(np.diag(lower)).sum())
        self.size = self.count = len(lower)

    def log_volume(self, numbers: np.ndarray) -> np.ndarray:
        """Return log |dx / du|."""
        return np.asarray(-numbers.sum(axis=1) - self._log_diagonal)

    def spread(self, numbers: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return x from u."""
        return self._solve(noise, transposed=True) * np.exp(-numbers)

    def gather(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u from x."""
        return np.asarray((offsets * np.exp(numbers)) @ self._lower)

    def pull_back(
        self, numbers: np.ndarray, noise: np.ndarray, offsets: np.ndarray, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients in u and in the numbers, of log f + log |dx / du|.

        ``slopes`` are those in x, and ``offsets`` is x.
        """
        to_noise = self._solve(slopes * np.exp(-numbers), transposed=False)
        return to_noise, -slopes * offsets - 1.0

    def solve_by(self, numbers: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return precision^-1 right of rows, each with numbers of its own."""
        return self.spread(numbers, self._solve(right * np.exp(-numbers), transposed=False))

    def _solve(self, rows: np.ndarray, *, transposed: bool) -> np.ndarray:
        solve = scipy.linalg.solve_triangular
        return np.asarray(
            solve(self._lower, rows.T, trans=int(transposed), lower=True, check_finite=False).T
        )


class ScaledConditional(FieldTarget):
    """Finds modes of a large field given its parameters, with precisions E C E.

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
        If the field is larger still, or dense.
    """

    factor: ScaledFactor

    def __init__(self, view: View, field: np.ndarray, prior: np.ndarray) -> None:
        super().__init__(view, field, prior)
        if len(field) > LARGEST_SIZE:
            raise PathError(f"A field of {len(field)} coordinates is too large for a matrix.")
        points = view.near_zero(np.random.default_rng(0), POINTS, NEAR)
        possible = np.flatnonzero(np.isfinite(self.evaluate(points)[0]))
        if not len(possible):
            raise PathError("A field is not possible near zero.")
        self.recenter(points[possible[0]])

    def recenter(self, point: np.ndarray) -> None:
        """Take C from the second derivatives at a point of the view.

        Numbers of factors from before are worth nothing afterwards.
        """
        slope = self.evaluate(point[None])[1][0, self.field]
        change = self.hessian(point, slope)
        precision = -0.5 * (change + change.T)
        diagonal = np.abs(np.diag(precision))
        bounds = NEGLIGIBLE * np.sqrt(np.outer(diagonal, diagonal))
        self._color = _color(np.abs(precision) > bounds)
        for share in DAMPING:
            more = precision + share * np.diag(np.maximum(diagonal, 1e-3 * diagonal.max()))
            try:
                self.factor = ScaledFactor(np.linalg.cholesky(more))
            except np.linalg.LinAlgError:
                continue
            self._diagonal = np.diag(more).copy()
            return
        raise PathError("Second derivatives of a field are not finite.")

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
        parts = [slice(first, first + ROWS) for first in range(0, len(parameters), ROWS)]
        found = [
            self._climb(self.join(parameters[p], start[p]), None if known is None else known[p])
            for p in parts
        ]
        points, numbers, values = (np.concatenate(each) for each in zip(*found, strict=True))
        log_marginal = values + self.factor.log_volume(numbers)
        log_marginal += 0.5 * len(self.field) * np.log(2 * np.pi)
        log_marginal[~np.isfinite(log_marginal)] = -np.inf
        return Modes(points[:, self.field], numbers, log_marginal)

    def _climb(
        self, points: np.ndarray, known: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return modes, the numbers there, and log f, -inf where no mode was found."""
        values, slopes = self.evaluate(points)
        numbers = np.zeros((len(points), len(self.field))) if known is None else known.copy()
        arrived, left = np.zeros(len(points), dtype=bool), np.full(len(points), np.inf)
        active = np.flatnonzero(np.isfinite(values))
        for number in range(STEPS):
            if not len(active):
                break
            if number % RENEWED == 0 and (number or known is None):
                numbers[active] = self._measure(points[active], slopes[active])
            given = slopes[np.ix_(active, self.field)]
            step = self.factor.solve_by(numbers[active], given)
            gain = 0.5 * (given * step).sum(axis=1)
            # What does not shrink any more is rounding.
            there = (gain < SMALLEST_GAIN) | ((gain < ROUNDING) & (gain > 0.3 * left[active]))
            left[active] = gain
            moving = np.flatnonzero(~there & np.isfinite(gain))
            moved = self.search(points, values, slopes, active[moving], step[moving])
            there[moving[~moved]] = gain[moving[~moved]] < ROUNDING
            arrived[active[there]] = True
            active = active[moving[moved]]
        if arrived.any():
            numbers[arrived] = self._measure(points[arrived], slopes[arrived])
        return points, numbers, np.where(arrived, values, -np.inf)

    def _measure(self, points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return the numbers from second derivatives, one gradient for each color."""
        second = np.empty((len(points), len(self.field)))
        for color in range(int(self._color.max()) + 1):
            own = np.flatnonzero(self._color == color)
            coordinates, shifted = self.field[own], points.copy()
            shifted[:, coordinates] += self.step[own]
            change = self.evaluate(shifted)[1][:, coordinates] - slopes[:, coordinates]
            second[:, own] = -change / self.step[own]
        second = np.where(second > 0, second, self._diagonal)
        return np.asarray(0.5 * np.log(second / self._diagonal))


def _color(pattern: np.ndarray) -> np.ndarray:
    """Return colors of coordinates so that none has a neighbour of its own color.

    Raises
    ------
    PathError
        If that takes too many.
    """
    color = np.full(len(pattern), -1)
    for coordinate in np.argsort(-pattern.sum(axis=1), kind="stable"):
        taken = color[pattern[coordinate]]
        free = np.setdiff1d(np.arange(MOST_COLORS), taken)
        if not len(free):
            raise PathError("All coordinates of a large field depend on each other.")
        color[coordinate] = free[0]
    return color
