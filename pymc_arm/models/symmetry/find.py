"""Symmetries of a density, found by trying: what leaves its values as they are.

Candidates come from the shapes of the variables. Axes of the same length may number the same
things, components or factors or neurons, so that exchanging two elements along all of them, or some
of them, is tried, and changing the sign of one element along them. Each candidate is a change of
coordinates, and is kept if the log-density does not change: at prior draws and near zero, and
later where the posterior is. Nothing is asked of names or kinds of distributions. All candidates
together take as many values as a few sweeps of a fit take gradients.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pymc_arm.models.symmetry.group import Extension, Symmetry
from pymc_arm.models.terms import VariableSlice

__all__ = ["Found", "find_symmetries", "free_columns", "holds"]

# Longer axes number data and groups, whose order is no mode of the posterior: what two of them are
# exchanged for is the same mode, or one of 13! that no run needs to tell apart.
LARGEST = 12
# Of so many axes of one length all subsets are tried (63); of more, one, two, and all but one.
MOST_AXES = 6
# Whole variables whose signs are tried, alone and in pairs.
MOST_VARIABLES = 8
# How many points candidates are tried at, and those that are left once more. Half are prior draws,
# half are near zero, as Stan starts.
FIRST, POINTS, NEAR = 1, 8, 2.0
# A density that changes by more than this, relative to its logarithm, is not symmetric. Sums in
# another order change the last two of sixteen digits. (A prior that tells two components apart by
# 1e-6 of its width changes a log-density of 300 by about 1e-6, and is refused.)
TOLERANCE = 1e-9

LogDensity = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Found:
    """Symmetries, and the coordinates that they act on."""

    extension: Extension
    symmetries: tuple[Symmetry, ...]


@dataclass(frozen=True)
class _Axis:
    """The coordinates along an axis, (length, others), and whether a last one closes them."""

    name: str
    table: np.ndarray
    closed: bool = False


def find_symmetries(
    log_density: LogDensity,
    slots: Sequence[VariableSlice],
    prior: np.ndarray,
    rng: np.random.Generator,
) -> Found:
    """Return the symmetries of a density.

    Parameters
    ----------
    log_density
        Of unbounded coordinates.
    slots
        The variables.
    prior
        Prior draws, (size, dimension).
    rng
        For points near zero.
    """
    points = _trial_points(log_density, prior, rng)
    extension, axes = _axes(slots, points.shape[1])
    if not len(points):
        return Found(extension, ())
    candidates = list(_candidates(slots, axes))
    extended = extension.extend(points)
    ends = [(each, element) for each in candidates for element in _ends(each)]
    good = _unchanged(log_density, extension, ends, extended[:FIRST])
    likely = {id(each) for (each, _), unchanged in zip(ends, good, strict=True) if unchanged}
    found: list[Symmetry] = []
    for each in _smallest([each for each in candidates if id(each) in likely]):
        every = [(each, element) for element in each.generators()]
        good = _unchanged(log_density, extension, every, extended)
        found.extend(_runs(each, good))
    return Found(extension, tuple(_independent(_joined(found))))


def holds(
    log_density: LogDensity, extension: Extension, symmetry: Symmetry, extended: np.ndarray
) -> bool:
    """Whether a density is the same at points and at their images."""
    every = [(symmetry, element) for element in symmetry.generators()]
    return bool(_unchanged(log_density, extension, every, extended).all())


def _trial_points(
    log_density: LogDensity, prior: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return points at which the density is positive, of the prior and near zero in turn."""
    dimension = prior.shape[1]
    near = rng.uniform(-NEAR, NEAR, (2 * POINTS, dimension))
    draws = prior[:POINTS]
    mixed = np.concatenate([near[: len(draws)], draws])
    order = np.argsort(np.tile(np.arange(len(draws)), 2), kind="stable")
    points = np.concatenate([mixed[order], near[len(draws) :]])
    with np.errstate(all="ignore"):
        values = log_density(points)
    return points[np.isfinite(values)][:POINTS]


def _axes(
    slots: Sequence[VariableSlice], dimension: int
) -> tuple[Extension, dict[int, list[_Axis]]]:
    """Return all axes by their length, those of simplexes among them.

    A last axis may have one element more than there are coordinates, minus the sum of the others,
    where another variable has an axis of that length.
    """
    axes: dict[int, list[_Axis]] = {}
    for slot in slots:
        numbers = np.arange(slot.start, slot.start + slot.size).reshape(slot.shape)
        for axis, length in enumerate(slot.shape):
            if 2 <= length <= LARGEST:
                table = np.moveaxis(numbers, axis, 0).reshape(length, -1)
                axes.setdefault(length, []).append(_Axis(slot.name, table))
    closures: list[np.ndarray] = []
    for slot in slots:
        length = slot.shape[-1] + 1 if slot.shape else 0
        if length not in axes or slot.size == 0:
            continue
        numbers = np.arange(slot.start, slot.start + slot.size).reshape(-1, length - 1)
        last = dimension + len(closures) + np.arange(len(numbers))
        closures.extend(numbers)
        table = np.concatenate([numbers, last[:, None]], axis=1).T
        axes[length].append(_Axis(slot.name, table, closed=True))
    return Extension(dimension, tuple(closures)), axes


