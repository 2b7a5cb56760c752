"""Whether the integral of a density is finite, as far as can be seen from outside of its bulk.

Priors integrate to one, so that Z is infinite only where the likelihood grows without bound, and
that faster than the prior falls: a potential that outweighs the prior, or a scale of zero where a
model fits its data exactly. Coordinates are followed far out. With m(t) the density of a coordinate
at a distance t, the integral of m is infinite if t m(t) does not fall.

Two densities are looked at. Along an axis, with all other coordinates as in a prior draw, m is the
density itself: an infinite integral over such a line is no accident. Along a ridge, the other
coordinates follow to where the density is highest, and are integrated by Laplace's method.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_arm.models.density import LogDensity
from pymc_arm.models.graph.loops import has_loop
from pymc_arm.models.normalizer import is_of_a_user
from pymc_arm.models.support import Support
from pymc_arm.models.terms import Layout

__all__ = ["find_endless"]

# How far out: in units of the prior's width, and on the scale of a transform, whose ends are
# exponentially far, in nats. A scale of exp(-80) has a square that is no rounding error.
FAR = np.array([1e1, 1e2, 1e3, 1e4, 1e6])
FAR_TRANSFORMED = np.array([5.0, 10.0, 20.0, 40.0, 80.0])
# The same along a ridge, which is followed step by step. A scale of exp(-20) is one that residuals,
# which are differences of larger numbers, can still have.
STEPS = 4.0 ** np.arange(1, 6)
STEPS_TRANSFORMED = np.arange(1, 9) * 2.5
# t m(t) may fall by this power of t, since m is known to a few digits: a density that falls no
# faster has most of its mass where no number can be.
SLACK = 0.05
# What the log-likelihood must gain from one place to the next, in nats: one that is bounded does
# not do so again and again.
SMALLEST_GAIN = 0.1
# Prior draws that lines start from, of which each must show the same.
LINES = 3
# A ridge is followed by second differences: so many values for each pair of coordinates until it is
# seen to end, and at most so many elements of arrays in all. A model that fits its data exactly has
# few data; what takes more is not looked at.
RIDGE_VALUES, MOST_RIDGE_WORK = 30, 1e7
# Newton's steps at each place; the one before is near.
NEWTON = 8
# Differences are taken over this share of a width, and a climb ends when it gains less, in nats.
DIFFERENCE, GAIN = 0.05, 1e-3
# Draws among which bases are looked for: they need not be likely, but possible.
TRIED = 100
# Coordinates that are looked at, with eight values each, and elements of arrays for one value of
# each: a tenth of a second for most models, and a second for large ones. A step of a loop takes as
# long as so many elements.
MOST_COORDINATES, MOST_WORK, LOOP = 1000, 2e6, 20


@dataclass(frozen=True)
class _Look:
    """What is asked of a density: log f, and log L, which priors are not in."""

    density: LogDensity
    all: np.ndarray
    likelihood: np.ndarray

    def values(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points, NaN where it is no number."""
        return self._sum(points, self.all)

    def likelihoods(self, points: np.ndarray) -> np.ndarray:
        """Return log L at points, NaN where it is no number."""
        return self._sum(points, self.likelihood)

    def _sum(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        try:
            values = self.density.sum(points, weights)
        except (IndexError, ValueError):  # a value that is no index of a table
            return np.full(len(points), np.nan)
        return np.where(np.isfinite(values), values, np.nan)


def find_endless(
    model: pm.Model,
    layout: Layout,
    density: LogDensity,
    supports: Mapping[str, Support],
    draws: np.ndarray,
) -> tuple[str, ...]:
    """Return the coordinates along which the integral of a density is infinite.

    Parameters
    ----------
    model
        Whose variables say which of the coordinates are transformed.
    layout, density, supports
        Its coordinates, terms, and the values of discrete variables.
    draws
        From the prior, (size, dimension).
    """
    likelihood = np.ones(density.count)
    for number, (block, rv) in enumerate(zip(density.blocks, model.free_RVs, strict=False)):
        if block.kind == "prior" and not is_of_a_user(rv):
            likelihood[density.offsets[number] : density.offsets[number + 1]] = 0.0
    if not likelihood.any() or not layout.dimension:
        return ()
    look = _Look(density, np.ones(density.count), likelihood)
    bases = _likely(look, draws[:TRIED])
    if len(bases) < LINES:
        return ()
    transformed = np.concatenate(
        [
            np.full(slot.size, model.rvs_to_transforms.get(rv) is not None)
            for slot, rv in zip(layout.slots, model.free_RVs, strict=True)
        ]
    )
    widths = _widths(draws)
    scale = np.where(transformed, np.maximum(widths, 1.0), widths)
    found, rising = set(), []
    for coordinate in _chosen(layout, density, supports):
        far = scale[coordinate] * (FAR_TRANSFORMED if transformed[coordinate] else FAR)
        far = np.ceil(far) if layout.discrete[coordinate] else far
        for sign in (-1.0, 1.0):
            endless, grows = _along_axis(look, bases, coordinate, sign * far)
            if endless:
                found.add(layout.label(coordinate))
            elif grows or transformed[coordinate]:
                rising.append((coordinate, sign))
    taken = len(rising) * RIDGE_VALUES * layout.dimension**2 * _work(density)
    if not found and taken <= MOST_RIDGE_WORK and not layout.discrete.any():
        best = bases[np.argmax(look.values(bases))]
        for coordinate, sign in rising:
            steps = scale[coordinate] * (STEPS_TRANSFORMED if transformed[coordinate] else STEPS)
            if _Ridge(look, coordinate, scale).is_endless(best, sign * steps):
                found.add(layout.label(coordinate))
    return tuple(sorted(found))


def _chosen(layout: Layout, density: LogDensity, supports: Mapping[str, Support]) -> list[int]:
    """Return the coordinates to look at: one of each variable where all would take too long."""
    most = min(MOST_COORDINATES, int(MOST_WORK / _work(density)))
    free = [slot for slot in layout.slots if not (slot.discrete and supports[slot.name].finite)]
    every = [coordinate for slot in free for coordinate in slot.coordinates]
    if len(every) <= most:
        return every
    return [slot.start for slot in free if slot.size][:most]


def _work(density: LogDensity) -> int:
    """Return how many elements a value takes."""
    graphs = [piece for block in density.blocks for piece in block.pieces]
    return max(density.work, 1) * (LOOP if has_loop(graphs) else 1)


def _likely(look: _Look, draws: np.ndarray) -> np.ndarray:
    """Return the draws of highest density."""
    values = look.values(draws)
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:LINES]
    return draws[order[np.isfinite(values[order])]]


