"""The cell around a mode: which blocks differ there, and what tells an image from another.

Two blocks are as good as equal if the density between the mode and its image, in which they have
changed places, is hardly lower than at the mode: then both are one mode, and a wall between them
would cut it. The others are told apart by their coordinates, in units of how far draws around the
mode vary.
"""

import math
from collections.abc import Callable

import numpy as np

from pymc_arm.models.symmetry.cell import Anchor, Cell
from pymc_arm.models.symmetry.find import Found, free_columns, holds
from pymc_arm.models.symmetry.group import Symmetry

__all__ = ["find_cell"]

# By how much the density must be lower half way to an image, in nats, for both to be two modes.
# Of a normal density these are four standard deviations apart then, and a wall between them cuts
# 2 % off.
VALLEY = 2.0
# Centres that are nearer than this, in standard deviations, are moved apart by as much: without,
# two images of a point would be in the cell, or none.
APART = 1e-3
# Points around the mode at which symmetries must hold too.
CHECKED = 8
# The variance of a coordinate is at least this share of the mean one.
SMALLEST_SHARE = 1e-6

LogDensity = Callable[[np.ndarray], np.ndarray]


def find_cell(
    found: Found,
    log_density: LogDensity,
    mode: np.ndarray,
    draws: np.ndarray,
    usable: np.ndarray | None = None,
) -> Cell | None:
    """Return the cell around a mode, or None where the mode is its only image.

    Parameters
    ----------
    found
        Symmetries of the density.
    log_density
        Of unbounded coordinates.
    mode
        A point, (dimension,).
    draws
        Points around it, (size, dimension).
    usable
        The coordinates that may decide; by default all.
    """
    extension = found.extension
    extended, around = extension.extend(mode[None]), extension.extend(draws)
    around = around[np.isfinite(around).all(axis=1)]
    values = log_density(extension.restrict(around))
    around = around[np.isfinite(values)]
    if len(around) < 2:
        return None
    checked = np.concatenate([extended, around[:CHECKED]])
    true = [s for s in found.symmetries if holds(log_density, extension, s, checked)]
    height = float(log_density(mode[None])[0])

    def is_one_mode(images: list[np.ndarray]) -> np.ndarray:
        middles = 0.5 * (extended + np.concatenate(images))
        return np.asarray(log_density(extension.restrict(middles)) > height - VALLEY)

    everything = np.arange(extension.dimension)
    allowed = extension.closed_by(everything if usable is None else usable)
    anchors: list[Anchor] = []
    for symmetry in true:
        columns = free_columns(symmetry, true)
        given = np.asarray(np.isin(symmetry.blocks, allowed).all(axis=0))
        columns = columns[given[columns]]
        signed = symmetry.signs[columns] < 0
        if not len(columns) or (symmetry.flipped and not signed.any()):
            continue
        anchor = _anchor(symmetry, columns, extended, around, is_one_mode)
        if anchor.images > 1:
            anchors.append(anchor)
    return Cell(extension, tuple(anchors)) if anchors else None


def _anchor(
    symmetry: Symmetry,
    columns: np.ndarray,
    extended: np.ndarray,
    around: np.ndarray,
    is_one_mode: Callable[[list[np.ndarray]], np.ndarray],
) -> Anchor:
    """Return the centre of a symmetry at a mode, with blocks that are as good as equal joined."""
    count, signed = len(symmetry.blocks), symmetry.signs[columns] < 0
    center = extended[0, symmetry.blocks[:, columns]]
    precision = np.linalg.inv(_covariance(symmetry, columns, around))
    free = np.zeros(count, dtype=bool)
    if symmetry.flipped:
        elements = [g for g in symmetry.generators() if (g[1] < 0).any()]
        free[:] = is_one_mode([symmetry.apply(extended, *each) for each in elements])
    center[np.ix_(free, signed)] = 0.0
    # The sign with which one block is nearest to another.
    product = center[:, signed] @ precision[np.ix_(signed, signed)] @ center[:, signed].T
    signs = np.where(product < 0, -1.0, 1.0)
    classes = np.arange(count)
    if symmetry.permuted:
        pairs = [(i, j) for i in range(count) for j in range(i) if free[i] == free[j]]
        images = [_exchanged(symmetry, extended, i, j, signs[i, j]) for i, j in pairs]
        same = is_one_mode(images) if images else np.zeros(0, dtype=bool)
        for (i, j), equal in zip(pairs, same, strict=True):
            if equal:
                classes[classes == classes[i]] = classes[j]
    for each in np.unique(classes):
        members = np.flatnonzero(classes == each)
        factor = np.where(signed, signs[members, members[0]][:, None], 1.0)
        center[members] = factor * (factor * center[members]).mean(axis=0)
    # A signed part of zero must stay so; all else may move by a little.
    rng = np.random.default_rng(0)
    width = np.sqrt(np.diag(np.linalg.inv(precision)))
    shifts = APART * width * rng.normal(size=center.shape)
    first = np.array([np.flatnonzero(classes == each)[0] for each in classes])
    shifts = np.where(signed, signs[np.arange(count), first][:, None], 1.0) * shifts[first]
    shifts[np.ix_(free, signed)] = 0.0
    sizes = np.bincount(classes)
    equal_orders = math.prod(math.factorial(int(n)) for n in sizes if n) if symmetry.permuted else 1
    images = symmetry.order // (equal_orders * 2 ** int(free.sum()))
    return Anchor(symmetry, columns, (center + shifts) @ precision, images)


def _exchanged(
    symmetry: Symmetry, extended: np.ndarray, first: int, second: int, sign: float
) -> np.ndarray:
    """Return the image of a point in which two blocks have changed places, with a sign."""
    places, signs = np.arange(len(symmetry.blocks)), np.ones(len(symmetry.blocks))
    places[[first, second]] = second, first
    signs[[first, second]] = sign if symmetry.flipped else 1.0
    return symmetry.apply(extended, places, signs)


def _covariance(symmetry: Symmetry, columns: np.ndarray, around: np.ndarray) -> np.ndarray:
    """Return the covariance of a block around the mode, pooled over blocks.

    A change of sign must leave it as it is, so that what changes its sign does not vary with what
    does not.
    """
    values = around[:, symmetry.blocks[:, columns]]
    values = values - values.mean(axis=0)
    pooled = np.einsum("nki,nkj->ij", values, values) / values.shape[0] / values.shape[1]
    signed = symmetry.signs[columns] < 0
    pooled[np.ix_(signed, ~signed)] = pooled[np.ix_(~signed, signed)] = 0.0
    least = SMALLEST_SHARE * max(float(np.trace(pooled)) / len(pooled), 1e-300)
    return np.asarray(pooled + least * np.eye(len(pooled)))
