"""Fits a reference to a posterior with a Gaussian field.

Laplace's method integrates the field out, for any values of its parameters. What is left is a
density of few variables: its mode is found, how far its mass reaches on each side, and points
all over it; smooth functions through the conditional modes and covariances there make the view
(:mod:`view`).
"""

from itertools import combinations_with_replacement

import numpy as np

from pymc_arm.errors import PathError
from pymc_arm.models.fields.choose import FEWEST, find_field
from pymc_arm.models.fields.conditional import Conditional
from pymc_arm.models.fields.scaled import ScaledConditional
from pymc_arm.models.fields.target import LargeFieldError, Modes
from pymc_arm.models.fields.view import FieldMap, FieldView
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.optimize import maximize
from pymc_arm.models.reference.target import SharedTarget, View

__all__ = ["COMPARED", "Marginal", "fit_field_view"]

PRIOR_DRAWS = 200
# Parameters that are looked at before the best of them climb.
LOOKED_AT, CLIMBING, CLIMB_STEPS, NEAR = 24, 3, 15, 2.0
# The longest step of a climb, in prior widths: where the density hardly changes, for a scale near
# zero, say, it would go to where no digit is left.
LONGEST = 2.0
# Modes this far below the highest, in nats, do not matter; between two of them the density falls
# by more than this at one of so many places.
RIVAL, VALLEY, BETWEEN = 12.0, 0.5, 7
# The step of differences in the parameters, in prior widths.
DIFFERENCE = 1e-3
# Shares of prior widths that are tried as widths of the posterior.
WIDTHS = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
# Rounds of points around the mode that a parabola is fitted to; for each coefficient so many
# points, this much wider than the posterior seems.
ROUNDS, POINTS_EACH, SPREAD = 2, 2.5, 1.6
# Points this far below the mode, in nats, say nothing about it.
LOWEST = 20.0
# Where the mass ends, in nats below the mode, and how it is followed: in so many rounds points of
# the outer part are moved outwards by this factor, as long as that finds more. The logarithm of a
# scale that may be zero has an exponential tail, and two of them a bent one: with four standard
# deviations on each side log Z of a random walk with noise was 0.02 low, two of its errors.
END, EXPANSIONS, OUTWARDS, OUTER = 12.0, 8, 1.5, 1.5
# Points that the functions go through, by the number of parameters, and how many are moved outwards
# in a round.
NODES, MOVED = (20, 50, 90, 120, 140), (4, 12, 20, 24, 24)
# Of three parameters or more there are up to so many times as many, as long as nodes times numbers
# of a factor stay below this: crossed effects with four scales (22 coordinates, 253 numbers) had
# 33, 54 and 71 % effective draws with once, twice and four times as many, in 2.4 to 3.6 CPU s.
MORE, LIGHT = 4, 120_000
# Tails are marked by points that are this far out, not more than so many nats below the mode, and
# this far from each other; at most so many.
FAR, TALL, APART, MOST_TAILS = 3.0, 8.0, 0.7, 8
# Points nearer to each other than this tell nothing new, and make the equations singular.
CLOSEST = 0.05
# Where functions of the parameters differ from exact values by more than this, in nats of the
# log-density of a field, in the median over so many draws, they go through further points, as long
# as their coefficients are no more than these: a draw takes as many multiplications. (Regression
# with two random walks, 2272 coordinates and three scales: 31 % effective draws before, 51 after.)
DIFFERENT_DENSITY, COMPARED, LARGEST = 0.15, 24, 4_000_000
# Prior draws of the field that Newton's method starts at, where the parameters are likely.
MODE_STARTS = 8
# Modes from elsewhere that are further away than this, in squares of standard deviations, are
# other modes.
DIFFERENT = 0.1