def _widths(draws: np.ndarray) -> np.ndarray:
    """Return about how wide the prior is in each coordinate."""
    low, high = np.quantile(draws, [0.16, 0.84], axis=0)
    width = (high - low) / 2
    return np.where(width > 0, width, 1.0)


def _along_axis(
    look: _Look, bases: np.ndarray, coordinate: int, far: np.ndarray
) -> tuple[bool, bool]:
    """Return whether an axis has an infinite integral, and whether log L grows along it."""
    places = np.concatenate([[0.0], far])
    points = np.repeat(bases, len(places), axis=0)
    points[:, coordinate] += np.tile(places, len(bases))
    # Most axes are seen to be harmless by a few values.
    if not np.all(np.diff(look.likelihoods(points[:4])) > SMALLEST_GAIN):
        return False, False
    likelihoods = look.likelihoods(points).reshape(len(bases), -1)
    values = look.values(points).reshape(len(bases), -1)[:, 1:]
    endless = [_does_not_fall(v, own[1:], far) for v, own in zip(values, likelihoods, strict=True)]
    return bool(np.all(endless)), True


def _does_not_fall(masses: np.ndarray, likelihoods: np.ndarray, far: np.ndarray) -> bool:
    """Whether t m(t) does not fall, and the likelihood grows, at all places that have a number."""
    known = np.isfinite(masses) & np.isfinite(likelihoods)
    if np.sum(known) < len(far) - 1 or not known[:3].all():
        return False
    distance = np.log(np.abs(far[known]))
    slope = np.diff(masses[known]) / np.diff(distance)
    grows = np.diff(likelihoods[known]) > SMALLEST_GAIN
    return bool(np.all(slope > -1 - SLACK) and np.all(grows))


