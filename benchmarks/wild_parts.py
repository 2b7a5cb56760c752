"""Parts of random models that are wild: vague priors, integers, small types, transforms, bounds.

Each adds its variables to the model on the stack and returns its exact log evidence, as the parts
of `benchmarks.random_models` do.
"""

import numpy as np
import pymc as pm
from pymc.distributions import transforms
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.suite.numerics import gauss_legendre, log_integral, log_multivariate_normal

__all__ = ["WILD_PARTS"]

INTEGERS = ("int8", "uint8", "int16", "int32", "int64")


def integer_rate(rng: np.random.Generator, name: str) -> float:
    """Add a rate whose prior has integer parameters, with counts of any integer type."""
    shape, rate = int(rng.integers(1, 6)), int(rng.integers(1, 12))
    counts = rng.poisson(rng.gamma(shape, 1 / rate), size=rng.integers(1, 6))
    observed = counts.astype(str(rng.choice(INTEGERS)))
    x = pm.Exponential(f"{name}_x", rate) if shape == 1 else pm.Gamma(f"{name}_x", shape, rate)
    pm.Poisson(f"{name}_y", x, observed=observed)
    total = counts.sum()
    result = shape * np.log(rate) - gammaln(shape) + gammaln(shape + total)
    result -= (shape + total) * np.log(rate + len(counts)) + gammaln(counts + 1).sum()
    return float(result)


def integer_data(rng: np.random.Generator, name: str) -> float:
    """Add a slope of integer predictors whose noise is a power of integer data."""
    size = int(rng.integers(2, 9))
    x = rng.integers(-9 if rng.random() < 0.5 else 0, 10, size).astype("int8")
    weights = rng.integers(1, 9, size).astype(str(rng.choice(INTEGERS)))
    power = float(rng.choice([-1.0, -0.5, 0.5]))
    y = 0.3 * x + rng.normal(size=size)
    slope = pm.Normal(f"{name}_slope", 0, 2)
    noise = pm.Data(f"{name}_weights", weights) ** power
    pm.Normal(f"{name}_y", slope * pm.Data(f"{name}_predictor", x), noise, observed=y)
    variances = weights.astype(float) ** (2 * power)
    wide = x.astype(float)
    return log_multivariate_normal(y, 0.0, 4 * np.outer(wide, wide) + np.diag(variances))


def vague_precision(rng: np.random.Generator, name: str) -> float:
    """Add a precision under Gamma(eps, eps)."""
    epsilon = float(10 ** rng.uniform(-3, -0.5))
    y = 10 ** rng.uniform(-2, 2) * rng.normal(size=rng.integers(2, 9))
    precision = pm.Gamma(f"{name}_precision", epsilon, epsilon)
    pm.Normal(f"{name}_y", 0, tau=precision, observed=y)
    shape, rate = epsilon + len(y) / 2, epsilon + (y**2).sum() / 2
    result = epsilon * np.log(epsilon) - gammaln(epsilon) + gammaln(shape)
    return float(result - shape * np.log(rate) - 0.5 * len(y) * np.log(2 * np.pi))


def wild_scales(rng: np.random.Generator, name: str) -> float:
    """Add normals whose prior and noise differ by up to six decades, in single precision or not."""
    spread, noise = 10 ** rng.uniform(-3, 3, size=2)
    size = int(rng.integers(1, 4))
    y = np.hypot(spread, noise) * rng.normal(size=size)
    if rng.random() < 0.5:
        y = y.astype("float32")
    x = pm.Normal(f"{name}_x", 0, spread, shape=size)
    pm.Normal(f"{name}_y", x, noise, observed=y)
    return float(stats.norm.logpdf(y.astype(float), 0, np.hypot(spread, noise)).sum())


def cauchy_sum(rng: np.random.Generator, name: str) -> float:
    """Add a Cauchy variable read with Cauchy noise."""
    spread, noise = 10 ** rng.uniform(-1, 1, size=2)
    y = (spread + noise) * rng.standard_cauchy()
    x = pm.Cauchy(f"{name}_x", 0, spread)
    pm.Cauchy(f"{name}_y", x, noise, observed=y)
    return float(stats.cauchy.logpdf(y, 0, spread + noise))


