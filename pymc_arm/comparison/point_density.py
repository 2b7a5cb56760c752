"""The posterior density of some variables at a point, from draws and from the joint density.

A histogram of the draws says little about the posterior density in the tail, so the density of the
model is used instead. With q the joint density, psi the other variables, psi' = a + D (psi - B
delta) for any shift a, diagonal matrix D and matrix B, and w any density,

    p(delta_0 | y) = E[ w(delta) |D| q(delta_0, psi') / q(delta, psi) | y ].

With psi' = psi this is the estimator of Chen (1994). With B the regression of psi on delta, and w
the posterior density of delta, the average has no variance where the posterior is normal, however
far in the tail delta_0 is. The map and w are fitted to other chains than those they are used on.

What is returned is the ratio of this to the prior density of delta_0 given psi, so that the answer
is the Bayes factor of the nested model whatever that prior depends on (Verdinelli and Wasserman,
1995).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from pymc_arm.algorithm.resampling import effective_sample_size, log_mean_exp, normalize
from pymc_arm.errors import DrawsError
from pymc_arm.estimation.convergence import pareto_k
from pymc_arm.models.compiled import ModelPath
from pymc_arm.results import Evidence

__all__ = ["FEWEST_EFFECTIVE", "LARGEST_TAIL_INDEX", "Nested", "NestedRatio", "nested_ratio"]

# As in sensitivity.py: weights with a heavier tail have no variance, and so no standard error.
LARGEST_TAIL_INDEX = 0.5
FEWEST_EFFECTIVE = 100
# A single chain is cut into so many parts; of each part's draws B and w know nothing.
PARTS = 4
# w ends here, in its standard deviations: its weights are bounded, and 1 % of a normal is lost.
# Without an end, w beyond the outermost draws decides about the error; at 2 ends 5 % is lost.
END = 2.6
# Draws that the map and w are fitted to: their few parameters are known to some percent then.
MOST_FITTED = 1000
# Logarithms of factors on the standard deviation of w that are tried.
SCALES = (-0.6, -0.4, -0.2, -0.1, 0.0, 0.1, 0.2)
# Of fitting the map: with a variance as a nuisance two or three rounds help.
ROUNDS = 6


@dataclass(frozen=True)
class NestedRatio:
    """The log Bayes factor of a nested model against the one that was sampled.

    Attributes
    ----------
    estimate
        Its value and error.
    effective_draws
        How many independent draws the average is worth.
    tail_index
        The Pareto k of the weights.
    weights
        What is averaged at each draw, relative to the average: errors of several ratios by the same
        draws are correlated as these are.
    """

    estimate: Evidence
    effective_draws: float
    tail_index: float
    weights: np.ndarray

    @property
    def reliable(self) -> bool:
        """Whether the standard error can be trusted."""
        enough = self.effective_draws >= FEWEST_EFFECTIVE
        return enough and self.tail_index < LARGEST_TAIL_INDEX


@dataclass(frozen=True)
class Nested:
    """A nested model: which coordinates are fixed, where, and the weights of the terms it keeps."""

    fixed: np.ndarray
    at: np.ndarray
    kept: np.ndarray


def nested_ratio(
    path: ModelPath, points: np.ndarray, nested: Nested, independent: float
) -> NestedRatio:
    """Estimate the Bayes factor of a nested model from draws of the larger one.

    Parameters
    ----------
    path
        Of the larger model.
    points
        Draws of its posterior, (chain, draw, coordinate).
    nested
        What is fixed.
    independent
        How many independent draws there are.
    """
    parts = np.array_split(points.reshape(-1, points.shape[2]), _parts(points))
    log_weights = np.concatenate(
        [
            _weights(path, part, np.concatenate(parts[:k] + parts[k + 1 :]), nested)
            for k, part in enumerate(parts)
        ]
    )
    estimate, effective = _average(log_weights, len(parts), independent)
    weights = (
        np.exp(log_weights - estimate.log_evidence) if effective else np.zeros(len(log_weights))
    )
    return NestedRatio(estimate, effective, pareto_k(log_weights), weights)


def _parts(points: np.ndarray) -> int:
    chains = int(points.shape[0])
    if points.shape[0] * points.shape[1] < FEWEST_EFFECTIVE:
        size = points.shape[0] * points.shape[1]
        raise DrawsError(
            f"There are {size} draws: {FEWEST_EFFECTIVE} or more are needed. Draw more."
        )
    return PARTS if chains == 1 else min(chains, 2 * PARTS)


def _weights(path: ModelPath, points: np.ndarray, others: np.ndarray, nested: Nested) -> np.ndarray:
    """Return the log of what is averaged, at some draws, with the map and w fitted to others."""
    others = others[:: -(-len(others) // MOST_FITTED)]
    fixed = nested.fixed
    window = _Window.fit(others[:, fixed])
    chosen, log_ratio = _fit_map(path, others, nested, window.log_density(others[:, fixed]))
    window = _Window.fit(others[:, fixed], log_ratio)
    weights: np.ndarray = chosen.log_ratio(path, points) + window.log_density(points[:, fixed])
    return weights


def _fit_map(
    path: ModelPath, draws: np.ndarray, nested: Nested, log_window: np.ndarray
) -> tuple["_Map", np.ndarray]:
    """Return the map with the least variance of the weights of these draws, and their log ratios.

    It begins with the regression of psi on delta, or without one. Then the mean of what it gives,
    and its standard deviations, are matched to those under the weights, as long as that helps
    (Paananen, Piironen, Burkner and Vehtari, 2021).
    """
    layout, fixed = path.plan.layout, nested.fixed
    steady = np.concatenate([np.full(s.size, s.discrete or s.bound < np.inf) for s in layout.slots])
    steady[fixed] = True
    centered = draws - draws.mean(axis=0)
    regression = np.linalg.lstsq(centered[:, fixed], centered, rcond=None)[0]
    regression[:, steady] = 0.0
    zeros, ones = np.zeros(draws.shape[1]), np.ones(draws.shape[1])
    still = _Map(nested, np.zeros_like(regression), zeros, ones)
    candidates = [still, _Map(nested, regression, nested.at @ regression, ones)]
    best, best_ratio, least = still, np.full(len(draws), -np.inf), math.inf
    for _ in range(ROUNDS):
        before = least
        for candidate in candidates:
            ratio = candidate.log_ratio(path, draws)
            spread = _relative_variance(ratio + log_window)
            if spread < least:
                best, best_ratio, least = candidate, ratio, spread
        if not least < before:
            break
        weights = np.exp(normalize(best_ratio + log_window))
        moved, residual = best(draws), draws - draws[:, fixed] @ best.regression
        mean = weights @ moved
        deviation = np.sqrt(weights @ (moved - mean) ** 2)
        candidates = []
        for scale in (best.scale, deviation / np.maximum(residual.std(axis=0), 1e-300)):
            scale = np.where(steady | ~(scale > 0), 1.0, scale)
            shift = np.where(steady, 0.0, mean - scale * residual.mean(axis=0))
            candidates.append(_Map(nested, best.regression, shift, scale))
    return best, best_ratio


@dataclass(frozen=True)
class _Map:
    """From (delta, psi) to (delta_0, psi'), with psi' = shift + scale (psi - B delta)."""

    nested: Nested
    regression: np.ndarray
    shift: np.ndarray
    scale: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return where points go."""
        moved: np.ndarray = self.shift + self.scale * (
            points - points[:, self.nested.fixed] @ self.regression
        )
        moved[:, self.nested.fixed] = self.nested.at
        return moved

    def log_ratio(self, path: ModelPath, points: np.ndarray) -> np.ndarray:
        """Return log q(delta_0, psi') - log p(delta_0 | psi') - log q(delta, psi) at points.

        The Jacobian of the map is in it.
        """
        density = path.density
        with np.errstate(all="ignore"):
            nested = density.sum(self(points), self.nested.kept) + np.log(self.scale).sum()
            ratio: np.ndarray = nested - density.sum(points, np.ones(density.count))
        return np.where(np.isnan(ratio), -np.inf, ratio)


@dataclass(frozen=True)
class _Window:
    """The density w: a normal one without its tails."""

    mean: np.ndarray
    inverse: np.ndarray  # of the Cholesky factor of the covariance
    log_constant: float

    @classmethod
    def make(cls, mean: np.ndarray, factor: np.ndarray) -> "_Window":
        size = len(mean)
        kept = float(scipy.special.gammainc(0.5 * size, 0.5 * _end(size) ** 2))
        constant = -0.5 * size * math.log(2 * math.pi) - float(np.log(np.diag(factor)).sum())
        return cls(mean, np.linalg.inv(factor), constant - math.log(kept))

    @classmethod
    def fit(cls, draws: np.ndarray, log_ratio: np.ndarray | None = None) -> "_Window":
        """Return a window of the draws; by ratios, that with the least variance of weights."""
        mean, size = draws.mean(axis=0), draws.shape[1]
        factor = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
        if log_ratio is None or not np.isfinite(log_ratio).any():
            return cls.make(mean, factor)

        def window(parameters: np.ndarray) -> _Window:
            return cls.make(mean + factor[:, 0] * parameters[1], factor * math.exp(parameters[0]))

        def spread(parameters: np.ndarray) -> float:
            return _relative_variance(log_ratio + window(parameters).log_density(draws))

        # The scale, and for a single variable the place: more than that was not worth its time.
        grid = [np.array([scale, 0.0]) for scale in SCALES]
        best = min(grid, key=spread)
        if size == 1:
            found = scipy.optimize.minimize(
                spread, best, method="Nelder-Mead", options={"maxiter": 60}
            )
            best = found.x if found.fun < spread(best) else best
        return window(best)

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        """Return log w at draws of the fixed variables."""
        squares = (((draws - self.mean) @ self.inverse.T) ** 2).sum(axis=1)
        inside = squares <= _end(len(self.mean)) ** 2
        return np.where(inside, self.log_constant - 0.5 * squares, -np.inf)


def _end(size: int) -> float:
    """Return the distance at which a window of some dimension ends: it keeps as much as of one."""
    kept = scipy.special.gammainc(0.5, 0.5 * END**2)
    return float(np.sqrt(2 * scipy.special.gammaincinv(0.5 * size, kept)))


def _relative_variance(log_weights: np.ndarray) -> float:
    effective = effective_sample_size(log_weights) if np.isfinite(log_weights).any() else 0.0
    return len(log_weights) / effective - 1 if effective else math.inf


def _average(log_weights: np.ndarray, parts: int, count: float) -> tuple[Evidence, float]:
    """Return the log of the mean weight with its error, and the independent draws behind it.

    The error is that of the weights within parts, which have a B and a w of their own, or that of
    the differences between parts, if it is larger.
    """
    if not np.isfinite(log_weights).any():
        return Evidence(-math.inf, math.inf, 1), 0.0
    weights = np.exp(log_weights - log_mean_exp(log_weights))
    by_part = np.array_split(weights, parts)
    means = np.array([part.mean() for part in by_part])
    around = np.concatenate([part - part.mean() for part in by_part])
    within, between = float(np.mean(around**2)) / count, float(means.var(ddof=1)) / parts
    effective = count * effective_sample_size(log_weights) / log_weights.size
    freedom = max(effective - 1, 1) if within >= between else parts - 1
    estimate = Evidence(log_mean_exp(log_weights), math.sqrt(max(within, between)), freedom)
    return estimate, effective
