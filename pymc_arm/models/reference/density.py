"""The reference density q: a Student-t, or a few, around an affine map of a view.

A chart y = center + L w makes the main component standard: in w it has mean zero and identity
scale, so that q and its score cost next to nothing, and Hamiltonian moves need no other metric.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from pymc_arm.models.fields.view import FieldView
from pymc_arm.models.reference.noise import is_noise
from pymc_arm.models.reference.target import View

__all__ = ["Chart", "Component", "ProductDensity", "StudentMixture"]

# No draw is so much higher, in nats, than the centre of a chart at a mode, unless it is of another
# mode or a rounding error.
HIGHER = 10.0


class Chart:
    """A target in whitened coordinates, y = center + L w.

    Parameters
    ----------
    view
        The target in its own coordinates.
    center, factor
        The affine map; L is square and need not be triangular, or it is the diagonal of one.
    central
        Whether the centre is near a mode. Values far above that at the centre are looked at then:
        where they are rounding errors the density is zero.
    """

    def __init__(
        self,
        view: View | FieldView,
        center: np.ndarray,
        factor: np.ndarray,
        *,
        central: bool = True,
    ) -> None:
        self.view, self.center, self.factor, self._central = view, center, factor, central
        self._diagonal = factor.ndim == 1
        volume = np.log(factor).sum() if self._diagonal else np.linalg.slogdet(factor)[1]
        self.log_volume = float(volume)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f and its gradient at points w."""
        places = self.to_view(points)
        values, gradients = self.view(places)
        noise = self._find_noise(places, values)
        if noise.any():
            values, gradients = values.copy(), gradients.copy()
            values[noise], gradients[noise] = -np.inf, 0.0
        slopes = gradients * self.factor if self._diagonal else gradients @ self.factor
        return values + self.log_volume, slopes

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points w."""
        places = self.to_view(points)
        values = self.view.log_density(places)
        values = np.where(self._find_noise(places, values), -np.inf, values)
        return values + self.log_volume

    def _find_noise(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Whether the density at places of the view is far too high, and rounding error."""
        found = values > self._suspicious
        if found.any():
            widths = self.factor if self._diagonal else np.sqrt((self.factor**2).sum(axis=1))
            density = self.view.log_density
            found[found] = is_noise(density, places[found], values[found], np.abs(widths))
        return found

    @cached_property
    def _suspicious(self) -> float:
        """The log-density from which on a value is looked at."""
        if not self._central:
            return np.inf
        (height,) = self.view.log_density(self.center[None])
        return float(height) + HIGHER if np.isfinite(height) else np.inf

    def to_view(self, points: np.ndarray) -> np.ndarray:
        """Return y."""
        return self.center + (points * self.factor if self._diagonal else points @ self.factor.T)

    def from_view(self, points: np.ndarray) -> np.ndarray:
        """Return w."""
        if self._diagonal:
            return np.asarray((points - self.center) / self.factor)
        whitened: np.ndarray = np.linalg.solve(self.factor, (points - self.center).T).T
        return whitened


@dataclass(frozen=True)
class Component:
    """A Student-t in w; without a factor its scale is the identity."""

    log_weight: float
    mean: np.ndarray
    factor: np.ndarray | None
    freedom: float

    @cached_property
    def _inverse(self) -> np.ndarray | None:
        return None if self.factor is None else np.linalg.inv(self.factor)

    @cached_property
    def _constant(self) -> float:
        dimension, freedom = len(self.mean), self.freedom
        half = 0.5 * (freedom + dimension)
        constant = scipy.special.gammaln(half) - scipy.special.gammaln(0.5 * freedom)
        constant -= 0.5 * dimension * np.log(freedom * np.pi)
        if self.factor is not None:
            constant -= np.linalg.slogdet(self.factor)[1]
        return float(constant)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        noise = rng.normal(size=(size, len(self.mean)))
        noise *= np.sqrt(self.freedom / rng.chisquare(self.freedom, size))[:, None]
        return self.mean + (noise if self.factor is None else noise @ self.factor.T)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density and its gradient, without the weight."""
        straight = points - self.mean
        if self._inverse is not None:
            straight = straight @ self._inverse.T
        distances = (straight**2).sum(axis=1)
        half = 0.5 * (self.freedom + straight.shape[1])
        values = self._constant - half * np.log1p(distances / self.freedom)
        scores = straight * (-2 * half / (self.freedom + distances))[:, None]
        return values, scores if self._inverse is None else scores @ self._inverse


@dataclass(frozen=True)
class StudentMixture:
    """The reference in w."""

    components: tuple[Component, ...]

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.components[0].mean)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension), in random order."""
        if len(self.components) == 1:
            return self.components[0].draw(rng, size)
        weights = np.exp([part.log_weight for part in self.components])
        counts = rng.multinomial(size, weights / weights.sum())
        draws = [part.draw(rng, n) for part, n in zip(self.components, counts, strict=True)]
        return np.concatenate(draws)[rng.permutation(size)]

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density and its gradient."""
        if len(self.components) == 1:
            return self.components[0](points)
        parts = [part(points) for part in self.components]
        columns = np.stack(
            [v + c.log_weight for (v, _), c in zip(parts, self.components, strict=True)], axis=1
        )
        values = np.logaddexp.reduce(columns, axis=1)
        shares = np.exp(columns - values[:, None])
        scores = sum(shares[:, k, None] * score for k, (_, score) in enumerate(parts))
        return values, np.asarray(scores)


@dataclass(frozen=True)
class ProductDensity:
    """A mixture of some coordinates, and a Student-t of the others, independent of it.

    ``first`` are the coordinates of the mixture.
    """

    first: np.ndarray
    mixture: StudentMixture
    others: Component

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return self.mixture.dimension + len(self.others.mean)

    @cached_property
    def _second(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.dimension), self.first)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        points = np.empty((size, self.dimension))
        points[:, self.first] = self.mixture.draw(rng, size)
        points[:, self._second] = self.others.draw(rng, size)
        return points

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density and its gradient."""
        values, scores = np.zeros(len(points)), np.empty_like(points)
        for own, part in ((self.first, self.mixture), (self._second, self.others)):
            more, scores[:, own] = part(points[:, own])
            values += more
        return values, scores
