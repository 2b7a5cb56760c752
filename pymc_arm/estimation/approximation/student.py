"""A Student-t whose coordinates are skewed, or have other tails (sinh-arcsinh transforms)."""

from dataclasses import dataclass

import numpy as np
import scipy

from pymc_arm.estimation.approximation.covariance import score_covariance, shrink
from pymc_arm.estimation.approximation.tails import degrees_of_freedom

__all__ = ["SinhArcsinhStudent", "regular_covariance", "whiten"]


@dataclass(frozen=True)
class SinhArcsinhStudent:
    """A Student-t whose coordinates are bent by sinh-arcsinh, for skewed and heavy marginals.

    Jones and Pewsey's transformation: z = sinh(tail * arcsinh((x - location) / scale) - skew).
    """

    location: np.ndarray
    scale: np.ndarray
    skew: np.ndarray
    tail: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    freedom: float
    components: int = 1

    @classmethod
    def fit(
        cls, points: np.ndarray, scores: np.ndarray | None = None, bend: bool = True
    ) -> "SinhArcsinhStudent":
        """Fit the marginals by quantiles, then the joint by moments, and scores if there are."""
        if bend:
            location, scale, skew, tail = _fit_marginals(points)
        else:
            location, scale = points.mean(axis=0), points.std(axis=0) + 1e-12
            skew, tail = np.zeros_like(scale), np.ones_like(scale)
        straight = _to_normal(points, location, scale, skew, tail)[0]
        if scores is None:
            mean = straight.mean(axis=0)
            covariance = regular_covariance(straight - mean)
        else:
            pulled = _scores_to_normal(points, scores, location, scale, skew, tail)
            mean, covariance = score_covariance(straight, pulled)
        factor = np.linalg.cholesky(covariance)
        distances = (whiten(factor, straight - mean) ** 2).sum(axis=0)
        dimension = points.shape[1]
        freedom = degrees_of_freedom(distances, dimension, 5.0, 200.0)
        factor = factor * np.sqrt((freedom - 2) / freedom)
        return cls(location, scale, skew, tail, mean, factor, freedom)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        dimension = len(self.mean)
        spread = np.sqrt(self.freedom / rng.chisquare(self.freedom, size))
        noise = rng.normal(size=(size, dimension)) @ self.factor.T
        straight = self.mean + spread[:, None] * noise
        bent = np.sinh((np.arcsinh(straight) + self.skew) / self.tail)
        return self.location + self.scale * bent

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        straight, log_jacobian = _to_normal(points, self.location, self.scale, self.skew, self.tail)
        dimension = len(self.mean)
        distances = (whiten(self.factor, straight - self.mean) ** 2).sum(axis=0)
        half = 0.5 * (self.freedom + dimension)
        constant = scipy.special.gammaln(half) - scipy.special.gammaln(0.5 * self.freedom)
        constant -= 0.5 * dimension * np.log(self.freedom * np.pi)
        constant -= np.log(np.diag(self.factor)).sum()
        return constant - half * np.log1p(distances / self.freedom) + log_jacobian


def whiten(factor: np.ndarray, centered: np.ndarray) -> np.ndarray:
    """Return L^-1 x of rows x, as columns."""
    return scipy.linalg.solve_triangular(factor, centered.T, lower=True, check_finite=False)


def regular_covariance(centered: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return a covariance that is never singular, shrunk as few points demand."""
    size, dimension = centered.shape
    weights = np.ones(size) if weights is None else weights
    total = float(weights.sum()) + 1e-9
    covariance = (centered * weights[:, None]).T @ centered / total
    return shrink(covariance, min(1.0, 0.5 * (dimension + 1) / (total + dimension + 1)))


def _to_normal(
    points: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    skew: np.ndarray,
    tail: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the transformed points and the log of the Jacobian."""
    standard = (points - location) / scale
    inner = tail * np.arcsinh(standard) - skew
    log_cosh = np.logaddexp(inner, -inner) - np.log(2)
    log_jacobian = np.log(tail / scale) + log_cosh - 0.5 * np.log1p(standard**2)
    return np.sinh(np.clip(inner, -300, 300)), log_jacobian.sum(axis=1)


def _scores_to_normal(
    points: np.ndarray,
    scores: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    skew: np.ndarray,
    tail: np.ndarray,
) -> np.ndarray:
    """Return the gradient of the log-density of the transformed points."""
    standard = (points - location) / scale
    inner = tail * np.arcsinh(standard) - skew
    root = np.sqrt(1 + standard**2)
    slope = tail * np.cosh(np.clip(inner, -300, 300)) / (root * scale)
    bend = (tail * np.tanh(inner) / root - standard / root**2) / scale
    return (scores - bend) / slope


def _fit_marginals(
    points: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fit location, scale, skew and tail to the quantiles, all coordinates at once.

    Damped Gauss-Newton on location + scale * sinh((arcsinh(z) + skew) / tail) at nine normal
    quantiles z, with scale and tail in logs.
    """
    levels = np.array([0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99])
    bent = np.arcsinh(scipy.special.ndtri(levels))[:, None]
    quantiles = np.quantile(points, levels, axis=0)
    center = quantiles[4]
    width = np.maximum(quantiles[6] - quantiles[2], 1e-12)
    target = (quantiles - center) / width
    columns = points.shape[1]
    parameters = np.tile(np.array([0.0, np.log(0.5), 0.0, 0.0])[:, None], columns)
    low, high = (np.array(b)[:, None] for b in ([-5, -6, -3, -1.0], [5, 6, 3, 1.5]))
    for _ in range(40):
        location, log_scale, skew, log_tail = parameters
        inner = (bent + skew) / np.exp(log_tail)
        grown = np.exp(log_scale) * np.sinh(inner)
        slope = np.exp(log_scale) * np.cosh(inner)
        residual = location + grown - target
        gradients = [np.ones_like(grown), grown, slope / np.exp(log_tail), -slope * inner]
        jacobian = np.stack(gradients, axis=-1)
        normal = np.einsum("qck,qcl->ckl", jacobian, jacobian) + 1e-3 * np.eye(4)
        right = np.einsum("qck,qc->ck", jacobian, residual)
        step = np.linalg.solve(normal, right[..., None])[..., 0].T
        parameters = np.clip(parameters - np.clip(step, -0.5, 0.5), low, high)
    location, log_scale, skew, log_tail = parameters
    return center + width * location, width * np.exp(log_scale), skew, np.exp(log_tail)
