"""A second, sharper estimate of log Z from the particles that exploring leaves behind.

The telescoping product carries the noise of every step. A density q fitted to the final cloud is
one short step away from the posterior, and the optimal bridge between the two (Meng and Wong, 1996)
measures that step from both sides: the standard deviation of log Z falls from a few tenths to a
few thousandths. Each chain is judged with a q that was fitted to the other chains, so that q never
sees the draws it is judged on, and how well the two overlap says whether to believe it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, ndtri

from pymc_arm.resampling import effective_sample_size, log_mean_exp

__all__ = ["Bridge", "bridge", "refine_chains"]

# Below this share of effective draws on either side, q and the posterior hardly meet.
SMALLEST_OVERLAP = 0.15
# Above this one, a single component is good enough.
GOOD_OVERLAP = 0.4
LARGEST_COMPONENTS = 4
TRIAL_DRAWS = 200
LARGEST_FIT = 3000
ITERATIONS = 1000


@dataclass(frozen=True)
class Bridge:
    """A bridge estimate of log Z of one chain.

    ``variance`` is what the draws themselves predict; ``overlap`` is the smaller of the effective
    fractions of the draws from the posterior and from q, between 0 and 1.
    """

    log_evidence: float
    variance: float
    overlap: float
    components: int

    @property
    def trustworthy(self) -> bool:
        """Whether q and the posterior overlap enough."""
        return bool(np.isfinite(self.log_evidence) and self.overlap >= SMALLEST_OVERLAP)


class Approximation(Protocol):
    """A normalised density to draw from."""

    @property
    def components(self) -> int:
        """The number of components."""

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw points, (size, dimension)."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at points."""


def refine_chains(
    log_density: Callable[[np.ndarray], np.ndarray],
    clouds: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
) -> list[Bridge]:
    """Bridge each cloud with an approximation fitted to the others.

    Parameters
    ----------
    log_density
        log f, whose integral is Z.
    clouds
        Equally weighted draws of each chain, (size, dimension). A single one is cut in halves.
    generators
        One for each cloud.
    """
    if len(clouds) == 1:
        half = len(clouds[0]) // 2
        order = generators[0].permutation(len(clouds[0]))
        halves = [clouds[0][order[:half]], clouds[0][order[half:]]]
        two = refine_chains(log_density, halves, generators[0].spawn(2))
        return [
            Bridge(
                log_mean_exp(np.array([b.log_evidence for b in two])),
                # Each half lent its draws to the other's q, so the two are not independent.
                float(np.mean([b.variance for b in two])),
                min(b.overlap for b in two),
                max(b.components for b in two),
            )
        ]
    bridges = []
    for number, (cloud, rng) in enumerate(zip(clouds, generators, strict=True)):
        others = np.concatenate([c for k, c in enumerate(clouds) if k != number])
        bridges.append(bridge(log_density, cloud, fit(log_density, rng, others), rng))
    return bridges


