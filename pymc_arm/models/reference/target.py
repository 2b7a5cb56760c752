"""The log-density of a model, with its gradient, in coordinates where the posterior is rounder.

Coordinates that are normal given others, x = m(h) + s(h) z, may be seen as they are, as z, or as
anything in between: x = a m(h) + s(h)^a y. With a degree of non-centring a of 0 that is x, with 1
it is z. The best degree for a coordinate is the part that the prior has in the precision of x given
h, since the width of x then changes with s to just that power (Gorinova, Moore and Hoffman, 2020).
Any degree leaves log Z as it is; a poor one costs effort.

The gradient in y is that in x, pulled back through m and s level by level. These are known from
three points of each log-prior, so that it takes the gradient of a weighted sum of prior terms, and
no second derivative nor a second graph of the likelihood, which took 25 s to compile for a 2PL.
"""

import warnings

import numpy as np
import pytensor.tensor as pt

from pymc_arm._compat import COMPILING
from pymc_arm.models.graph.gradient import differentiate
from pymc_arm.models.graph.program import Program
from pymc_arm.models.graph.reuse import compile_batched
from pymc_arm.models.path import GenericPath
from pymc_arm.models.reference.ordered import find_increments, join
from pymc_arm.models.reference.partly_noncentered import pull_back, shift_and_scale
from pymc_arm.models.reference.quantiles import Quantiles, find_quantiles
from pymc_arm.models.reference.triangular import find_triangular_rows
from pymc_arm.models.reference.vectors import (
    Information,
    Normal,
    VectorLevel,
    find_vectors,
    in_order,
)
from pymc_arm.models.symmetry.cell import Cell

__all__ = ["SharedTarget", "View"]

# Points at which a gradient is compared with differences.
TRIED = 8


