"""A posterior in coordinates where its Gaussian field is standard normal, given the parameters.

x = m(t) + F(t) u: the conditional mode and a factor of the conditional covariance of the field x
given the parameters t, both polynomials in t that go through exact values at some t in the least
squares sense. Any polynomials leave log Z as it is, since the Jacobian is known; poor ones cost
effort. Given t the distribution of u is close to standard normal, whatever t is: the funnel of
scales and fields is gone. It is the approximation of INLA (Rue, Martino and Chopin, 2009), as a
change of variables instead of a result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from pymc_arm.models.fields.factors import SparseFactor
from pymc_arm.models.reference.target import SharedTarget, View

__all__ = ["FieldMap", "FieldView", "monomials"]

# Elements of the numbers of a factor that are held at once.
LARGEST = 1_000_000


def monomials(count: int, degree: int) -> list[tuple[int, ...]]:
    """Return the monomials of so many variables up to a degree, as tuples of variables."""
    return [
        each
        for total in range(degree + 1)
        for each in combinations_with_replacement(range(count), total)
    ]


@dataclass(frozen=True)
class FieldMap:
    """The polynomials: of modes and of the numbers of a factor.

    ``coefficients`` are (monomials, field + numbers), in whitened parameters z, t = center +
    whitener z, cut to ``-reach ... reach``: beyond, polynomials would go anywhere.
    """

    field: np.ndarray
    parameters: np.ndarray
    factor: SparseFactor
    center: np.ndarray
    whitener: np.ndarray
    reach: float
    powers: tuple[tuple[int, ...], ...]
    coefficients: np.ndarray

    def at(self, whitened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the modes, and the numbers of the factor."""
        cut = np.clip(whitened, -self.reach, self.reach)
        columns = [np.prod(cut[:, list(power)], axis=1) for power in self.powers]
        found = np.stack(columns, axis=1) @ self.coefficients
        return found[:, : len(self.field)], found[:, len(self.field) :]

    def slopes(self, whitened: np.ndarray, to_found: np.ndarray) -> np.ndarray:
        """Return the gradient in whitened parameters from that in modes and numbers."""
        weights = to_found @ self.coefficients.T
        cut = np.clip(whitened, -self.reach, self.reach)
        result = np.zeros_like(whitened)
        for number, power in enumerate(self.powers):
            for variable in set(power):
                rest = list(power)
                rest.remove(variable)
                slope = power.count(variable) * np.prod(cut[:, rest], axis=1)
                result[:, variable] += weights[:, number] * slope
        result[np.abs(whitened) > self.reach] = 0.0
        return result


class FieldView:
    """A target in whitened parameters and standardized fields.

    Parameters
    ----------
    target
        The target of the model.
    field_map
        The polynomials.
    """

    def __init__(self, target: SharedTarget, field_map: FieldMap) -> None:
        self.target, self.map = target, field_map
        self.inner = View(target, np.zeros(target.dimension))
        self.shares = self.inner.shares
        self._log_volume = float(np.linalg.slogdet(field_map.whitener)[1])
        self._rows = max(1, LARGEST // field_map.coefficients.shape[1])

    @property
    def walled(self) -> bool:
        """Whether some directions end at a wall."""
        return self.inner.walled

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f, (size,), and its gradient, (size, dimension), at points of the view."""
        values, gradients = np.empty(len(points)), np.empty_like(points)
        for first in range(0, len(points), self._rows):
            part = slice(first, first + self._rows)
            values[part], gradients[part] = self._evaluate(points[part])
        return values, gradients

    def _evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = self.map
        with np.errstate(all="ignore"):
            whitened, noise = points[:, own.parameters], points[:, own.field]
            modes, numbers = own.at(whitened)
            offsets = own.factor.spread(numbers, noise)
            inside = np.empty_like(points)
            inside[:, own.parameters] = own.center + whitened @ own.whitener.T
            inside[:, own.field] = modes + offsets
            usable = np.isfinite(inside).all(axis=1)
            values, gradients = np.full(len(points), -np.inf), np.zeros_like(points)
            values[usable], gradients[usable] = self.inner(inside[usable])
            slopes = gradients[:, own.field]
            to_noise, to_numbers = own.factor.pull_back(numbers, noise, offsets, slopes)
            direct = gradients[:, own.parameters] @ own.whitener
            through = own.slopes(whitened, np.concatenate([slopes, to_numbers], axis=1))
            gradients[:, own.parameters], gradients[:, own.field] = direct + through, to_noise
            values = values + own.factor.log_volume(numbers) + self._log_volume
        wrong = ~np.isfinite(gradients).all(axis=1) | ~np.isfinite(values)
        values[wrong], gradients[wrong] = -np.inf, 0.0
        return values, gradients

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log f at points of the view."""
        inside, log_volume = self._to_inner(points)
        values, usable = np.full(len(points), -np.inf), np.isfinite(inside).all(axis=1)
        usable &= np.isfinite(log_volume)
        if usable.any():
            values[usable] = self.inner.log_density(inside[usable]) + log_volume[usable]
        return values

    def to_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the model, and log |dx / dy|."""
        inside, log_volume = self._to_inner(points)
        found, more = self.inner.to_model(inside)
        return found, log_volume + more

    def from_model(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of the view, and log |dx / dy|."""
        own = self.map
        inside, more = self.inner.from_model(points)
        result, log_volume = np.empty_like(inside), np.empty(len(points))
        shifted = inside[:, own.parameters] - own.center
        result[:, own.parameters] = np.linalg.solve(own.whitener, shifted.T).T
        for part, modes, numbers in self._parts(result[:, own.parameters]):
            offsets = inside[part][:, own.field] - modes
            result[part, own.field] = own.factor.gather(numbers, offsets)
            log_volume[part] = own.factor.log_volume(numbers)
        return result, log_volume + more + self._log_volume

    def near_zero(self, rng: np.random.Generator, size: int, reach: float) -> np.ndarray:
        """Return points of the view that are near zero in the coordinates of the model."""
        return self.from_model(self.inner.to_model(self.inner.near_zero(rng, size, reach))[0])[0]

    def _to_inner(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = self.map
        result, log_volume = np.empty_like(points), np.empty(len(points))
        whitened = points[:, own.parameters]
        result[:, own.parameters] = own.center + whitened @ own.whitener.T
        with np.errstate(all="ignore"):
            for part, modes, numbers in self._parts(whitened):
                noise = points[part][:, own.field]
                result[part, own.field] = modes + own.factor.spread(numbers, noise)
                log_volume[part] = own.factor.log_volume(numbers)
        return result, log_volume + self._log_volume

    def _parts(self, whitened: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield parts of the rows, with the modes and the numbers of the factor of each."""
        for first in range(0, len(whitened), self._rows):
            part = slice(first, first + self._rows)
            yield part, *self.map.at(whitened[part])