def half_cauchy_scale(rng: np.random.Generator, name: str) -> float:
    """Add a scale under a half-Cauchy or a half-t prior."""
    width, freedom = float(10 ** rng.uniform(-0.5, 1.5)), float(rng.choice([1, 3]))
    y = 10 ** rng.uniform(-1, 1) * rng.normal(size=rng.integers(3, 9))
    if freedom == 1:
        scale = pm.HalfCauchy(f"{name}_scale", width)
    else:
        scale = pm.HalfStudentT(f"{name}_scale", nu=freedom, sigma=width)
    pm.Normal(f"{name}_y", 0, scale, observed=y)

    def log_joint(log_scale: np.ndarray) -> np.ndarray:
        values = np.exp(log_scale)
        log_prior = np.log(2) + stats.t.logpdf(values, freedom, scale=width) + log_scale
        return log_prior + stats.norm.logpdf(y[:, None], 0, values).sum(0)

    return log_integral(log_joint, gauss_legendre(-12, 25, 200))


def ordered_variables(rng: np.random.Generator, name: str) -> float:
    """Add ordered variables under a symmetric potential: the k! orders cancel."""
    size, tilt = int(rng.integers(2, 5)), rng.uniform(0.1, 3)
    kind = str(rng.choice(["normal", "exponential", "beta"]))
    # Equal values, PyMC's default, are not an initial point of ordered variables.
    ordered = {"transform": transforms.ordered, "initval": np.linspace(0.2, 0.8, size)}
    if kind == "normal":
        x = pm.Normal(f"{name}_x", 0, 1, shape=size, **ordered)
        each = 0.5 * tilt**2
    elif kind == "exponential":
        x = pm.Exponential(f"{name}_x", 2.0, shape=size, **ordered)
        each = np.log(2 / (2 + tilt))
    else:
        x = pm.Beta(f"{name}_x", 1.0, 2.0, shape=size, **ordered)
        # The integral of 2 (1 - x) exp(-t x) over (0, 1).
        each = np.log(2 * (tilt + np.expm1(-tilt)) / tilt**2)
    pm.Potential(f"{name}_tilt", -tilt * pm.math.sum(x))
    return float(size * each)


def random_bound(rng: np.random.Generator, name: str) -> float:
    """Add a place that is uniform up to a random bound."""
    rate, place = rng.uniform(0.05, 0.5), int(rng.integers(0, 15))
    bound = pm.Geometric(f"{name}_bound", rate)
    x = pm.DiscreteUniform(f"{name}_x", 0, bound)
    pm.Normal(f"{name}_y", x, 1.0, observed=float(place))
    bounds, places = np.arange(1, 900)[:, None], np.arange(60)
    log_terms = stats.geom.logpmf(bounds, rate) - np.log(bounds + 1)
    log_terms = np.where(places <= bounds, log_terms, -np.inf)
    return float(logsumexp(log_terms + stats.norm.logpdf(place, places, 1.0)))


def two_roots(rng: np.random.Generator, name: str) -> float:
    """Add a root of a noisy square: two peaks."""
    noise, square = rng.uniform(0.05, 1), rng.uniform(0, 6)
    center = rng.normal(0, 0.5)
    x = pm.Normal(f"{name}_x", center, 2)
    pm.Normal(f"{name}_y", x**2, noise, observed=square)

    def log_joint(root: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(root, center, 2) + stats.norm.logpdf(square, root**2, noise)

    return log_integral(log_joint, gauss_legendre(-8, 8, 400))


def softplus_rate(rng: np.random.Generator, name: str) -> float:
    """Add a rate on another scale than the default one."""
    shape, tilt = rng.uniform(1, 4), rng.uniform(0.1, 10)
    x = pm.Gamma(f"{name}_x", shape, 1.0, default_transform=transforms.log_exp_m1)
    pm.Potential(f"{name}_tilt", -tilt * x)
    return float(-shape * np.log1p(tilt))


WILD_PARTS = {
    part.__name__: part
    for part in (
        integer_rate,
        integer_data,
        vague_precision,
        wild_scales,
        cauchy_sum,
        half_cauchy_scale,
        ordered_variables,
        random_bound,
        two_roots,
        softplus_rate,
    )
}