class SharedTarget:
    """Value and gradient of log f in partly non-centred coordinates, for any degree of it.

    Parameters
    ----------
    path
        The path of a model without discrete variables whose gradient is available.
    kept
        The coordinates that are left where others are integrated out; by default all.
    """

    def __init__(self, path: GenericPath, kept: np.ndarray | None = None) -> None:
        self.path = path
        everything = np.arange(path.plan.layout.dimension)
        self.kept = everything if kept is None else kept
        self.dimension = len(self.kept)
        #: The power of each term of the density in values and gradients.
        self.powers = np.ones(path.density.count)
        gone = np.setdiff1d(everything, self.kept)
        innovations = path.innovations if not len(gone) else path.innovations.select(self.kept)
        #: Normal coordinates, by level; none whose mean or scale hangs on what is integrated.
        self.levels = levels = [
            level
            for level in innovations._levels
            if not path.plan.scopes[np.ix_(level.terms, gone)].any()
        ]
        #: The prior terms of these levels, in order.
        self.terms = np.unique(np.concatenate([np.zeros(0, int), *(v.terms for v in levels)]))
        self._program = self._compile() if len(self.terms) else None
        #: Vectors that are normal given others, and all levels in their order.
        self.vectors = find_vectors(path, self.kept)
        self.every = in_order([*levels, *self.vectors], path.plan.scopes)
        #: The coordinates that can be seen in more than one way.
        seen = [level.coordinates for level in levels] if self._program is not None else []
        self.coordinates = np.searchsorted(
            self.kept, np.concatenate([np.zeros(0, dtype=int), *seen])
        )
        #: Those that are seen by the quantiles of their priors.
        self.quantiles = find_quantiles(path, self.kept)
        #: Those that are increments of ordered vectors.
        self.increments = find_increments(path, self.kept)
        #: Where the posterior is symmetric, the part that stands for all of it.
        self.cell: Cell | None = None
        #: Covariance factors that are seen by standard deviations and partial correlations.
        self.rows = find_triangular_rows(path, self.kept)

    def view(
        self,
        noncentering: np.ndarray | None = None,
        information: tuple[Information, ...] | None = None,
        increments: Quantiles | None = None,
    ) -> "View":
        """Return the target partly non-centred, by default not at all: the model's coordinates.

        With information about vectors these are seen as what is left given their parameters, and
        covariance factors by their rows; without, both as they are. Increments of ordered vectors
        are seen by maps, if there are any.
        """
        degree = np.zeros(self.dimension) if noncentering is None else noncentering
        return View(self, degree, information, increments)

    def noncentered(self) -> "View":
        """Return the target with everything that is normal given others non-centred."""
        noncentering = np.zeros(self.dimension)
        noncentering[self.coordinates] = 1.0
        return self.view(noncentering, tuple(level.nothing() for level in self.vectors))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points of the model."""
        return self.path.log_density(points)

    def complete(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """Return points of the model with what was integrated out drawn: here nothing was."""
        return points

    def look_around(self, points: np.ndarray) -> None:
        """Learn about what is integrated out from points of the model: here nothing is."""

    def check(self, points: np.ndarray) -> None:
        """Raise a PathError if what is integrated out is not right at points of the model."""

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f and its gradient at points of the model.

        Where there is no gradient (it comes as zero; far from the data, logits overflow) the
        density counts as zero.
        """
        values, gradients = self.path.density.gradient(points, self.powers)
        wrong = ~gradients.any(axis=1) | ~(values < np.inf)
        values[wrong], gradients[wrong] = -np.inf, 0.0
        return values + self.path.log_normalizer, gradients

    def prior_terms(self, points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the terms of all levels, and the gradient of their sum with weights of each row.

        Parameters
        ----------
        points
            (size, dimension)
        weights
            (size, terms)
        """
        assert self._program is not None
        *terms, gradient = self._program(points, weights)
        return np.concatenate(terms, axis=1), gradient

    def _compile(self) -> Program | None:
        """Compile the prior terms of the levels; those of the data are not needed."""
        rows = pt.tensor("X", dtype="float64", shape=(None, self.path.plan.layout.dimension))
        row = pt.tensor("weights", dtype="float64", shape=(len(self.terms),))
        weights = pt.tensor("W", dtype="float64", shape=(None, len(self.terms)))
        try:
            x, values, counts = self.path.density.graphs_of(self.terms)
            with COMPILING, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                total, first = pt.zeros(()), 0
                for value, count in zip(values, counts, strict=True):
                    total += pt.sum(value * row[first : first + count])
                    first += count
                graphs = [*values, differentiate(total, x)]
                batched = {x: rows, row: weights}
                program = compile_batched([x, row], batched, graphs, trusted=True)
            return program if program.vectorized and self._is_right(program) else None
        except Exception as error:  # compilers raise anything: it is noted
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            self.path.density.notes.append(
                f"a reference does not see group effects partly non-centred: {reason}"
            )
            return None

    def _is_right(self, program: Program) -> bool:
        """Whether the terms are those of the model, and the gradient agrees with differences."""
        points = self.path.density.reference[:TRIED]
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(len(points), len(self.terms)))
        direction = 1e-5 * rng.normal(size=points.shape)
        with np.errstate(all="ignore"):
            *terms, gradient = program(points, weights)
            found = np.concatenate(terms, axis=1)
            expected = self.path.density.terms(points, self.terms)
            ends = [
                (weights * np.concatenate(program(place, weights)[:-1], axis=1)).sum(axis=1)
                for place in (points + direction, points - direction)
            ]
            difference, slope = 0.5 * (ends[0] - ends[1]), (gradient * direction).sum(axis=1)
        good = np.isfinite(expected).all(axis=1) & np.isfinite(difference) & np.isfinite(slope)
        return bool(
            good.any()
            and np.allclose(found[good], expected[good], rtol=1e-6, atol=1e-6)
            and np.median(np.abs(difference - slope)[good] / (1e-9 + np.abs(slope[good]))) < 1e-3
        )


class View:
    """A target in partly non-centred coordinates, and with some information about vectors.

    Parameters
    ----------
    target
        The target, for any degree of non-centring.
    noncentering
        The degree of each coordinate, between 0 (centred) and 1, (dimension,).
    information
        Of each of the target's vectors; None where these and covariance factors are as they are.
    increments
        How increments of ordered vectors are seen, if not as they are.
    """

    def __init__(
        self,
        target: SharedTarget,
        noncentering: np.ndarray,
        information: tuple[Information, ...] | None = None,
        increments: Quantiles | None = None,
    ) -> None:
        self.target, self.noncentering, self.information = target, noncentering, information
        self.increments = increments
        #: The numbers of the levels that are seen in another way.
        self._active = [
            number
            for number, level in enumerate(target.every)
            if (information is not None if isinstance(level, VectorLevel) else noncentering.any())
        ]
        given = zip(target.vectors, information or (), strict=information is not None)
        self._given = {id(level): data for level, data in given}
        self._quantiles = join(target.quantiles, increments)
        self._rows = None if information is None else target.rows
        self._kept, self._width = target.kept, target.path.plan.layout.dimension
        self._all = len(self._kept) == self._width
        self._noncentering = np.zeros(self._width)
        self._noncentering[self._kept] = noncentering

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f, (size,), and its gradient, (size, dimension), at points of the view."""
        points = self._embed(points)
        cell = self.target.cell
        if self.linear and cell is None:
            values, gradients = self.target.evaluate(points)
            return values, self._project(gradients)
        inside, log_jacobian, found = self._map(points, to_model=True)
        values, adjoint = np.full(len(points), -np.inf), np.zeros_like(points)
        usable = np.isfinite(inside).all(axis=1) & np.isfinite(log_jacobian)
        if cell is not None:
            usable[usable] = cell.contains(inside[usable])
        if usable.any():
            values[usable], adjoint[usable] = self.target.evaluate(inside[usable])
        with np.errstate(all="ignore"):
            for number in reversed(self._active):
                self._pull_back(number, points, inside, adjoint, found)
            if self._quantiles is not None:
                own = self._quantiles.coordinates
                _, log_slope, curvature = self._quantiles(points[:, own])
                adjoint[:, own] = adjoint[:, own] * np.exp(log_slope) + curvature
            if self._rows is not None:
                self._rows.pull_back(points, inside, adjoint)
            values = values + log_jacobian + (0.0 if cell is None else cell.log_images)
        wrong = ~np.isfinite(adjoint).all(axis=1) | ~(values < np.inf)
        values[wrong], adjoint[wrong] = -np.inf, 0.0
        return values, self._project(adjoint)

    @property
    def plain(self) -> bool:
        """Whether its coordinates are those of the model."""
        return self._all and self.linear

    @property
    def linear(self) -> bool:
        """Whether its coordinates are some of those of the model."""
        return not self._active and self._quantiles is None and self._rows is None

    @property
    def walled(self) -> bool:
        """Whether some directions end at a wall, where trajectories lose their energy for nothing.

        A rate of a vague prior has a tail that is 100 wide on one side, in units of the other. So
        do directions in which symmetric images of a mode follow.
        """
        return self.target.quantiles is not None or self.target.cell is not None

    def near_zero(self, rng: np.random.Generator, size: int, reach: float) -> np.ndarray:
        """Return points of the view that are near zero in unbounded coordinates, as Stan starts."""
        points = self._embed(rng.uniform(-reach, reach, (size, len(self._kept))))
        if self._quantiles is not None:
            own = self._quantiles.coordinates
            points[:, own] = self._quantiles.inverse(points[:, own])
        return self._project(points)

    def _embed(self, points: np.ndarray) -> np.ndarray:
        """Return points with all coordinates of the model; those that are integrated are zero."""
        if self._all:
            return points
        result = np.zeros((len(points), self._width))
        result[:, self._kept] = points
        return result

    def _project(self, points: np.ndarray) -> np.ndarray:
        return points if self._all else points[:, self._kept]

    def _pull_back(
        self,
        number: int,
        points: np.ndarray,
        inside: np.ndarray,
        adjoint: np.ndarray,
        found: dict[int, Normal],
    ) -> None:
        """Turn the gradient with respect to the x of a level into that of its y and parents."""
        level, size = self.target.every[number], len(points)
        later = self._later(number)
        known = inside.copy()
        known[:, later] = 0.0
        if isinstance(level, VectorLevel):
            own = level.coordinates
            adjoint[:, own], gradient = level.pull_back(
                found[number], self._given[id(level)], known, inside[:, own], adjoint[:, own]
            )
        else:
            terms, degree = self.target.path.density.terms, self._noncentering[level.coordinates]
            nodes, weights = pull_back(terms, level, degree, points, known, adjoint)
            whole = np.zeros((len(nodes), len(self.target.terms)))
            whole[:, np.searchsorted(self.target.terms, level.terms)] = weights
            gradient = self.target.prior_terms(nodes, whole)[1].reshape(-1, size, self._width)
            gradient = gradient.sum(axis=0)
        gradient[:, later] = 0.0
        adjoint += gradient

    def _later(self, number: int) -> np.ndarray:
        """Return the coordinates of an active level and those that follow."""
        levels = [self.target.every[each] for each in self._active if each >= number]
        return np.concatenate([level.coordinates for level in levels])

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points of the view."""
        inside, log_scale = self.to_model(points)
        usable = np.isfinite(inside).all(axis=1) & np.isfinite(log_scale)
        values, cell = np.full(len(points), -np.inf), self.target.cell
        if cell is not None:
            usable[usable] = cell.contains(inside[usable])
        if usable.any():
            values[usable] = self.target.log_density(inside[usable]) + log_scale[usable]
        values = values if cell is None else values + cell.log_images
        # Where a scale is zero to all digits a normal density is infinite.
        return np.where(values < np.inf, values, -np.inf)

    def to_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the model, and log |dx / dy|."""
        return self._map(self._embed(points), to_model=True)[:2]

    def from_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the view, and log |dx / dy|."""
        found, log_jacobian, _ = self._map(points, to_model=False)
        return self._project(found), log_jacobian

    def _map(
        self, points: np.ndarray, *, to_model: bool
    ) -> tuple[np.ndarray, np.ndarray, dict[int, Normal]]:
        """Return the other coordinates, log |dx / dy|, and the distributions of vectors."""
        log_jacobian, normals = np.zeros(len(points)), dict[int, Normal]()
        if self.linear:
            return points, log_jacobian, normals
        result, known = points.copy(), points.copy()
        with np.errstate(all="ignore"):
            if self._rows is not None:
                turn = self._rows.to_model if to_model else self._rows.from_model
                turned, log_volume = turn(points)
                own = self._rows.coordinates
                result[:, own] = turned[:, own]
                known[:, own] = turned[:, own] if to_model else points[:, own]
                log_jacobian += log_volume
            if self._quantiles is not None:
                own = self._quantiles.coordinates
                z = points[:, own] if to_model else self._quantiles.inverse(points[:, own])
                x, log_slope, _ = self._quantiles(z)
                result[:, own] = x if to_model else z
                known[:, own] = x if to_model else points[:, own]
                log_jacobian += log_slope.sum(axis=1)
            for number in self._active:
                known[:, self.target.every[number].coordinates] = 0.0
            for number in self._active:
                level = self.target.every[number]
                given = points[:, level.coordinates]
                if isinstance(level, VectorLevel):
                    normals[number] = normal = level.normal(known, self._given[id(level)])
                    moved = level.to_model if to_model else level.from_model
                    found, log_volume = moved(normal, given)
                else:
                    moments = self.target.path.innovations.normal(level, known)
                    degree = self._noncentering[level.coordinates]
                    found, log_volume = shift_and_scale(moments, degree, given, to_model=to_model)
                result[:, level.coordinates] = found
                known[:, level.coordinates] = found if to_model else given
                log_jacobian += log_volume
        return result, log_jacobian, normals
