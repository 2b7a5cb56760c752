"""Vectors of shares whose integrals are known: those with a Dirichlet prior, and counts as data.

Given the rest, a vector p with counts as data (multinomial, categorical, transitions between
states) has the density exp(c) prod_k p_k^(a_k) in the model's coordinates, the Jacobian of the
simplex included, where a_k is the concentration plus the count. The density is linear in c and a,
so that values at K + 1 places tell them, and the integral is known. Like the families of
:mod:`conjugate` this is asked of values, near zero and again where the posterior is: what data make
of the vector does not matter, nor what its concentration depends on.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

from pymc_arm.errors import PathError
from pymc_arm.models.density import LogDensity
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.closed_forms import is_close
from pymc_arm.models.reference.collapsed import CollapsedTarget
from pymc_arm.models.reference.conjugate import log_gamma
from pymc_arm.models.reference.groups import CHECKED
from pymc_arm.models.reference.twins import GroupTerms

__all__ = ["SimplexTarget", "find_simplexes"]

# Points near zero at which the form is looked for, how far these are from it, and places of the
# vectors that are tried there, besides those that tell the coefficients.
POINTS, NEAR, TRIED = 4, 1.0, 4
# Distances from the center of the simplex, in logarithms, at which the form is asked again.
EVERYWHERE = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
# The logarithm by which one share is larger than the others at its node.
RAISED = 2.0
# An evaluation takes one more values than a vector has shares: longer vectors stay.
LONGEST = 30
# So many coordinates are worth their integrals, if no more of the others are left.
FEWEST = 4


@dataclass(frozen=True)
class _Solution:
    """Of each row and vector: a, (rows, vectors, K), and the log of the integral."""

    exponents: np.ndarray
    constant: np.ndarray
    log_mass: np.ndarray
    weights: np.ndarray

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Return the log-density at places, (rows, nodes, vectors, K - 1)."""
        return np.asarray(
            self.constant[:, None] + np.einsum("rvk,rnvk->rnv", self.exponents, _log_shares(places))
        )


