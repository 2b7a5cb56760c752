"""A posterior in coordinates where its Gaussian field is standard normal, given the parameters.

x = m(t) + F(t) u: the conditional mode and a factor of the conditional covariance of the field x
given the parameters t, both smooth functions of t that go through exact values at some t. Any
functions leave log Z as it is, since the Jacobian is known; poor ones cost effort. Given t the
distribution of u is close to standard normal, whatever t is: the funnel of scales and fields is
gone. It is the approximation of INLA (Rue, Martino and Chopin, 2009), as a
change of variables instead of a result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_arm.models.fields.factors import SparseFactor
from pymc_arm.models.fields.scaled import ScaledFactor
from pymc_arm.models.reference.target import SharedTarget, View

__all__ = ["FieldMap", "FieldView"]

# Singular values below this share of the largest are taken for zero when functions are fitted.
SMALLEST_SHARE = 1e-11
# Elements of the numbers of a factor that are held at once.
LARGEST = 1_000_000
# The power of distances. Regression with two random walks, 2272 coordinates and three scales: with
# cubes 4 to 13 % of the draws were effective, with fifth powers 31; eleven other models, of one to
# five parameters, had within 2 % the same with both.
POWER = 5


@dataclass(frozen=True)
class FieldMap:
    """Smooth functions of the parameters: modes, and the numbers of a factor.

    They are sums of fifth powers of distances from some points (``nodes``), with a quadratic part:
    in one dimension, quintic splines. Distances are those of asinh z, for whitened parameters z,
    t = center + whitener z: tails may reach to 50 standard deviations. Beyond ``low`` and ``high``
    there is next to no mass, and the functions are constant. ``tails`` are z that are far out in
    the mass.
    """

    field: np.ndarray
    parameters: np.ndarray
    factor: SparseFactor | ScaledFactor
    center: np.ndarray
    whitener: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tails: np.ndarray
    nodes: np.ndarray
    #: (nodes + smooth functions of :func:`_smooth`, field + numbers)
    coefficients: np.ndarray

    @classmethod
    def through(
        cls,
        whitened: np.ndarray,
        values: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        **given: Any,
    ) -> "FieldMap":
        """Return the functions that have some values, (nodes, field + numbers), at points."""
        nodes = np.arcsinh(whitened)
        smooth = _smooth(nodes, whitened)
        powers = np.linalg.norm(nodes[:, None] - nodes[None], axis=2) ** POWER
        system = np.block(
            [
                [powers, smooth],
                [smooth.T, np.zeros((smooth.shape[1], smooth.shape[1]))],
            ]
        )
        right = np.concatenate([values, np.zeros((smooth.shape[1], values.shape[1]))])
        # Directions that few nodes tell apart are left out instead of blown up.
        coefficients = np.linalg.lstsq(system, right, rcond=SMALLEST_SHARE)[0]
        return cls(low=low, high=high, nodes=nodes, coefficients=coefficients, **given)

    def at(self, whitened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the modes, and the numbers of the factor."""
        cut = np.clip(whitened, self.low, self.high)
        squeezed = np.arcsinh(cut)
        powers = np.linalg.norm(squeezed[:, None] - self.nodes[None], axis=2) ** POWER
        found = np.concatenate([powers, _smooth(squeezed, cut)], axis=1) @ self.coefficients
        return found[:, : len(self.field)], found[:, len(self.field) :]

    def slopes(self, whitened: np.ndarray, to_found: np.ndarray) -> np.ndarray:
        """Return the gradient in whitened parameters from that in modes and numbers."""
        weights = to_found @ self.coefficients.T
        cut = np.clip(whitened, self.low, self.high)
        squeezed, count = np.arcsinh(cut), len(self.nodes)
        difference = squeezed[:, None] - self.nodes[None]
        distances = np.linalg.norm(difference, axis=2) ** (POWER - 2)
        slope = np.einsum("pk,pkj->pj", POWER * weights[:, :count] * distances, difference)
        size = cut.shape[1]
        slope += weights[:, count + 1 : count + 1 + size]
        first, second = np.triu_indices(size)
        products = weights[:, count + 1 + 2 * size :]
        for place, (i, j) in enumerate(zip(first, second, strict=True)):
            slope[:, i] += products[:, place] * squeezed[:, j]
            slope[:, j] += products[:, place] * squeezed[:, i]
        result = slope / np.sqrt(1 + cut**2) + weights[:, count + 1 + size : count + 1 + 2 * size]
        result[(whitened < self.low) | (whitened > self.high)] = 0.0
        return np.asarray(result)


def _smooth(squeezed: np.ndarray, whitened: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(squeezed.shape[1])
    products = squeezed[:, first] * squeezed[:, second]
    return np.concatenate([np.ones((len(squeezed), 1)), squeezed, whitened, products], axis=1)


class FieldView:
    """A target in whitened parameters and standardized fields.

    Parameters
    ----------
    target
        The target of the model.
    field_map
        The functions of the parameters.
    """

    def __init__(self, target: SharedTarget, field_map: FieldMap) -> None:
        self.target, self.map = target, field_map
        self.inner = View(target, np.zeros(target.dimension))
        self.noncentering, self.information = self.inner.noncentering, None
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
        # Far out, where a scale is zero to all digits, a normal density is infinite.
        return np.where(values < np.inf, values, -np.inf)

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
