"""Normal vectors whose mean and covariance are unknown, seen given these and what the data say.

A block x of coordinates that is normal given others has the log-prior r(h)'x - x'P(h)x / 2 plus a
constant; second differences of its values tell r and P. With z standard normal,

    x = (P + J)^-1 (r + b) + C^-T z,    C C' = P + J,

is a draw of x given h if the data add b'x - x'Jx / 2. With J = 0 that is the non-centred form;
where the data say much, P hardly matters, and x is what they say, as in the centred form. Some
directions may be of one kind and some of the other (of logits the data never tell the level). J
and b are constants of each block times the exponential of a linear function of h: the noise of
normal data, say. Any J and b leave log Z as it is, since the Jacobian is known; poor ones cost
effort.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from pymc_arm.errors import PathError
from pymc_arm.models.coloring import add_by_owner
from pymc_arm.models.density import Density
from pymc_arm.models.noncentered import Level as ScalarLevel
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.vector_program import VectorProgram, compile_vectors

__all__ = ["Information", "Normal", "VectorLevel", "find_vectors", "in_order"]

# The largest block: it takes 1 + 2 k + k (k - 1) / 2 values of the prior, 153 for sixteen.
LARGEST = 16
# The largest logarithm of the factor of what data say.
LARGEST_EXPONENT = 30.0
# Prior draws at which a log-prior is checked, and how far values may be off, relative to the
# largest: rounding.
PRIOR_DRAWS, POINTS, TOLERANCE = 40, 20, 1e-6
# Of the draws so many must have a positive definite precision: others are singular to all digits.
DEFINITE = 0.9


@dataclass(frozen=True)
class Information:
    """What the data say about the blocks of a level: J, (blocks, k, k), and b, (blocks, k).

    Both are multiplied with the exponential of ``slope`` times the distance of other coordinates
    from ``origin``.
    """

    precision: np.ndarray
    linear: np.ndarray
    slope: np.ndarray
    origin: np.ndarray

    def times(self, known: np.ndarray) -> np.ndarray:
        """Return the factor of J and b at points, (size,)."""
        exponent = (known - self.origin) @ self.slope
        return np.asarray(np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)))


@dataclass(frozen=True)
class Normal:
    """Of each row and block: C, and C^-1 (r + b)."""

    factor: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class VectorLevel:
    """Blocks of a variable that are normal given others.

    Attributes
    ----------
    blocks
        The coordinates of each block, (blocks, k).
    terms
        The prior terms.
    owner
        The representative that each term of the program belongs to: blocks with the same P and r
        share one.
    representatives
        How many blocks stand for others.
    place
        Of each block, the place of its representative.
    program
        Evaluates the terms of the representatives at the nodes.
    """

    blocks: np.ndarray
    terms: np.ndarray
    owner: np.ndarray
    representatives: int
    place: np.ndarray
    program: VectorProgram

    @property
    def coordinates(self) -> np.ndarray:
        """All coordinates."""
        return self.blocks.ravel()

    @property
    def order(self) -> int:
        """The number of coordinates of a block."""
        return self.blocks.shape[1]

    def nothing(self) -> Information:
        """Return the information of no data."""
        (count, order), width = self.blocks.shape, self.program.width
        none = np.zeros(width)
        return Information(np.zeros((count, order, order)), np.zeros((count, order)), none, none)

    def prior(self, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return P, (size, blocks, k, k), and r, (size, blocks, k)."""
        found = self.program.values(known)
        count = self.representatives
        flat = add_by_owner(found.reshape(-1, found.shape[2]), self.owner, count)
        values = np.swapaxes(flat.reshape(*found.shape[:2], count), 0, 1)
        precision, linear = coefficients(values, self.order)
        return precision[:, self.place], linear[:, self.place]

    def normal(self, known: np.ndarray, data: Information) -> Normal:
        """Return the distribution of the blocks; NaN where there is none."""
        precision, linear = self.prior(known)
        times = data.times(known)[:, None, None]
        factor = _cholesky(precision + times[..., None] * data.precision)
        return Normal(factor, _solve(factor, linear + times * data.linear))

    def to_model(self, found: Normal, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x, (size, coordinates), of z, and log |dx / dz|."""
        z = noise.reshape(len(noise), *self.blocks.shape)
        x = _solve(found.factor, found.offset + z, transposed=True)
        return x.reshape(noise.shape), _log_volume(found.factor)

    def from_model(self, found: Normal, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z, (size, coordinates), of x, and log |dx / dz|."""
        x = values.reshape(len(values), *self.blocks.shape)
        z = np.einsum("pbji,pbj->pbi", found.factor, x) - found.offset
        return z.reshape(values.shape), _log_volume(found.factor)

    def pull_back(
        self,
        found: Normal,
        data: Information,
        known: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient in z, and what there is to add to that in other coordinates.

        Parameters
        ----------
        found, data, known
            From :meth:`normal`, and what it was given.
        values, slopes
            x and the gradient there, (size, coordinates).
        """
        shape = (len(values), *self.blocks.shape)
        x, slope = values.reshape(shape), slopes.reshape(shape)
        to_z = _solve(found.factor, slope)
        to_linear = _solve(found.factor, to_z, transposed=True)
        to_factor = -(x[..., :, None] * to_z[..., None, :])
        to_factor -= to_linear[..., :, None] * found.offset[..., None, :]
        diagonal = np.arange(self.order)
        to_factor[..., diagonal, diagonal] -= 1 / found.factor[..., diagonal, diagonal]
        inner = np.tril(np.swapaxes(found.factor, -1, -2) @ np.tril(to_factor))
        inner[..., diagonal, diagonal] *= 0.5
        # C^-T inner C^-1, made symmetric.
        half = _solve_matrix(found.factor, inner)
        full = np.swapaxes(_solve_matrix(found.factor, np.swapaxes(half, -1, -2)), -1, -2)
        to_precision = 0.5 * (full + np.swapaxes(full, -1, -2))
        to_times = np.einsum("pbij,bij->p", to_precision, data.precision)
        to_times += np.einsum("pbi,bi->p", to_linear, data.linear)
        count = self.representatives
        weights = _node_weights(
            _by_place(to_precision, self.place, count), _by_place(to_linear, self.place, count)
        )
        weights = np.swapaxes(weights, 0, 1)[..., self.owner]
        gradient = self.program.slope(known, weights)
        gradient += (to_times * data.times(known))[:, None] * data.slope
        return to_z.reshape(values.shape), gradient


def _nodes(order: int) -> np.ndarray:
    """Return 0, e_i, -e_i, and e_i + e_j for i < j."""
    unit = np.eye(order)
    low, high = np.triu_indices(order, 1)
    return np.concatenate([np.zeros((1, order)), unit, -unit, unit[low] + unit[high]])


def coefficients(values: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P and r from values at the nodes, (nodes, size, blocks)."""
    middle, above, below = values[0], values[1 : order + 1], values[order + 1 : 2 * order + 1]
    low, high = np.triu_indices(order, 1)
    precision = np.empty((*middle.shape, order, order))
    mixed = np.moveaxis(above[low] + above[high] - middle - values[2 * order + 1 :], 0, -1)
    precision[..., low, high] = precision[..., high, low] = mixed
    each = np.arange(order)
    precision[..., each, each] = np.moveaxis(2 * middle - above - below, 0, -1)
    return precision, np.moveaxis(0.5 * (above - below), 0, -1)


def _node_weights(to_precision: np.ndarray, to_linear: np.ndarray) -> np.ndarray:
    """Return the derivatives in the values at the nodes: the adjoint of ``coefficients``."""
    order = to_linear.shape[-1]
    low, high = np.triu_indices(order, 1)
    own = np.moveaxis(np.diagonal(to_precision, axis1=-2, axis2=-1), -1, 0)
    mixed = 2 * np.moveaxis(to_precision[..., low, high], -1, 0)
    tilt = 0.5 * np.moveaxis(to_linear, -1, 0)
    above = tilt - own
    for number, (i, j) in enumerate(zip(low, high, strict=True)):
        above[i] += mixed[number]
        above[j] += mixed[number]
    middle = 2 * own.sum(axis=0) - mixed.sum(axis=0)
    return np.concatenate([middle[None], above, -tilt - own, -mixed])


def _by_place(values: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """Add up the values of the blocks, (size, blocks, ...), that share a representative."""
    flat = values.reshape(*values.shape[:2], -1)
    parts = [add_by_owner(flat[..., k], place, count) for k in range(flat.shape[2])]
    return np.stack(parts, axis=-1).reshape(len(values), count, *values.shape[2:])


def _cholesky(matrices: np.ndarray) -> np.ndarray:
    """Return lower factors, NaN where a matrix is not positive definite."""
    order = matrices.shape[-1]
    factor = np.zeros_like(matrices)
    for k in range(order):
        column = matrices[..., k:, k] - np.einsum(
            "...ij,...j->...i", factor[..., k:, :k], factor[..., k, :k]
        )
        pivot = column[..., 0]
        factor[..., k:, k] = column / np.sqrt(np.where(pivot > 0, pivot, np.nan))[..., None]
    return factor


def _solve(factor: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """Return C^-1 or C^-T times vectors."""
    order, found = factor.shape[-1], right.copy()
    for k in range(order)[:: -1 if transposed else 1]:
        found[..., k] /= factor[..., k, k]
        if transposed:
            found[..., :k] -= factor[..., k, :k] * found[..., k, None]
        else:
            found[..., k + 1 :] -= factor[..., k + 1 :, k] * found[..., k, None]
    return found


def _solve_matrix(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return C^-T times matrices."""
    order, found = factor.shape[-1], right.copy()
    for k in range(order)[::-1]:
        found[..., k, :] /= factor[..., k, k, None]
        found[..., :k, :] -= factor[..., k, :k, None] * found[..., k, None, :]
    return found


def _log_volume(factor: np.ndarray) -> np.ndarray:
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    return np.asarray(-np.log(diagonal).sum(axis=(1, 2)))


AnyLevel = ScalarLevel | VectorLevel


def in_order(
    levels: list[ScalarLevel | VectorLevel], scopes: np.ndarray
) -> list[ScalarLevel | VectorLevel]:
    """Return the levels with those first that others depend on, where there is such an order."""
    waiting, result = list(levels), list[AnyLevel]()
    while waiting:
        parents = [scopes[level.terms].any(axis=0) for level in waiting]
        free = [
            not any(parents[k][other.coordinates].any() for other in waiting if other is not level)
            for k, level in enumerate(waiting)
        ]
        chosen = free.index(True) if True in free else 0
        result.append(waiting.pop(chosen))
    return result


def find_vectors(path: GenericPath, kept: np.ndarray) -> list[VectorLevel]:
    """Return the variables whose elements are blocks that are normal given others.

    Parameters
    ----------
    path
        The path of a model.
    kept
        The coordinates that are looked at; terms of a level depend on no others.
    """
    layout, density, scopes = path.plan.layout, path.density, path.plan.scopes
    gone = np.setdiff1d(np.arange(layout.dimension), kept)
    drawn = None
    found = []
    for number, slot in enumerate(layout.slots):
        terms = np.arange(density.offsets[number], density.offsets[number + 1])
        if slot.discrete or slot.size < 2 or not len(terms) or scopes[np.ix_(terms, gone)].any():
            continue
        own = np.array(slot.coordinates)
        blocks = _blocks(scopes, terms, own) if np.isin(own, kept).all() else None
        if blocks is None or layout.discrete[scopes[terms].any(axis=0)].any():
            continue
        if drawn is None:
            rng = np.random.default_rng(0)
            drawn = layout.ravel(path.prior.draw(rng, PRIOR_DRAWS), PRIOR_DRAWS)
            drawn = drawn[np.isfinite(drawn).all(axis=1)][:POINTS]
        try:
            level = _checked(density, blocks, terms, drawn)
        except PathError as error:
            density.notes.append(f"{slot.name}: {error}")
            continue
        if level is not None:
            found.append(level)
    return found


class _Blocks(NamedTuple):
    """Coordinates of blocks, (blocks, k), and the block of each term."""

    coordinates: np.ndarray
    owner: np.ndarray


def _blocks(scopes: np.ndarray, terms: np.ndarray, own: np.ndarray) -> _Blocks | None:
    """Return the blocks that share no term, if all are of one size, and something else counts."""
    scope = scopes[np.ix_(terms, own)]
    others = scopes[terms].sum(axis=1) > scope.sum(axis=1)
    if not others.any() or not scope.any(axis=1).all() or not scope.any(axis=0).all():
        return None
    links = scope.astype(np.float32).T @ scope.astype(np.float32) > 0
    count, label = scipy.sparse.csgraph.connected_components(links, directed=False)
    order = len(own) // count
    if not 1 < order <= LARGEST or (np.bincount(label) != order).any():
        return None
    coordinates = own[np.argsort(label, kind="stable")].reshape(count, order)
    return _Blocks(coordinates, label[scope.argmax(axis=1)])


def _checked(
    density: Density, blocks: _Blocks, terms: np.ndarray, draws: np.ndarray
) -> VectorLevel | None:
    """Return the level, if the log-priors are parabolas."""
    count, order = blocks.coordinates.shape
    own = np.sort(blocks.coordinates.ravel())
    if not len(draws):
        return None
    rng = np.random.default_rng(1)
    check = rng.choice([-2.5, -1.0, 1.0, 2.5], size=order)
    places = np.concatenate([_nodes(order), check[None]])
    points = np.tile(draws, (len(places), 1))
    spread = np.repeat(places, len(draws), axis=0)
    points[:, blocks.coordinates.ravel()] = np.tile(spread, count)
    with np.errstate(all="ignore"):
        found = add_by_owner(density.terms(points, terms), blocks.owner, count)
        values = found.reshape(len(places), len(draws), count)
        precision, linear = coefficients(values[:-1], order)
        expected = values[0] + linear @ check
        expected -= 0.5 * np.einsum("i,pbij,j->pb", check, precision, check)
        good = np.isfinite(values).all(axis=0)
        right = np.abs(expected - values[-1]) <= TOLERANCE * np.abs(values).max(axis=0)
        definite = np.isfinite(_cholesky(precision)).all(axis=(-2, -1))
    if not good.any(axis=0).all() or not right[good].all() or definite[good].mean() < DEFINITE:
        return None
    # The same values at all draws: one of the blocks will do for all.
    _, first, place = np.unique(
        values.reshape(-1, count), axis=1, return_index=True, return_inverse=True
    )
    needed = np.isin(blocks.owner, first)
    by_rank = np.argsort(first)
    owner = by_rank[np.searchsorted(first[by_rank], blocks.owner[needed])]
    nodes = np.empty((len(places) - 1, len(own)))
    nodes[:, np.searchsorted(own, blocks.coordinates.ravel())] = np.tile(places[:-1], count)
    program = compile_vectors(density, terms[needed], own, nodes, draws)
    return VectorLevel(blocks.coordinates, terms, owner, len(first), place.ravel(), program)
