"""The values that a discrete variable can take, by what its density does.

Prior draws show where a variable lives. Beyond the smallest and the largest of them its own prior
term is evaluated, twice as far out each time, with its parents at their draws, until it is zero or
negligible for all of them. Only that term is ever evaluated there: a value outside of the support
may be an index elsewhere in the model, and would raise, or read stray memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_arm.models.density import LogDensity
from pymc_arm.models.search import Conditional
from pymc_arm.models.terms import Layout, VariableSlice

__all__ = ["Support", "find_supports", "inside_only"]

# How far below its value at a prior draw, in nats, a density is negligible.
DEPTH = 30.0
# Elements of the table of draws and coordinates that the density is evaluated at.
LARGEST_TABLE = 50_000
FEWEST_DRAWS = 50
# Draws with the largest, and with the smallest values, that are always among them.
EXTREMES = 25
# How far beyond its draws a density is looked at: the next 16 values, for those that probabilities
# of zero divide, and then twice as far each time, to where operations still tell numbers apart.
FURTHEST = 2**41
STEPS = (*range(1, 16), *(2**power for power in range(4, 41)))
# Far values of an infinite support that are not enumerated: the search finds them by itself.
LARGEST_REACH = 10_000
# Draws, coordinates and values over which the whole mass is added up.
LARGEST_SUM = 100_000
# What the mass may lack of one, and what a value beyond must have to count twice.
INCOMPLETE = 5e-5

# From values of a variable, (draws, coordinates), to its prior log-density at each.
_OwnDensity = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Support:
    """Whole numbers from ``low`` to ``high``, where most of the mass is.

    ``bounded_below`` and ``bounded_above`` say whether there are none beyond, whatever the values
    of other variables are. ``varies`` says whether an end depends on those.
    """

    low: int
    high: int
    bounded_below: bool
    bounded_above: bool
    varies: bool = False

    @property
    def values(self) -> np.ndarray:
        """The values between the ends."""
        return np.arange(self.low, self.high + 1, dtype=float)

    @property
    def count(self) -> int:
        """How many values are between the ends."""
        return self.high - self.low + 1

    @property
    def finite(self) -> bool:
        """Whether there are no other values."""
        return self.bounded_below and self.bounded_above


def find_supports(
    density: LogDensity, x: TensorVariable, layout: Layout, draws: np.ndarray
) -> dict[str, Support]:
    """Return the support of each discrete variable.

    Parameters
    ----------
    density
        The terms, those of the free variables first.
    x
        The vector of coordinates that they are graphs over.
    layout
        The coordinates.
    draws
        Prior draws, (size, dimension).
    """
    supports: dict[str, Support] = {}
    for number, slot in enumerate(layout.slots):
        if not slot.discrete:
            continue
        if not slot.size:
            supports[slot.name] = Support(0, 0, True, True)
            continue
        some = _representatives(draws, slot)
        own = _own_density(*_terms_of(density, x, number, some), slot)
        extremes = {
            coordinate: (supports[other.name].low, supports[other.name].high)
            for other in layout.slots
            if other.name in supports and supports[other.name].finite
            for coordinate in other.coordinates
        }
        supports[slot.name] = _find_support(own, slot, some, extremes)
    return supports


def inside_only(conditional: Conditional, own: Conditional) -> Conditional:
    """Return a conditional that is not evaluated where a variable's ``own`` prior term is zero.

    There the values are replaced by one that is inside, and the result is -inf.
    """

    def guarded(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        inside = own(values, rows) > -np.inf
        some = np.take_along_axis(values, inside.argmax(axis=1)[:, None], axis=1)
        result = np.full(values.shape, -np.inf)
        alive = np.flatnonzero(inside.any(axis=1))
        if len(alive):
            safe = np.where(inside, values, some)[alive]
            result[alive] = np.where(inside[alive], conditional(safe, rows[alive]), -np.inf)
        return result

    return guarded


def _terms_of(
    density: LogDensity, x: TensorVariable, number: int, draws: np.ndarray
) -> tuple[LogDensity, np.ndarray]:
    """Return a density that checks all indices, and the terms in it that are a variable's own."""
    if density.backend == "numpy":
        return density, np.arange(density.offsets[number], density.offsets[number + 1])
    block = density.blocks[number]
    try:
        alone = LogDensity(x, [block], draws, "numpy")
    except Exception as error:  # compilers raise anything: it is noted
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        density.notes.append(f"the support of {block.name} is found with C: {reason}")
        alone = LogDensity(x, [block], draws, "c")
    return alone, np.arange(alone.count)