def bridge(
    log_density: Callable[[np.ndarray], np.ndarray],
    cloud: np.ndarray,
    approximation: Approximation,
    rng: np.random.Generator,
) -> Bridge:
    """Estimate log Z by the optimal bridge between draws from the posterior and from q.

    With l = log f - log q, at N_1 posterior draws and N_2 draws from q, and
    s_k = N_k / (N_1 + N_2), r is iterated as the mean of e^l / (s_1 e^l + s_2 r) over q divided by
    the mean of 1 / (s_1 e^l + s_2 r) over the posterior.
    """
    first = log_density(cloud) - approximation.log_density(cloud)
    # More draws from q are cheap, and take its side of the error away.
    proposals = approximation.draw(rng, 2 * len(cloud))
    second = log_density(proposals) - approximation.log_density(proposals)
    first = first[np.isfinite(first)]
    second = np.where(np.isnan(second), -np.inf, second)
    if not len(first) or not np.isfinite(second).any():
        return Bridge(np.nan, np.inf, 0.0, approximation.components)
    share = np.log(len(first) / (len(first) + len(second)))
    rest = np.log1p(-np.exp(share))
    shift = float(np.median(first))
    log_ratio = 0.0
    for _ in range(ITERATIONS):
        numerator = second - shift - np.logaddexp(share + second - shift, rest + log_ratio)
        denominator = -np.logaddexp(share + first - shift, rest + log_ratio)
        updated = log_mean_exp(numerator) - log_mean_exp(denominator)
        if abs(updated - log_ratio) < 1e-10:
            log_ratio = updated
            break
        log_ratio = updated
    overlaps = [effective_sample_size(n) / len(n) for n in (numerator, denominator)]
    # Relative variances of the two means (Fruehwirth-Schnatter, 2004).
    variance = sum((1 / o - 1) / len(n) for o, n in zip(overlaps, (second, first), strict=True))
    # How much of q's draws the posterior would accept, and the other way round.
    weights = effective_sample_size(second) / len(second)
    return Bridge(
        shift + log_ratio, float(variance), float(min(*overlaps, weights)), approximation.components
    )


def fit(
    log_density: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, points: np.ndarray
) -> Approximation:
    """Fit a bent Student-t; if draws from it fit badly, the mixture that predicts best."""
    size, dimension = points.shape
    student = BentStudent.fit(points)
    trial = student.draw(rng, TRIAL_DRAWS)
    weights = log_density(trial) - student.log_density(trial)
    weights = np.where(np.isnan(weights), -np.inf, weights)
    if effective_sample_size(weights) > GOOD_OVERLAP * len(weights):
        return student
    order = rng.permutation(size)[:LARGEST_FIT]
    cut = 2 * len(order) // 3
    training, held_out = points[order[:cut]], points[order[cut:]]
    scores = [float(np.mean(BentStudent.fit(training).log_density(held_out)))]
    for components in range(2, LARGEST_COMPONENTS + 1):
        enough = len(training) > 10 * components * (dimension + 1)
        scores.append(_mixture_score(training, held_out, components) if enough else -np.inf)
    # A mixture must be clearly better: it has more to get wrong.
    scores[0] += 0.02
    best = int(np.argmax(scores))
    return student if best == 0 else Mixture.fit(points, best + 1, np.random.default_rng(best))


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
    def fit(cls, points: np.ndarray) -> "BentStudent":
        """Fit the marginals by quantiles, then the joint by moments."""
        location, scale, skew, tail = _fit_marginals(points)
        straight = _straighten(points, location, scale, skew, tail)[0]
        mean = straight.mean(axis=0)
        centered = straight - mean
        factor = np.linalg.cholesky(_regular_covariance(centered))
        distances = (_whiten(factor, centered) ** 2).sum(axis=0)
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
        constant = gammaln(half) - gammaln(0.5 * self.freedom)
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
    return solve_triangular(factor, centered.T, lower=True, check_finite=False)


def _regular_covariance(centered: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return a covariance that is never singular, shrunk as few points demand."""
    size, dimension = centered.shape
    weights = np.ones(size) if weights is None else weights
    total = float(weights.sum()) + 1e-9
    covariance = (centered * weights[:, None]).T @ centered / total
    variances = np.diag(covariance).copy()
    variances = np.maximum(variances, 1e-10 * max(float(variances.max()), 1e-12))
    shrinkage = min(1.0, 0.5 * (dimension + 1) / (total + dimension + 1))
    covariance = (1 - shrinkage) * covariance + shrinkage * np.diag(variances)
    covariance[np.diag_indices(dimension)] += 1e-9 * variances
    return covariance


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


def _fit_marginals(
    points: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fit location, scale, skew and tail to the quantiles, all coordinates at once.

    Damped Gauss-Newton on location + scale * sinh((arcsinh(z) + skew) / tail) at nine normal
    quantiles z, with scale and tail in logs.
    """
    levels = np.array([0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99])
    bent = np.arcsinh(ndtri(levels))[:, None]
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