def _candidates(slots: Sequence[VariableSlice], axes: dict[int, list[_Axis]]) -> Iterator[Symmetry]:
    """Yield two blocks that may change places, and blocks that may change their sign."""
    for own in axes.values():
        for chosen in _subsets(own):
            blocks = np.concatenate([axis.table for axis in chosen], axis=1)
            if len(np.unique(blocks)) < blocks.size:
                continue  # two axes of one variable: its diagonal would be in both
            names = ", ".join(dict.fromkeys(axis.name for axis in chosen))
            ones = np.ones(blocks.shape[1])
            yield Symmetry(names, blocks, ones, True)
            if not any(axis.closed for axis in chosen):
                yield Symmetry(names, blocks, -ones, False)
    whole = [slot for slot in slots if slot.size][:MOST_VARIABLES]
    for count in (1, 2):
        for several in combinations(whole, count):
            block = np.concatenate([np.asarray(slot.coordinates) for slot in several])[None]
            names = ", ".join(slot.name for slot in several)
            yield Symmetry(names, block, -np.ones(block.shape[1]), False)


def _subsets(axes: list[_Axis]) -> Iterator[tuple[_Axis, ...]]:
    """Yield sets of axes, the smallest first."""
    count = len(axes)
    for size in range(1, count + 1):
        if count <= MOST_AXES or size <= 2 or size >= count - 1:
            yield from combinations(axes, size)


def _ends(symmetry: Symmetry) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the first and the last generator: one of both is what a part of the blocks has."""
    generators = symmetry.generators()
    return generators if len(generators) < 3 else [generators[0], generators[-1]]


def _unchanged(
    log_density: LogDensity,
    extension: Extension,
    elements: Sequence[tuple[Symmetry, tuple[np.ndarray, np.ndarray]]],
    extended: np.ndarray,
) -> np.ndarray:
    """Whether each element, a symmetry with places and signs, changes the density at no point."""
    if not elements:
        return np.zeros(0, dtype=bool)
    images = [symmetry.apply(extended, *element) for symmetry, element in elements]
    with np.errstate(all="ignore"):
        values = log_density(extension.restrict(extended))
        after = log_density(extension.restrict(np.concatenate(images))).reshape(len(images), -1)
        near = np.abs(after - values) <= TOLERANCE * (1 + np.abs(values))
    return np.asarray((near & np.isfinite(after)).all(axis=1))


def _smallest(symmetries: Sequence[Symmetry]) -> list[Symmetry]:
    """Return permutations, and changes of sign, that share no column with smaller ones.

    Rows and columns of a matrix have coordinates in common, and are two symmetries.
    """
    found: list[Symmetry] = []
    for each in symmetries:  # the smallest come first
        columns = set(map(tuple, each.blocks.T))
        alike = [other for other in found if other.permuted == each.permuted]
        if not any(columns & set(map(tuple, other.blocks.T)) for other in alike):
            found.append(each)
    return found


def _runs(symmetry: Symmetry, good: np.ndarray) -> list[Symmetry]:
    """Return the neighbours that may all be exchanged, or the blocks that may change their sign.

    ``good`` says of each generator whether the density allows it.
    """
    if not symmetry.permuted:
        rows = np.flatnonzero(good).tolist()
        return [_of_rows(symmetry, rows)] if rows else []
    runs: list[list[int]] = [[0]]
    for number, joined in enumerate(good, start=1):
        if joined:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [_of_rows(symmetry, run) for run in runs if len(run) > 1]


def _of_rows(symmetry: Symmetry, rows: list[int]) -> Symmetry:
    return Symmetry(symmetry.name, symmetry.blocks[rows], symmetry.signs, symmetry.permuted)


def _joined(symmetries: Sequence[Symmetry]) -> list[Symmetry]:
    """Join permutations and changes of sign of the same blocks."""
    permutations = [each for each in symmetries if each.permuted]
    result: list[Symmetry] = []
    flips = [each for each in symmetries if not each.permuted]
    for each in permutations:
        signs = each.signs.copy()
        for flip in list(flips):
            rows = len(flip.blocks) == len(each.blocks)
            inside = rows and all(
                np.isin(a, b).all() for a, b in zip(flip.blocks, each.blocks, strict=True)
            )
            if inside:
                signs[np.isin(each.blocks[0], flip.blocks[0])] = -1.0
                flips.remove(flip)
        result.append(Symmetry(each.name, each.blocks, signs, True))
    return [*result, *flips]


def free_columns(symmetry: Symmetry, others: Sequence[Symmetry]) -> np.ndarray:
    """Return the columns of blocks that none of the others moves; none if they do not tell images.

    Changes of sign are told only by columns that change theirs.
    """
    moved = [other.moved for other in others if other is not symmetry]
    taken = np.isin(symmetry.blocks, np.concatenate([np.zeros(0, dtype=int), *moved]))
    columns = np.flatnonzero(~taken.any(axis=0))
    if symmetry.flipped and not (symmetry.signs[columns] < 0).any():
        return columns[:0]
    return columns


def _independent(symmetries: Sequence[Symmetry]) -> list[Symmetry]:
    """Return those that have coordinates which no other one moves, and which tell their images."""
    found: list[Symmetry] = []
    for each in symmetries:
        together = [*found, each]
        if all(len(free_columns(one, together)) for one in together):
            found.append(each)
    return found