def _representatives(draws: np.ndarray, slot: VariableSlice) -> np.ndarray:
    """Return as many draws as can be afforded, those with extreme values among them."""
    # Without terms of its own a coordinate takes as long as all.
    times = 1 if slot.elementwise else slot.size
    count = int(np.clip(LARGEST_TABLE // (slot.size * times), FEWEST_DRAWS, len(draws)))
    own = draws[:, list(slot.coordinates)]
    highest, lowest = np.argsort(-own.max(axis=1)), np.argsort(own.min(axis=1))
    chosen = np.concatenate([highest[:EXTREMES], lowest[:EXTREMES], np.arange(count)])
    return draws[np.unique(chosen)]


def _own_density(density: LogDensity, terms: np.ndarray, slot: VariableSlice) -> _OwnDensity:
    """Return the function from points and values of a variable to its log-density.

    Where it is elementwise, all coordinates are set at once; else one after the other, and what
    the others are then is left as it was drawn.
    """
    columns = np.array(slot.coordinates)
    together = slot.elementwise and len(terms) % slot.size == 0

    def evaluate(points: np.ndarray, values: np.ndarray) -> np.ndarray:
        points = points.copy()
        if together:
            points[:, columns] = values
            found = density.terms(points, terms)
            return found.reshape(len(points), -1, slot.size).sum(axis=1)
        result = np.empty(values.shape)
        for place, column in enumerate(columns):
            before = points[:, column].copy()
            points[:, column] = values[:, place]
            result[:, place] = density.terms(points, terms).sum(axis=1)
            points[:, column] = before
        return result

    def own(points: np.ndarray, values: np.ndarray) -> np.ndarray:
        try:
            with np.errstate(all="ignore"):
                found = evaluate(points, values)
        except (IndexError, ValueError):  # a value that is no index is outside
            return np.full(values.shape, -np.inf)
        return np.where(np.isfinite(found), found, -np.inf)

    return own


def _find_support(
    own: _OwnDensity,
    slot: VariableSlice,
    draws: np.ndarray,
    extremes: Mapping[int, tuple[int, int]],
) -> Support:
    """Return the support of one variable, given the extreme values of its finite parents."""
    columns = list(slot.coordinates)
    drawn = draws[:, columns]
    low, high = int(drawn.min()), int(drawn.max())
    complete = _is_complete(own, draws, drawn, low, high)
    ends, bounded, varies = [], [], False
    for side, end in ((-1, low), (1, high)):
        far, inside, outside = _reach(own, draws, drawn, side, end, complete)
        closed = outside is not None
        if outside is not None:
            last = _last_values(own, draws, inside, side, outside)
            fixed = bool((last == last[:1]).all())
            far = int((side * last).max()) * side
            if not fixed:
                varies = True
                if extremes or not slot.elementwise:  # or by other states of the same chain
                    closed = _by_finite_parents(own, draws, drawn, side, last, extremes, columns)
                else:
                    closed = False
                if closed:
                    far = _with_extreme_parents(own, draws, side, far, extremes, columns)
        ends.append(far if closed else end + side * min(side * (far - end), LARGEST_REACH))
        bounded.append(closed)
    if not slot.elementwise and _counts_from_the_end(own, draws, drawn, ends[0], ends[1]):
        ends[0] = 0
    return Support(ends[0], ends[1], bounded[0], bounded[1], varies)


def _counts_from_the_end(
    own: _OwnDensity, draws: np.ndarray, drawn: np.ndarray, low: int, high: int
) -> bool:
    """Whether values below zero are those from zero on once more: indices of a table.

    Steps of a chain say nothing of how much mass a state has, so values are compared.
    """
    if low != -high - 1 or low >= 0:
        return False
    for value in range(low, 0):
        below = own(draws, np.full(drawn.shape, float(value)))
        same = below == own(draws, np.full(drawn.shape, float(value + high + 1)))
        if not (same | (below == -np.inf)).all():
            return False
    return True


def _is_complete(
    own: _OwnDensity, draws: np.ndarray, drawn: np.ndarray, low: int, high: int
) -> np.ndarray:
    """Return for which draws the values between the smallest and the largest have all mass."""
    complete = np.zeros(drawn.shape, dtype=bool)
    values = np.arange(low, high + 1, dtype=float)
    count = min(len(draws), LARGEST_SUM // (len(values) * drawn.shape[1]))
    if not count:
        return complete
    points = np.repeat(draws[:count], len(values), axis=0)
    table = np.broadcast_to(np.tile(values, count)[:, None], (len(points), drawn.shape[1]))
    logs = own(points, table.copy()).reshape(count, len(values), -1)
    total = np.logaddexp.reduce(logs, axis=1)
    complete[:count] = np.abs(np.expm1(np.minimum(total, 1.0))) < INCOMPLETE
    return complete


def _reach(
    own: _OwnDensity,
    draws: np.ndarray,
    drawn: np.ndarray,
    side: int,
    end: int,
    complete: np.ndarray,
) -> tuple[int, np.ndarray, int | None]:
    """Look outward from an end of the draws.

    Returns how far out the density matters, the last value tried that is positive for each draw,
    and the first one from which on all are zero for all of them, if there is one.
    """
    level, inside = own(draws, drawn), drawn
    far, outside = end, None
    for step in STEPS:
        value = end + side * step
        found = own(draws, np.full(drawn.shape, float(value)))
        if np.any(found[complete] > np.log(2 * INCOMPLETE)):
            # A negative index counts from the end: that mass was there already.
            return end, drawn, end + side
        positive = found > -np.inf
        if not positive.any():
            outside = value if outside is None else outside
            continue
        inside, outside = np.where(positive, float(value), inside), None
        far = value if np.any(found >= level - DEPTH) else far
    return far, inside, outside


def _last_values(
    own: _OwnDensity, draws: np.ndarray, inside: np.ndarray, side: int, outside: int
) -> np.ndarray:
    """Return the last value of positive density for each draw, between two that were tried."""
    beyond = np.full(inside.shape, float(outside))
    while np.any(side * (beyond - inside) > 1):
        middle = np.floor(0.5 * (inside + beyond))
        middle = np.where(side * (beyond - inside) > 1, middle, inside)
        positive = own(draws, middle) > -np.inf
        beyond = np.where(positive | (middle == inside), beyond, middle)
        inside = np.where(positive, middle, inside)
    return inside


def _by_finite_parents(
    own: _OwnDensity,
    draws: np.ndarray,
    drawn: np.ndarray,
    side: int,
    last: np.ndarray,
    extremes: Mapping[int, tuple[int, int]],
    columns: Sequence[int],
) -> bool:
    """Whether an end depends on no variable but itself and those of finite support.

    If so, it is the same when all others are exchanged between draws.
    """
    exchanged = np.roll(draws, 1, axis=0)
    kept = [*extremes, *columns]
    exchanged[:, kept] = draws[:, kept]
    beyond = own(exchanged, last + side)
    return bool(np.all(beyond == -np.inf) and np.all(own(exchanged, last) > -np.inf))


def _with_extreme_parents(
    own: _OwnDensity,
    draws: np.ndarray,
    side: int,
    far: int,
    extremes: Mapping[int, tuple[int, int]],
    columns: Sequence[int],
) -> int:
    """Return how far an end goes when finite parents have their smallest or largest values."""
    for which in (0, 1):
        points = draws[:FEWEST_DRAWS].copy()
        for coordinate, values in extremes.items():
            points[:, coordinate] = values[which]

        def positive(value: int, points: np.ndarray = points) -> bool:
            values = np.full((len(points), len(columns)), float(value))
            return bool(np.any(own(points, values) > -np.inf))

        steps = [step for step in STEPS if positive(far + side * step)]
        if not steps:
            continue
        beyond = next((step for step in STEPS if step > steps[-1]), FURTHEST)
        inside, outside = far + side * steps[-1], far + side * beyond
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if positive(middle) else (inside, middle)
        far = inside
    return far