@dataclass(frozen=True)
class _Ridge:
    """The highest points of a density for each value of a coordinate."""

    look: _Look
    coordinate: int
    scale: np.ndarray

    def is_endless(self, base: np.ndarray, steps: np.ndarray) -> bool:
        """Whether the integral along the ridge is infinite."""
        start = base[self.coordinate]
        point, widths = base.copy(), 0.1 * self.scale
        masses, likelihoods = [], []
        with np.errstate(all="ignore"):
            for number, step in enumerate(steps):
                point = point.copy()
                point[self.coordinate] = start + step
                point, widths, mass = self._climb(point, widths)
                masses.append(mass)
                likelihoods.append(self.look.likelihoods(point[None])[0])
                # The first places may lie before the mode.
                first, last = max(number - 2, 0), number + 1
                seen = np.array(masses[first:last]), np.array(likelihoods[first:last])
                if not np.isfinite(mass):
                    return False
                if number >= 2 and not _does_not_fall(*seen, steps[first:last]):
                    return False
        return True

    def _climb(self, point: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the highest point, the widths of the density there, and log m by Laplace."""
        others = np.delete(np.arange(len(point)), self.coordinate)
        value = self.look.values(point[None])[0]
        if not len(others):
            return point, widths, float(value)
        for _ in range(NEWTON):
            gradient, hessian = self._differences(point, widths, others)
            if not np.all(np.isfinite(hessian)):
                return point, widths, np.nan
            new, height = self._step(point, value, widths, gradient, hessian, others)
            gain, point, value = height - value, new, height
            curvatures = np.maximum(np.abs(np.diag(hessian)), 1e-6)
            widths = widths.copy()
            widths[others] /= np.sqrt(curvatures)
            if gain < GAIN and np.all(np.abs(np.log(curvatures)) < 0.1):
                break
        _, hessian = self._differences(point, widths, others)
        if not np.all(np.isfinite(hessian)):
            return point, widths, np.nan
        eigenvalues = np.linalg.eigvalsh(-hessian)
        if not eigenvalues[0] > 0:
            return point, widths, np.nan
        width = np.sum(np.log(widths[others])) - 0.5 * np.sum(np.log(eigenvalues / (2 * np.pi)))
        return point, widths, float(value + width)

    def _step(
        self,
        point: np.ndarray,
        value: float,
        widths: np.ndarray,
        gradient: np.ndarray,
        hessian: np.ndarray,
        others: np.ndarray,
    ) -> tuple[np.ndarray, float]:
        """Take one of Newton's steps, shortened until it is no step down."""
        eigenvalues, vectors = np.linalg.eigh(-hessian)
        move = vectors @ (vectors.T @ gradient / np.maximum(np.abs(eigenvalues), 1e-3))
        for length in 0.3 ** np.arange(6):
            new = point.copy()
            new[others] += length * move * widths[others]
            height = self.look.values(new[None])[0]
            if height >= value:
                return new, height
        return point, value

    def _differences(
        self, point: np.ndarray, widths: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian in units of the widths, by differences."""
        count = len(others)
        shifts = np.zeros((count, len(point)))
        shifts[np.arange(count), others] = DIFFERENCE * widths[others]
        pairs, apart = shifts[:, None] + shifts, shifts[:, None] - shifts
        parts = [shifts, -shifts, pairs, -pairs, apart, -apart]
        points = point + np.concatenate([part.reshape(-1, len(point)) for part in parts])
        values = self.look.values(points)
        ups, downs = values[:count], values[count : 2 * count]
        both = values[2 * count :].reshape(4, count, count)
        hessian = (both[0] + both[1] - both[2] - both[3]) / 4
        return (ups - downs) / 2 / DIFFERENCE, hessian / DIFFERENCE**2
