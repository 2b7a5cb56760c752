"""A posterior in coordinates where its Gaussian field is standard normal, given the parameters.

x = m(t) + F(t) u: the conditional mode and a factor of the conditional covariance of the field x
given the parameters t, both polynomials in t that go through exact values at some t in the least
squares sense. Any polynomials leave log Z as it is, since the Jacobian is known; poor ones cost
effort. Given t the distribution of u is that of a field with its Laplace approximation taken away,
so that it hardly depends on t, and the funnel of scales and fields is gone (the thought of INLA; Rue,
Martino and Chopin, 2009).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from pymc_arm.models.fields.factors import BandFactor, MatrixFactor
from pymc_arm.models.reference.target import SharedTarget, View

__all__ = ["FieldMap", "FieldView", "monomials"]

# Elements of the numbers of a factor that are held at once.
LARGEST = 4_000_000


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

    ``coefficients`` are (monomials, field + numbers), in parameters (t - center) / whitener, cut to
    ``-reach ... reach``: beyond, polynomials would go anywhere.
    """

    field: np.ndarray
    parameters: np.ndarray
    factor: BandFactor | MatrixFactor
    center: np.ndarray
    whitener: np.ndarray
    reach: float
    powers: tuple[tuple[int, ...], ...]
    coefficients: np.ndarray

    def design(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the monomials at parameters, (size, monomials), and cut parameters, whitened."""
        whitened = np.linalg.solve(self.whitener, (parameters - self.center).T).T
        cut = np.clip(whitened, -self.reach, self.reach)
        columns = [np.prod(cut[:, list(power)], axis=1) for power in self.powers]
        return np.stack(columns, axis=1), whitened

    def slopes(self, whitened: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the gradient in the parameters of a sum of monomials with weights of each row."""
        cut = np.clip(whitened, -self.reach, self.reach)
        result = np.zeros_like(whitened)
        for number, power in enumerate(self.powers):
            for variable in set(power):
                rest = list(power)
                rest.remove(variable)
                slope = power.count(variable) * np.prod(cut[:, rest], axis=1)
                result[:, variable] += weights[:, number] * slope
        result[np.abs(whitened) > self.reach] = 0.0
        return np.linalg.solve(self.whitener.T, result.T).T


class FieldView:
    """A target in parameters and standardized fields.

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
        own, split = self.map, len(self.map.field)
        with np.errstate(all="ignore"):
            parameters, noise = points[:, own.parameters], points[:, own.field]
            design, whitened = own.design(parameters)
            found = design @ own.coefficients
            modes, numbers = found[:, :split], found[:, split:]
            offsets = own.factor.spread(numbers, noise)
            inside = points.copy()
            inside[:, own.field] = modes + offsets
            usable = np.isfinite(inside).all(axis=1)
            values, slopes = np.full(len(points), -np.inf), np.zeros_like(points)
            values[usable], slopes[usable] = self.inner(inside[usable])
            to_noise, to_numbers = own.factor.pull_back(
                numbers, noise, offsets, slopes[:, own.field]
            )
            weights = np.concatenate([slopes[:, own.field], to_numbers], axis=1)
            gradients = slopes
            gradients[:, own.parameters] += own.slopes(whitened, weights @ own.coefficients.T)
            gradients[:, own.field] = to_noise
            values = values + own.factor.log_volume(numbers)
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
        inside, more = self.inner.from_model(points)
        result, log_volume = inside.copy(), np.empty(len(points))
        for part, modes, numbers in self._parts(inside):
            offsets = inside[part][:, self.map.field] - modes
            result[part, self.map.field] = self.map.factor.gather(numbers, offsets)
            log_volume[part] = self.map.factor.log_volume(numbers)
        return result, log_volume + more

    def near_zero(self, rng: np.random.Generator, size: int, reach: float) -> np.ndarray:
        """Return points of the view that are near zero in the coordinates of the model."""
        return self.from_model(self.inner.to_model(self.inner.near_zero(rng, size, reach))[0])[0]

    def _to_inner(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        result, log_volume = points.copy(), np.empty(len(points))
        with np.errstate(all="ignore"):
            for part, modes, numbers in self._parts(points):
                noise = points[part][:, self.map.field]
                result[part, self.map.field] = modes + self.map.factor.spread(numbers, noise)
                log_volume[part] = self.map.factor.log_volume(numbers)
        return result, log_volume

    def _parts(self, points: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield parts of the rows, with the modes and the numbers of the factor of each."""
        split = len(self.map.field)
        for first in range(0, len(points), self._rows):
            part = slice(first, first + self._rows)
            found = self.map.design(points[part][:, self.map.parameters])[0] @ self.map.coefficients
            yield part, found[:, :split], found[:, split:]
