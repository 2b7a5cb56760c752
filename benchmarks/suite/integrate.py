"""An integrator of PyMC log-densities that knows nothing of the truths of the suite.

The coordinates of a model are split into five sets by a `Plan`:

* *gaussian*: given all others the log-density is quadratic in them; its curvature comes from
  gradients, the integral is exact;
* *enumerated*: discrete and dependent, summed jointly over all configurations;
* *grid*: a product rule over a few continuous coordinates;
* *independent*: given the others they are independent of each other, so each is summed (or
  integrated on nodes) by itself;
* the rest, a few continuous coordinates, by adaptive importance sampling: the only source of Monte
  Carlo error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from benchmarks.suite.density import BatchedDensity
from benchmarks.suite.numerics import Rule

__all__ = ["Plan", "integrate"]

DEGREES_OF_FREEDOM = 5


@dataclass(frozen=True)
class Plan:
    """How to integrate one model.

    Attributes
    ----------
    gaussian
        Names of the free variables in which the log-density is quadratic.
    enumerated
        Name of a discrete variable to the values that each of its elements can take.
    grid
        Name of a variable to a rule, nodes and log weights, for each of its value coordinates;
        jointly with the enumerated.
    independent
        The same, for coordinates that are independent of each other given the rest.
    start
        Values of independent coordinates at which the density is positive, where the initial point
        is not such a point.
    offset
        Log of the properly normalised density minus PyMC's.
    draws
        Number of importance draws of the remaining coordinates.
    compiled
        Whether the density is slow enough without a compiler to be worth compiling.
    """

    gaussian: tuple[str, ...] = ()
    enumerated: Mapping[str, np.ndarray] = field(default_factory=dict)
    grid: Mapping[str, Rule] = field(default_factory=dict)
    independent: Mapping[str, Rule] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    offset: float = 0.0
    draws: int = 4000
    compiled: bool = False


def _log_gaussian_integral(
    density: BatchedDensity, points: np.ndarray, inner: np.ndarray
) -> np.ndarray:
    """Integrate the quadratic coordinates out, one integral for each row."""
    rows, size = len(points), len(inner)
    shifted = np.repeat(points[:, None, :], size + 1, axis=1)
    shifted[:, np.arange(size), inner] += 1.0
    gradients = density.gradient(shifted.reshape(-1, density.size)).reshape(rows, size + 1, size)
    precision = gradients[:, -1:, :] - gradients[:, :-1, :]
    precision = (precision + precision.transpose(0, 2, 1)) / 2
    # Far out in the tails of a scale the curvature is singular in floating point; the mass there is
    # nil.
    usable = np.isfinite(precision).all((1, 2))
    eigenvalues = np.linalg.eigvalsh(np.where(usable[:, None, None], precision, np.eye(size)))
    usable &= eigenvalues[:, 0] > 1e-14 * eigenvalues[:, -1]
    precision = np.where(usable[:, None, None], precision, np.eye(size))
    mode = points.copy()
    mode[:, inner] += np.linalg.solve(precision, gradients[:, -1, :, None])[..., 0]
    # One more Newton step removes the rounding of the first where the start is far away.
    residual = density.gradient(mode)
    mode[:, inner] += np.linalg.solve(precision, residual[..., None])[..., 0]
    log_determinant = np.linalg.slogdet(precision)[1]
    log_integral = (
        density.log_density(mode) + 0.5 * size * np.log(2 * np.pi) - 0.5 * log_determinant
    )
    return np.where(usable, log_integral, -np.inf)


def _log_independent_sum(
    density: BatchedDensity, points: np.ndarray, coordinates: list[tuple[int, Rule]]
) -> np.ndarray:
    """Sum or integrate each of the independent coordinates with the others held at a base point."""
    base = density.log_density(points)
    total = base.copy()
    for coordinate, (nodes, log_weights) in coordinates:
        varied = np.repeat(points[:, None, :], len(nodes), axis=1)
        varied[:, :, coordinate] = nodes
        log_values = density.log_density(varied.reshape(-1, density.size)).reshape(
            len(points), len(nodes)
        )
        total += logsumexp(log_values + log_weights, axis=1) - base
    return total


def _adaptive_importance_sampling(
    log_function: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Integrate by population Monte Carlo, after Cappe et al. (2004), with Student-t kernels.

    Returns
    -------
    log_integral, standard_error
    """
    size = len(start)
    centers, root = start[None, :], 2.5 * np.eye(size)
    wide_center, wide_root = start, 2.5 * np.eye(size)
    kernel = stats.t(DEGREES_OF_FREEDOM)

    def log_kernel(points: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
        standardized = np.linalg.solve(scale, (points - center).T)
        return kernel.logpdf(standardized).sum(0) - np.linalg.slogdet(scale)[1]

    rounds = 7
    for number in range(rounds):
        last = number == rounds - 1
        count = draws if last else min(draws, 500)
        # A tenth of the draws is wide, so that weights stay bounded where the kernels miss mass.
        wide = rng.uniform(size=count) < 0.1
        noise = rng.standard_t(DEGREES_OF_FREEDOM, size=(count, size))
        chosen = centers[rng.integers(len(centers), size=count)] + noise @ root.T
        points = np.where(wide[:, None], wide_center + noise @ wide_root.T, chosen)
        log_narrow = logsumexp(
            [log_kernel(points, center, root) for center in centers], axis=0
        ) - np.log(len(centers))
        log_proposal = np.logaddexp(
            np.log(0.9) + log_narrow, np.log(0.1) + log_kernel(points, wide_center, wide_root)
        )
        log_weights = log_function(points) - log_proposal
        if last:
            break
        temperature = 1.0
        while True:
            weights = np.exp(temperature * (log_weights - log_weights.max()))
            weights /= weights.sum()
            if 1 / (weights**2).sum() > 0.1 * count or temperature < 1e-6:
                break
            temperature *= 0.7
        mean = weights @ points
        covariance = (weights * (points - mean).T) @ (points - mean) + 1e-10 * np.eye(size)
        centers = points[rng.choice(count, size=40, p=weights)]
        root = 0.45 * np.linalg.cholesky(covariance)
        wide_center, wide_root = mean, 2.0 * np.linalg.cholesky(covariance)
    scaled = np.exp(log_weights - log_weights.max())
    standard_error = scaled.std() / scaled.mean() / np.sqrt(count)
    return float(log_weights.max() + np.log(scaled.mean())), float(standard_error)


def integrate(density: BatchedDensity, plan: Plan, rng: np.random.Generator) -> tuple[float, float]:
    """Log integral of a model's density, with its Monte Carlo standard error.

    Parameters
    ----------
    density
        The model, differentiable in ``plan.gaussian``.
    plan
        What to do with each coordinate.
    rng
        Source of randomness; unused where nothing is left to sample.

    Returns
    -------
    log_integral, standard_error
    """
    inner = density.coordinates(plan.gaussian)
    discrete_rules = {
        name: (levels, np.zeros(len(levels))) for name, levels in plan.enumerated.items()
    }
    joint = [
        (position, rule)
        for name, rule in {**discrete_rules, **plan.grid}.items()
        for position in density.coordinates([name])
    ]
    independent = [
        (position, rule)
        for name, rule in plan.independent.items()
        for position in density.coordinates([name])
    ]
    if len(inner) and independent:
        raise ValueError("a plan may have gaussian or independent coordinates, not both")
    positions = [position for position, _ in joint]
    table = np.array(list(product(*(rule[0] for _, rule in joint))), dtype=float)
    table_log_weights = np.array([sum(row) for row in product(*(rule[1] for _, rule in joint))])
    summed = np.concatenate([inner, positions, [position for position, _ in independent]]).astype(
        int
    )
    outer = np.setdiff1d(np.arange(density.size), summed)
    base = density.start.copy()
    for name, value in plan.start.items():
        base[density.coordinates([name])] = value

    def log_function(outer_points: np.ndarray) -> np.ndarray:
        points = np.tile(base, (len(outer_points), 1))
        points[:, outer] = outer_points
        points = np.repeat(points, len(table), axis=0)
        points[:, positions] = np.tile(table, (len(outer_points), 1))
        if len(inner):
            values = _log_gaussian_integral(density, points, inner)
        else:
            values = _log_independent_sum(density, points, independent)
        return logsumexp(values.reshape(len(outer_points), len(table)) + table_log_weights, axis=1)

    if not len(outer):
        return float(log_function(np.empty((1, 0)))[0]) + plan.offset, 0.0
    estimate, standard_error = _adaptive_importance_sampling(
        log_function, density.start[outer], plan.draws, rng
    )
    return estimate + plan.offset, standard_error
