"""Densities fitted to a cloud of draws: a bent Student-t, or a mixture where it does not fit.

They serve the bridge of :mod:`pymc_arm.refine`, so they have to be normalised, easy to draw from,
and somewhat wider than the posterior rather than narrower.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy

from pymc_arm.generic.cloud import score_covariance, shrink
from pymc_arm.resampling import effective_share

__all__ = ["Approximation", "BentStudent", "Mixture", "fit"]

# Above this share of effective draws, a single component is good enough.
GOOD_OVERLAP = 0.4
LARGEST_COMPONENTS = 4
TRIAL_DRAWS = 200
LARGEST_FIT = 3000


class Approximation(Protocol):
    """A normalised density to draw from."""

    @property
    def components(self) -> int:
        """The number of components."""

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""


def fit(
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    points: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray | None] = lambda points: None,
) -> Approximation:
    """Fit a bent Student-t; if draws from it fit badly, the mixture that predicts best."""
    size, dimension = points.shape
    points = points if size <= LARGEST_FIT else points[rng.permutation(size)[:LARGEST_FIT]]
    scores = score(points)
    options: list[dict[str, Any]] = [{}]
    if scores is not None and len(points) > 2 * dimension:
        # Bends of strongly correlated coordinates do more harm than good.
        options += [{"scores": scores}, {"scores": scores, "bend": False}]
    students = [BentStudent.fit(points, **option) for option in options]
    overlaps = [_overlap(log_density, rng, student) for student in students]
    best = int(np.argmax(overlaps))
    if overlaps[best] > GOOD_OVERLAP:
        return students[best]
    order = rng.permutation(len(points))
    cut = 2 * len(order) // 3
    training, held_out = points[order[:cut]], points[order[cut:]]
    option = dict(options[best])
    if "scores" in option:
        option["scores"] = option["scores"][order[:cut]]
    single = BentStudent.fit(training, **option)
    scored = [float(np.mean(single.log_density(held_out)))]
    for components in range(2, LARGEST_COMPONENTS + 1):
        enough = len(training) > 10 * components * (dimension + 1)
        scored.append(_mixture_score(training, held_out, components) if enough else -np.inf)
    # A mixture must be clearly better: it has more to get wrong.
    scored[0] += 0.02
    winner = int(np.argmax(scored))
    if winner == 0:
        return students[best]
    return Mixture.fit(points, winner + 1, np.random.default_rng(winner))


def _overlap(
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    approximation: Approximation,
) -> float:
    """Return the effective share of a few draws as importance samples of the posterior."""
    trial = approximation.draw(rng, TRIAL_DRAWS)
    return effective_share(log_density(trial) - approximation.log_density(trial))


def _mixture_score(training: np.ndarray, held_out: np.ndarray, components: int) -> float:
    try:
        mixture = Mixture.fit(training, components, np.random.default_rng(components))
    except np.linalg.LinAlgError:
        return -np.inf
    return float(np.mean(np.maximum(mixture.log_density(held_out), -1e6)))


@dataclass(frozen=True)
class BentStudent:
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
    ) -> "BentStudent":
        """Fit the marginals by quantiles, then the joint by moments, and scores if there are."""
        if bend:
            location, scale, skew, tail = _fit_marginals(points)
        else:
            location, scale = points.mean(axis=0), points.std(axis=0) + 1e-12
            skew, tail = np.zeros_like(scale), np.ones_like(scale)
        straight = _straighten(points, location, scale, skew, tail)[0]
        if scores is None:
            mean = straight.mean(axis=0)
            covariance = _regular_covariance(straight - mean)
        else:
            pulled = _straighten_scores(points, scores, location, scale, skew, tail)
            mean, covariance = score_covariance(straight, pulled)
        factor = np.linalg.cholesky(covariance)
        distances = (_whiten(factor, straight - mean) ** 2).sum(axis=0)
        dimension = points.shape[1]
        kurtosis = float((distances**2).mean() / (dimension * (dimension + 2)))
        freedom = float(np.clip(4 + 2 / max(kurtosis - 1, 1e-3), 5.0, 200.0))
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
        straight, log_jacobian = _straighten(
            points, self.location, self.scale, self.skew, self.tail
        )
        dimension = len(self.mean)
        distances = (_whiten(self.factor, straight - self.mean) ** 2).sum(axis=0)
        half = 0.5 * (self.freedom + dimension)
        constant = scipy.special.gammaln(half) - scipy.special.gammaln(0.5 * self.freedom)
        constant -= 0.5 * dimension * np.log(self.freedom * np.pi)
        constant -= np.log(np.diag(self.factor)).sum()
        return constant - half * np.log1p(distances / self.freedom) + log_jacobian


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians, for several modes."""

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self.log_weights)

    @classmethod
    def fit(cls, points: np.ndarray, components: int, rng: np.random.Generator) -> "Mixture":
        """Fit by expectation maximisation, from a spread-out start."""
        size = len(points)
        scaled = (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-12)
        seeds = [int(rng.integers(size))]
        for _ in range(components - 1):
            gaps = np.min([((scaled - scaled[s]) ** 2).sum(axis=1) for s in seeds], axis=0)
            seeds.append(int(rng.choice(size, p=gaps / gaps.sum())))
        nearest = np.argmin([((scaled - scaled[s]) ** 2).sum(axis=1) for s in seeds], axis=0)
        responsibilities = np.eye(components)[nearest]
        for _ in range(30):
            totals = responsibilities.sum(axis=0) + 1e-9
            means = (responsibilities.T @ points) / totals[:, None]
            factors = np.stack(
                [
                    np.linalg.cholesky(
                        _regular_covariance(points - means[k], responsibilities[:, k])
                    )
                    for k in range(components)
                ]
            )
            mixture = cls(np.log(totals / totals.sum()), means, factors)
            logs = mixture._component_log_densities(points)
            responsibilities = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        return mixture

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""
        weights = np.exp(self.log_weights)
        chosen = rng.choice(self.components, size=size, p=weights / weights.sum())
        noise = rng.normal(size=(size, self.means.shape[1]))
        return self.means[chosen] + np.einsum("sij,sj->si", self.factors[chosen], noise)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""
        return np.logaddexp.reduce(self._component_log_densities(points), axis=1)

    def _component_log_densities(self, points: np.ndarray) -> np.ndarray:
        columns = []
        for log_weight, mean, factor in zip(
            self.log_weights, self.means, self.factors, strict=True
        ):
            distances = (_whiten(factor, points - mean) ** 2).sum(axis=0)
            constant = log_weight - 0.5 * len(mean) * np.log(2 * np.pi)
            columns.append(constant - np.log(np.diag(factor)).sum() - 0.5 * distances)
        return np.stack(columns, axis=1)


def _whiten(factor: np.ndarray, centered: np.ndarray) -> np.ndarray:
    return scipy.linalg.solve_triangular(factor, centered.T, lower=True, check_finite=False)


def _regular_covariance(centered: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return a covariance that is never singular, shrunk as few points demand."""
    size, dimension = centered.shape
    weights = np.ones(size) if weights is None else weights
    total = float(weights.sum()) + 1e-9
    covariance = (centered * weights[:, None]).T @ centered / total
    return shrink(covariance, min(1.0, 0.5 * (dimension + 1) / (total + dimension + 1)))


def _straighten(
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


def _straighten_scores(
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
