"""Models with a Gaussian field and unknown parameters, with an exact log Z where there is one.

``python -m benchmarks fields [name ...] [--seeds N]`` runs those whose name begins so. Exact values
are quadrature over the parameters: normal data are integrated in closed form, and counts whose
log-rates are a reflection of independent normals one by one. Without an exact value, error and
error/se are NaN.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
from scipy import special, stats

import pymc_arm
from benchmarks.limited import cpu_seconds

__all__ = ["COMMANDS", "PROBLEMS"]

# A model, and what its log Z is.
Problem = Callable[[], tuple[pm.Model, float]]


def _normal_evidence(covariance: np.ndarray, y: np.ndarray) -> float:
    """Return the log-density of normal data with mean zero."""
    lower = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(lower, y)
    log_determinant = 2 * np.log(np.diag(lower)).sum()
    return float(-0.5 * (whitened @ whitened + log_determinant + len(y) * np.log(2 * np.pi)))


def _integrate(log_density: Callable[..., float], *grids: np.ndarray) -> float:
    """Return the log of an integral over equally spaced grids."""
    points = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))
    logs = [log_density(*point) for point in points]
    return float(special.logsumexp(logs) + sum(np.log(grid[1] - grid[0]) for grid in grids))


def local_level(steps: int) -> tuple[pm.Model, float]:
    """Return a random walk seen with noise, both scales unknown."""
    rng = np.random.default_rng(steps)
    y = np.cumsum(0.4 * rng.normal(size=steps)) + 0.3 * rng.normal(size=steps)
    with pm.Model() as model:
        step, noise = pm.HalfNormal("step", 1), pm.HalfNormal("noise", 1)
        level = pm.GaussianRandomWalk(
            "level", sigma=step, init_dist=pm.Normal.dist(0, 2), steps=steps - 1
        )
        pm.Normal("y", level, noise, observed=y)

    def log_density(log_step: float, log_noise: float) -> float:
        """Return the Kalman filter's log-density, and the priors."""
        step, noise = np.exp(log_step), np.exp(log_noise)
        mean, variance, total = 0.0, 4.0, 0.0
        for value in y:
            spread = variance + noise**2
            total -= 0.5 * ((value - mean) ** 2 / spread + np.log(2 * np.pi * spread))
            gain = variance / spread
            mean, variance = mean + gain * (value - mean), (1 - gain) * variance + step**2
        priors = stats.halfnorm.logpdf([step, noise]).sum()
        return float(total + priors + log_step + log_noise)

    center = np.log([0.4, 0.3])
    width = 40 / np.sqrt(steps) * np.array([1.0, 1.0])
    grids = [np.linspace(c - w, c + w, 61) for c, w in zip(center, width, strict=True)]
    return model, _integrate(log_density, *grids)


def latent_process(points: int) -> tuple[pm.Model, float]:
    """Return a latent Gaussian process with normal data, length scale and amplitude unknown."""
    rng = np.random.default_rng(points)
    x = np.linspace(0, 10, points)
    squares = np.subtract.outer(x, x) ** 2
    field = np.linalg.cholesky(np.exp(-0.5 * squares / 1.5**2) + 1e-6 * np.eye(points))
    y = field @ rng.normal(size=points) + 0.3 * rng.normal(size=points)
    with pm.Model() as model:
        length, height = pm.LogNormal("length", 0.3, 0.5), pm.HalfNormal("height", 2)
        process = pm.gp.Latent(cov_func=height**2 * pm.gp.cov.ExpQuad(1, ls=length))
        pm.Normal("y", process.prior("f", X=x[:, None], jitter=1e-6), 0.3, observed=y)

    def log_density(log_length: float, log_height: float) -> float:
        covariance = np.exp(2 * log_height - 0.5 * squares * np.exp(-2 * log_length))
        covariance += (1e-6 + 0.09) * np.eye(points)
        total = _normal_evidence(covariance, y) + stats.norm.logpdf(log_length, 0.3, 0.5)
        return float(total + stats.halfnorm.logpdf(np.exp(log_height), 0, 2) + log_height)

    return model, _integrate(log_density, np.linspace(-2, 2.5, 71), np.linspace(-2, 2.5, 61))


def mirrored_counts(size: int) -> tuple[pm.Model, float]:
    """Return counts whose log-rates are a reflection of normals: none is independent."""
    rng = np.random.default_rng(size)
    counts = rng.poisson(np.exp(0.7 * rng.normal(size=size)))
    direction = np.ones(size) / np.sqrt(size)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        z = pm.Normal("z", 0, 1, shape=size)
        rate = pm.math.exp(scale * (z - 2 * direction * pm.math.dot(direction, z)))
        pm.Poisson("y", rate, observed=counts)
    nodes = np.linspace(-9, 9, 401)

    def log_density(log_scale: float) -> float:
        rates = np.exp(np.exp(log_scale) * nodes)
        logs = stats.norm.logpdf(nodes) + stats.poisson.logpmf(counts[:, None], rates)
        total = special.logsumexp(logs, axis=1).sum() + size * np.log(nodes[1] - nodes[0])
        return float(total + stats.halfnorm.logpdf(np.exp(log_scale)) + log_scale)

    return model, _integrate(log_density, np.linspace(-3, 1.5, 121))