@dataclass(frozen=True)
class _Integrals:
    """The integral over all vectors, of each row, and the derivatives by the values at nodes."""

    log_mass: np.ndarray
    places: np.ndarray
    weights: np.ndarray

    def shares(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of each vector, and the derivatives by the values there."""
        return np.broadcast_to(self.places, (len(rows), *self.places.shape)), self.weights[rows]


class _Vectors:
    """Vectors that are independent given the rest, and what values tell about them."""

    def __init__(self, path: GenericPath, vectors: list[np.ndarray]) -> None:
        self.groups = GroupTerms.of(path.density, _scopes(path, vectors))
        self.columns, lengths = np.concatenate(vectors), np.array([len(v) for v in vectors])
        starts = np.cumsum(lengths) - lengths
        #: Of each length: which vectors have it, and where their coordinates are among all.
        self.members = [
            (members, starts[members][:, None] + np.arange(length))
            for length in np.unique(lengths)
            for members in [np.flatnonzero(lengths == length)]
        ]
        #: The places at which each vector is looked at; shorter ones have fewer.
        self.places = np.zeros((int(lengths.max()) + 2, len(self.columns)))
        for _, columns in self.members:
            nodes = _nodes(columns.shape[1])
            self.places[: len(nodes), columns] = nodes[:, None]

    def solve(self, points: np.ndarray) -> list[_Solution]:
        """Return the densities of the vectors of each length."""
        places = np.broadcast_to(self.places, (len(points), *self.places.shape))
        values = self.groups.table(points, self.columns, places)
        return [_solve(values[:, :, mine], of.shape[1]) for mine, of in self.members]

    def are_right(self, points: np.ndarray, places: np.ndarray) -> bool:
        """Whether values at places, (size, number, columns), are those of Dirichlet densities."""
        with np.errstate(all="ignore"):
            values = self.groups.table(points, self.columns, places)
            return all(
                np.isfinite(found.log_mass).all()
                and is_close(values[:, :, mine], found(places[:, :, columns])).all()
                for (mine, columns), found in zip(self.members, self.solve(points), strict=True)
            )

    def are_right_near_zero(self) -> bool:
        """Whether they are, at a few points."""
        rng, dimension = np.random.default_rng(0), self.groups.density.reference.shape[1]
        points = rng.uniform(-NEAR, NEAR, (POINTS, dimension))
        return self.are_right(points, NEAR * rng.normal(size=(POINTS, TRIED, len(self.columns))))


class SimplexTarget(CollapsedTarget):
    """The density of the parameters, with Dirichlet vectors integrated out.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    collapsed
        The coordinates of the vectors, from :func:`find_simplexes`.

    Raises
    ------
    PathError
        If the integral of one of them is not that of a Dirichlet density.
    """

    conjugate = True

    def __init__(self, path: GenericPath, collapsed: np.ndarray) -> None:
        self._vectors = _Vectors(path, _vectors(path, collapsed))
        super().__init__(path, collapsed, self._vectors.groups, self._vectors.columns)
        if not self._vectors.are_right_near_zero():
            raise PathError("The integrals of some vectors are not known in closed form.")

    def complete(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Draw the vectors given the parameters."""
        points, vectors = points.copy(), self._vectors
        for part in self._parts(points):
            for (_, places), found in zip(
                vectors.members, vectors.solve(points[part]), strict=True
            ):
                logs = log_gamma(rng, found.exponents)
                centered = logs - logs.mean(axis=-1, keepdims=True)
                points[part, self._columns[places]] = centered[..., :-1]
        return points

    def look_around(self, points: np.ndarray) -> None:
        """Do nothing: a few values tell where a vector is."""

    def check(self, points: np.ndarray) -> None:
        """Ask again whether the vectors are Dirichlet ones, where the posterior is.

        Raises
        ------
        PathError
            If one is not.
        """
        rng, points = np.random.default_rng(0), points[:CHECKED]
        drawn = self.complete(rng, points)[:, None, self._columns]
        around = rng.normal(size=(len(points), 2 * len(EVERYWHERE), len(self._columns)))
        around *= np.concatenate([EVERYWHERE, EVERYWHERE])[:, None]
        around[:, : len(EVERYWHERE)] += drawn
        if not self._vectors.are_right(points, np.concatenate([drawn, around], axis=1)):
            names = {self.path.plan.layout.slot_of(int(c)).name for c in self.collapsed}
            raise PathError(f"{', '.join(sorted(names))} are not Dirichlet vectors everywhere.")

    @property
    def _node_count(self) -> int:
        return len(self._vectors.places)

    def _integrals(self, points: np.ndarray) -> _Integrals:
        vectors, log_mass = self._vectors, np.zeros(len(points))
        weights = np.zeros((len(points), self._node_count, len(self._groups.first)))
        for (members, _), found in zip(vectors.members, vectors.solve(points), strict=True):
            weights[:, : found.weights.shape[1], members] = found.weights
            log_mass += found.log_mass.sum(axis=1)
        log_mass[np.isnan(log_mass)] = -np.inf
        return _Integrals(log_mass, vectors.places, weights)


def find_simplexes(path: GenericPath) -> np.ndarray:
    """Return coordinates of Dirichlet vectors that can be integrated; none if few can.

    Vectors that share a term with one that is integrated already are left.
    """
    nothing, layout = np.zeros(0, dtype=int), path.plan.layout
    if layout.discrete.any() or not isinstance(path.density, LogDensity):
        return nothing
    chosen: list[np.ndarray] = []
    for slot in layout.slots:
        own = _vectors(path, np.array(slot.coordinates))
        if not own or any(len(each) >= LONGEST for each in own):
            continue
        together = [*chosen, *own]
        alone = (_scopes(path, together).sum(axis=1) <= 1).all()
        if alone and _Vectors(path, own).are_right_near_zero():
            chosen = together
    found = np.sort(np.concatenate([nothing, *chosen]))
    left = layout.dimension - len(found)
    return found if len(found) >= max(FEWEST, left) and left else nothing


def _vectors(path: GenericPath, coordinates: np.ndarray) -> list[np.ndarray]:
    """Return coordinates of each vector: those of a variable that share one of its prior terms."""
    layout, offsets = path.plan.layout, path.density.offsets
    found = []
    for number, slot in enumerate(layout.slots):
        own = np.intersect1d(np.array(slot.coordinates, dtype=int), coordinates)
        scopes = path.plan.scopes[offsets[number] : offsets[number + 1]][:, own]
        if len(own) and scopes.any(axis=0).all():
            links = scopes.astype(np.float32).T @ scopes.astype(np.float32) > 0
            label = scipy.sparse.csgraph.connected_components(links, directed=False)[1]
            found += [own[label == each] for each in np.unique(label)]
    return found


def _scopes(path: GenericPath, vectors: list[np.ndarray]) -> np.ndarray:
    """Return which terms depend on which vector."""
    return np.stack([path.plan.scopes[:, each].any(axis=1) for each in vectors], axis=1)


def _log_shares(places: np.ndarray) -> np.ndarray:
    """Return the logarithms of all shares at coordinates, (..., K - 1)."""
    logs = np.concatenate([places, -places.sum(axis=-1, keepdims=True)], axis=-1)
    return np.asarray(logs - scipy.special.logsumexp(logs, axis=-1, keepdims=True))


@cache
def _nodes(count: int) -> np.ndarray:
    """Return the center of the simplex, and places where each share in turn is the largest."""
    raised = RAISED * (np.eye(count + 1) - 1 / (count + 1))
    return np.concatenate([np.zeros((1, count)), raised[:, :-1]])


@cache
def _inverse(count: int) -> np.ndarray:
    """Return the matrix that takes values at the nodes to c and a."""
    nodes = _nodes(count)
    return np.linalg.inv(np.column_stack([np.ones(len(nodes)), _log_shares(nodes)]))


def _solve(values: np.ndarray, count: int) -> _Solution:
    """Return the densities with some values at the nodes, (rows, nodes, vectors)."""
    inverse, first = _inverse(count), values[:, :1]
    with np.errstate(all="ignore"):
        # The value at the center apart: what is left has no digits to lose but its own.
        found = np.einsum("kn,rnv->rvk", inverse, values[:, : len(inverse)] - first)
        constant, a = (
            found[..., 0] + first[:, 0],
            np.where(found[..., 1:] > 0, found[..., 1:], np.nan),
        )
        total = a.sum(axis=-1)
        log_mass = constant + scipy.special.gammaln(a).sum(axis=-1) - scipy.special.gammaln(total)
        log_mass -= np.log(count + 1)
        means = scipy.special.digamma(a) - scipy.special.digamma(total)[..., None]
        means = np.concatenate([np.ones_like(means[..., :1]), means], axis=-1)
        weights = np.einsum("kn,rvk->rnv", inverse, means)
    return _Solution(a, constant, log_mass, weights)