def fit_field_view(
    path: GenericPath, target: SharedTarget, rng: np.random.Generator, fewest: int = FEWEST
) -> tuple[FieldView, "Marginal"] | None:
    """Return the view of a model with a Gaussian field, or None if it has none.

    Also the density of the parameters. Whitened parameters are about standard normal in the view.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    target
        Its target.
    rng
        For where parameters are looked at.
    fewest
        The smallest number of coordinates of a field.

    Raises
    ------
    PathError
        If there is a field, but no mode given its parameters, or none of these.
    """
    prior = path.plan.layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
    prior = prior[np.isfinite(prior).all(axis=1)]
    field = find_field(path, prior, fewest)
    if not len(field):
        return None
    inner = target.view()
    inside = inner.from_model(prior)[0]
    inside = inside[np.isfinite(inside).all(axis=1)]
    conditional = _make_conditional(inner, field, inside)
    marginal = Marginal(conditional)
    near = inner.near_zero(rng, LOOKED_AT // 2, NEAR)
    mode = marginal.climb(np.concatenate([inside[: LOOKED_AT // 2], near]))
    _check_mode(conditional, marginal, mode, inside)
    mean, factor = marginal.survey(rng, mode)
    field_map = marginal.interpolate(rng, mean, factor)
    return FieldView(target, field_map), marginal


def _make_conditional(
    view: View, field: np.ndarray, prior: np.ndarray
) -> Conditional | ScaledConditional:
    try:
        return Conditional(view, field, prior)
    except LargeFieldError:
        return ScaledConditional(view, field, prior)


class Marginal:
    """The density of the parameters, with the field integrated out by Laplace's method.

    It keeps what was found: a mode nearby is the best start of Newton's method.
    """

    def __init__(self, conditional: Conditional | ScaledConditional) -> None:
        self.conditional = conditional
        self.scale = conditional.scale[conditional.parameters]
        self._found: list[tuple[np.ndarray, Modes]] = []

    def values(self, parameters: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Return log f with the field integrated out."""
        known = None
        if start is None:
            start, known = self._nearest(parameters)
        found = self.conditional.find_modes(parameters, start, known)
        good = np.isfinite(found.log_marginal)
        if good.any():
            self._found.append((parameters[good], found.select(good)))
        return found.log_marginal

    def __call__(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, and gradients by differences."""
        size, count = parameters.shape
        step = DIFFERENCE * self.scale
        # First those in the middle: their modes and factors are about those of the others.
        middle = self.values(parameters)
        shifts = np.concatenate([np.diag(step), -np.diag(step)])
        values = self.values((parameters[None] + shifts[:, None]).reshape(-1, count))
        values = values.reshape(-1, size)
        with np.errstate(invalid="ignore"):
            slopes = (values[:count] - values[count:]).T / (2 * step)
        wrong = ~np.isfinite(slopes).all(axis=1)
        slopes[wrong] = 0.0
        return np.where(wrong, -np.inf, middle), slopes

    def mode_at(self, parameters: np.ndarray) -> np.ndarray:
        """Return the mode that is known at or near parameters."""
        return self._nearest(parameters[None])[0][0]

    def climb(self, points: np.ndarray) -> np.ndarray:
        """Return the highest parameters that are found from some points of the view.

        Raises
        ------
        PathError
            If there is none, or another one of about the same height elsewhere.
        """
        starts = points[:, self.conditional.parameters]
        values = self.values(starts, points[:, self.conditional.field])
        if not np.isfinite(values).any():
            raise PathError("No prior draw of the parameters of a field has a conditional mode.")
        best = np.argsort(-values)[:CLIMBING]
        climbing = starts[best[np.isfinite(values[best])]]
        self._recenter(climbing[0])
        ended = maximize(self, climbing, self.scale, CLIMB_STEPS, LONGEST)
        top = int(np.argmax(ended.values))
        # A climb that ended on the way is no other mode: the density falls nowhere between.
        rivals = np.flatnonzero(ended.values > ended.values[top] - RIVAL)
        shares = np.linspace(0.0, 1.0, BETWEEN)[1:-1, None]
        for rival in rivals[rivals != top]:
            line = ended.points[rival] + shares * (ended.points[top] - ended.points[rival])
            if self.values(line).min() < ended.values[rival] - VALLEY:
                raise PathError("The parameters of a field have more than one mode.")
        self._recenter(ended.points[top])
        return ended.points[top]

    def _recenter(self, parameters: np.ndarray) -> None:
        """Take what a large field has in common for all parameters from here."""
        if isinstance(self.conditional, ScaledConditional):
            mode = self.mode_at(parameters)
            self.conditional.recenter(self.conditional.join(parameters[None], mode[None])[0])
            self._found.clear()
            self.values(parameters[None], mode[None])

    def survey(self, rng: np.random.Generator, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and factor of a Gaussian, from a parabola through points around a mode."""
        count = len(mode)
        center, factor = mode, np.diag(self._widths(mode))
        pairs = combinations_with_replacement(range(count), 2)
        powers = [(), *((number,) for number in range(count)), *pairs]
        for _ in range(ROUNDS):
            noise = SPREAD * rng.normal(size=(int(POINTS_EACH * len(powers)) + 4, count))
            values = self.values(center + noise @ factor.T)
            top = values.max()
            good = values > top - LOWEST
            if good.sum() < len(powers) + 1:
                factor = 0.4 * factor
                continue
            design = np.stack([np.prod(noise[good][:, list(p)], axis=1) for p in powers], axis=1)
            weights = np.exp(0.25 * (values[good] - top)) + 1e-3
            fitted = np.linalg.lstsq(
                design * weights[:, None], (values[good] - top) * weights, rcond=None
            )[0]
            slope, curvature = np.zeros(count), np.zeros((count, count))
            for power, coefficient in zip(powers, fitted, strict=True):
                if len(power) == 1:
                    slope[power[0]] = coefficient
                elif len(power) == 2:
                    curvature[power] -= coefficient
                    curvature[power[::-1]] -= coefficient
            found, vectors = np.linalg.eigh(curvature)
            # No direction grows or shrinks by more than this in one round.
            found = np.clip(found, 0.1, 25.0)
            shift = vectors @ ((vectors.T @ slope) / found)
            shift *= min(1.0, SPREAD * np.sqrt(count) / max(np.linalg.norm(shift), 1e-300))
            center = center + factor @ shift
            factor = factor @ (vectors * found**-0.5)
        return center, factor

    def interpolate(
        self, rng: np.random.Generator, mean: np.ndarray, factor: np.ndarray
    ) -> FieldMap:
        """Return functions through the modes and covariances all over the mass."""
        conditional, count = self.conditional, len(mean)
        kind = min(count, len(NODES)) - 1
        times = 1 if count < 3 else LIGHT // (NODES[kind] * conditional.factor.count)
        times = int(np.clip(times, 1, MORE))
        nodes, most_moved = times * NODES[kind], times * MOVED[kind]
        self.values(mean + SPREAD * rng.normal(size=(nodes, count)) @ factor.T)
        for _ in range(EXPANSIONS):
            whitened, values = self._whitened(mean, factor)
            outer = (values > values.max() - END) & (np.linalg.norm(whitened, axis=1) > OUTER)
            moved = whitened[rng.permutation(np.flatnonzero(outer))] * OUTWARDS
            moved *= np.exp(0.1 * rng.normal(size=moved.shape))
            known = np.arcsinh(np.concatenate([whitened, moved]))
            fresh = [number - len(whitened) for number in _distinct(known, len(known), 2 * CLOSEST)]
            moved = moved[[number for number in fresh if number >= 0][:most_moved]]
            if (
                not len(moved)
                or not (self.values(mean + moved @ factor.T) > values.max() - END).any()
            ):
                break
        return self._go_through(mean, factor, 2 * nodes)

    def improve(self, rng: np.random.Generator, old: FieldMap, draws: np.ndarray) -> FieldMap:
        """Return functions that go through more points, unless these are near exact values already.

        Parameters
        ----------
        rng
            For the draws of fields that functions and exact values are compared by.
        old
            The functions.
        draws
            Where the parameters are likely, whitened, in random order.
        """
        most = LARGEST // old.coefficients.shape[1] - len(old.nodes)
        some, more = np.split(draws[: max(most, 0)], [COMPARED])
        if not len(more) or self._differ(rng, old, some) < DIFFERENT_DENSITY:
            return old
        self._find(old, more)
        return self._go_through(old.center, old.whitener, len(old.nodes) + len(draws))

    def _differ(self, rng: np.random.Generator, field_map: FieldMap, whitened: np.ndarray) -> float:
        """Return by how much log-densities of fields given parameters are off, in the median."""
        factor = field_map.factor
        exact, (modes, numbers) = self._find(field_map, whitened), field_map.at(whitened)
        noise = rng.normal(size=modes.shape)
        offsets = modes + factor.spread(numbers, noise) - exact.points
        seen = factor.gather(exact.numbers, offsets)
        difference = 0.5 * ((noise**2).sum(axis=1) - (seen**2).sum(axis=1))
        difference += factor.log_volume(numbers) - factor.log_volume(exact.numbers)
        difference = difference[np.isfinite(exact.log_marginal)]
        return float(np.median(np.abs(difference))) if len(difference) else 0.0

    def _find(self, field_map: FieldMap, whitened: np.ndarray) -> Modes:
        """Return the modes at whitened parameters, and keep them."""
        parameters = field_map.center + whitened @ field_map.whitener.T
        modes, numbers = field_map.at(whitened)
        found = self.conditional.find_modes(parameters, modes, numbers)
        good = np.isfinite(found.log_marginal)
        self._found.append((parameters[good], found.select(good)))
        return found

    def _go_through(self, mean: np.ndarray, factor: np.ndarray, most: int) -> FieldMap:
        """Return functions through at most so many of the points that were looked at."""
        conditional = self.conditional
        whitened, values = self._whitened(mean, factor)
        inside = values > values.max() - END
        low, high = whitened[inside].min(axis=0), whitened[inside].max(axis=0)
        # The last ones are far out; earlier ones may lie on top of each other.
        chosen = np.flatnonzero(values > values.max() - LOWEST)[::-1]
        chosen = chosen[_distinct(np.arcsinh(whitened[chosen]), most, CLOSEST)]
        modes = np.concatenate([m.points for _, m in self._found])[chosen]
        numbers = np.concatenate([m.numbers for _, m in self._found])[chosen]
        return FieldMap.through(
            whitened[chosen],
            np.concatenate([modes, numbers], axis=1),
            low,
            high,
            field=conditional.field,
            parameters=conditional.parameters,
            factor=conditional.factor,
            center=mean,
            whitener=factor,
            tails=_tails(whitened, values),
        )

    def _whitened(self, mean: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all parameters that were looked at, whitened, and their values."""
        parameters = np.concatenate([each for each, _ in self._found])
        values = np.concatenate([modes.log_marginal for _, modes in self._found])
        return np.linalg.solve(factor, (parameters - mean).T).T, values

    def _widths(self, mode: np.ndarray) -> np.ndarray:
        """Return how far along each parameter the density falls by about half a nat."""
        count, number = len(mode), len(WIDTHS)
        steps = np.concatenate([WIDTHS, -WIDTHS])[:, None, None] * np.diag(self.scale)
        values = self.values(np.concatenate([mode[None], (mode + steps).reshape(-1, count)]))
        fall = values[0] - values[1:].reshape(2, number, count)
        fall = np.nan_to_num(fall, nan=np.inf).mean(axis=0)
        # Of a parabola the square root of the fall is proportional to the step.
        near = np.argmin(np.abs(np.log(np.clip(fall, 1e-3, 1e6))), axis=0)
        chosen = np.clip(fall[near, np.arange(count)], 0.02, 50.0)
        return np.asarray(WIDTHS[near] * self.scale / np.sqrt(2 * chosen))

    def _nearest(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the modes at the nearest known parameters, and the numbers of their factors."""
        known = np.concatenate([each for each, _ in self._found]) / self.scale
        distances = ((parameters / self.scale)[:, None] - known[None]) ** 2
        nearest = np.argmin(distances.sum(axis=2), axis=1)
        modes = np.concatenate([modes.points for _, modes in self._found])
        numbers = np.concatenate([modes.numbers for _, modes in self._found])
        return modes[nearest], numbers[nearest]


def _distinct(points: np.ndarray, most: int, closest: float) -> list[int]:
    """Return points that are not on top of earlier ones, at most so many."""
    kept: list[int] = []
    for number, point in enumerate(points):
        distances = ((points[kept] - point) ** 2).sum(axis=1)
        if not len(kept) or distances.min() > closest**2:
            kept.append(number)
        if len(kept) == most:
            break
    return kept


def _tails(whitened: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return points that are far out and still within the mass, far from each other."""
    far = (values > values.max() - TALL) & (np.linalg.norm(whitened, axis=1) > FAR)
    points = whitened[far]
    points = points[np.argsort(-np.linalg.norm(points, axis=1))]
    return points[_distinct(np.arcsinh(points), MOST_TAILS, APART)]


def _check_mode(
    conditional: Conditional | ScaledConditional,
    marginal: Marginal,
    mode: np.ndarray,
    prior: np.ndarray,
) -> None:
    """Raise a PathError if Newton's method finds other modes of the field from prior draws."""
    starts = prior[:MODE_STARTS, conditional.field]
    same = np.tile(mode, (len(starts), 1))
    found = conditional.find_modes(same, starts)
    found = found.select(np.isfinite(found.log_marginal))
    own = conditional.find_modes(mode[None], marginal.mode_at(mode)[None])
    offsets = found.points - own.points
    numbers = np.repeat(own.numbers, len(offsets), axis=0)
    away = (conditional.factor.gather(numbers, offsets) ** 2).sum(axis=1)
    if (away > DIFFERENT).any():
        raise PathError("A field has more than one mode given its parameters.")