def crossed_effects(rows: int, columns: int) -> tuple[pm.Model, float]:
    """Return effects of rows and of columns with normal data, the scale of each unknown."""
    rng = np.random.default_rng(rows)
    row, column = np.divmod(np.arange(rows * columns), columns)
    y = (0.6 * rng.normal(size=rows))[row] + (0.9 * rng.normal(size=columns))[column]
    y = y + rng.normal(size=len(y))
    with pm.Model() as model:
        first, second = pm.HalfNormal("first", 1), pm.HalfNormal("second", 1)
        base = pm.Normal("base", 0, 2)
        by_row = pm.Normal("by_row", 0, first, shape=rows)
        by_column = pm.Normal("by_column", 0, second, shape=columns)
        pm.Normal("y", base + by_row[row] + by_column[column], 1, observed=y)
    fixed = np.eye(len(y)) + 4.0
    same_row, same_column = (np.equal.outer(own, own).astype(float) for own in (row, column))

    def log_density(log_first: float, log_second: float) -> float:
        scales = np.exp([log_first, log_second])
        covariance = fixed + scales[0] ** 2 * same_row + scales[1] ** 2 * same_column
        priors = stats.halfnorm.logpdf(scales).sum() + log_first + log_second
        return _normal_evidence(covariance, y) + float(priors)

    return model, _integrate(log_density, np.linspace(-4, 1.5, 45), np.linspace(-3, 1.5, 45))


def cox_process(side: int) -> tuple[pm.Model, float]:
    """Return a log-Gaussian Cox process on a grid, with unknown level, scale and length."""
    rng = np.random.default_rng(side)
    places = np.stack(np.divmod(np.arange(side**2), side), axis=1).astype(float)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    lower = np.linalg.cholesky(np.exp(-distance / 2) + 1e-9 * np.eye(side**2))
    counts = rng.poisson(np.exp(0.5 + 0.8 * lower @ rng.normal(size=side**2)))
    with pm.Model() as model:
        level = pm.Normal("level", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        length = pm.InverseGamma("length", 3, 4)
        process = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.Exponential(2, ls=length))
        field = process.prior("f", X=places)
        pm.Poisson("y", pm.math.exp(level + field), observed=counts)
    return model, np.nan


def volatility(days: int) -> tuple[pm.Model, float]:
    """Return Student-t returns whose log-scale is a random walk."""
    rng = np.random.default_rng(days)
    log_scale = np.cumsum(0.1 * rng.normal(size=days)) - 4.0
    returns = np.exp(log_scale) * rng.standard_t(10, size=days)
    with pm.Model() as model:
        step = pm.Exponential("step", 10)
        walk = pm.GaussianRandomWalk(
            "walk", sigma=step, init_dist=pm.Normal.dist(0, 10), steps=days - 1
        )
        freedom = pm.Exponential("freedom", 0.1)
        pm.StudentT("change", nu=freedom, lam=pm.math.exp(-2 * walk), observed=returns)
    return model, np.nan


PROBLEMS: dict[str, Problem] = {
    "level_100": lambda: local_level(100),
    "level_1000": lambda: local_level(1000),
    "process_50": lambda: latent_process(50),
    "counts_30": lambda: mirrored_counts(30),
    "counts_300": lambda: mirrored_counts(300),
    "crossed_20": lambda: crossed_effects(20, 12),
    "cox_8": lambda: cox_process(8),
    "volatility_500": lambda: volatility(500),
}


def run(arguments: Sequence[str]) -> None:
    """Run problems, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fields")
    parser.add_argument("names", nargs="*", help="beginnings of names; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each")
    options = parser.parse_args(arguments)
    columns = f"{'log Z':>10s} {'error':>8s} {'se':>7s} {'error/se':>8s} {'CPU s':>6s}  verdict"
    print(f"{'problem':16s} seed {columns}")
    for name, problem in PROBLEMS.items():
        if options.names and not name.startswith(tuple(options.names)):
            continue
        truth = problem()[1]
        for seed in range(1, options.seeds + 1):
            model, began = problem()[0], cpu_seconds()
            attrs = pymc_arm.sample(model, random_seed=seed, progressbar=False).attrs
            seconds = cpu_seconds() - began
            found, error = attrs["log_marginal_likelihood"], attrs["log_marginal_likelihood_se"]
            print(
                f"{name:16s} {seed:4d} {found:10.3f} {found - truth:+8.4f} {error:7.4f} "
                f"{(found - truth) / error:+8.2f} {seconds:6.1f}  {attrs['verdict']}",
                flush=True,
            )


COMMANDS = {"fields": run}
