"""Models of two to five parameters with hostile numbers, whose log Z is a closed form or a sum.

Scales of 1e-30 and 1e30, calendar years, counts of 1e9, single precision, columns that are constant
or equal, labels that a line separates, one observation, a million observations.
"""

from collections.abc import Iterator

import numpy as np
import pymc as pm
import pytensor
from scipy import stats
from scipy.special import betaln, gammaln, log_expit

from benchmarks.hostile.tally import Case
from benchmarks.suite.numerics import (
    gauss_legendre,
    log_integral,
    log_inverse_gamma_regression,
)

__all__ = ["numeric_cases"]


def log_known_noise(
    y: np.ndarray, design: np.ndarray, spread: np.ndarray | float, noise: np.ndarray | float
) -> np.ndarray:
    """Return log Z of a regression with slopes N(0, spread^2), for one noise or several."""
    noise = np.atleast_1d(np.asarray(noise, dtype=float))
    scaled = design * spread
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    projected = left.T @ y
    rest = max(y @ y - projected @ projected, 0.0)
    variances = singular[:, None] ** 2 + noise**2
    logs = np.log(variances).sum(0) + 2 * (len(y) - len(singular)) * np.log(noise)
    squares = (projected[:, None] ** 2 / variances).sum(0) + rest / noise**2
    return -0.5 * (len(y) * np.log(2 * np.pi) + logs + squares)


def _regression(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    spread: float,
    noise: float,
    dtype: str = "float64",
    floats: str = "float64",
) -> Case:
    """Make a regression with a known noise, on columns as they are."""

    def build() -> pm.Model:
        with pytensor.config.change_flags(floatX=floats), pm.Model() as model:
            slopes = pm.Normal("slopes", 0, spread, shape=x.shape[1])
            mean = pm.math.dot(x.astype(dtype), slopes)
            pm.Normal("y", mean, noise, observed=y.astype(dtype))
        return model

    rounded_x, rounded_y = x.astype(dtype).astype(float), y.astype(dtype).astype(float)
    exact = float(log_known_noise(rounded_y, rounded_x, spread, noise)[0])
    return Case(name, build, exact, single="float32" in (dtype, floats))


def _unknown_noise(name: str, x: np.ndarray, y: np.ndarray, spread: float, noise: float) -> Case:
    """Make a regression whose noise has a half-normal prior."""

    def build() -> pm.Model:
        with pm.Model() as model:
            slopes = pm.Normal("slopes", 0, spread, shape=x.shape[1])
            sigma = pm.HalfNormal("sigma", noise)
            pm.Normal("y", pm.math.dot(x, slopes), sigma, observed=y)
        return model

    def log_joint(log_sigma: np.ndarray) -> np.ndarray:
        sigma = np.exp(log_sigma) * noise
        log_prior = 0.5 * np.log(2 / np.pi) - 0.5 * (sigma / noise) ** 2 + log_sigma
        return log_prior + log_known_noise(y, x, spread, sigma)

    return Case(name, build, log_integral(log_joint, gauss_legendre(-20, 4, 400)))


def _conjugate_noise(name: str, scale: float) -> Case:
    """Make normal data of a wild scale, with an inverse-gamma variance and a mean of that scale."""
    rng = np.random.default_rng(1)
    y = scale * rng.normal(1, 1, 12)

    def build() -> pm.Model:
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 3, 2 * scale**2)
            mean = pm.Normal("mean", 0, pm.math.sqrt(variance) * 2)
            pm.Normal("y", mean, pm.math.sqrt(variance), observed=y)
        return model

    exact = log_inverse_gamma_regression(
        y / scale, np.ones((12, 1)), np.zeros(1), np.array([[4.0]]), 3.0, 2.0
    )
    return Case(name, build, exact - 12 * np.log(scale))


def _logistic(name: str, x: np.ndarray, labels: np.ndarray, spread: float, shift: float) -> Case:
    """Make a logistic regression with two coefficients; its log Z is a quadrature."""

    def build() -> pm.Model:
        with pm.Model() as model:
            intercept = pm.Normal("intercept", 0, spread)
            slope = pm.Normal("slope", 0, spread)
            pm.Bernoulli("y", logit_p=intercept + slope * x, observed=labels)
        return model

    signs = np.where(labels, 1.0, -1.0)
    unit = shift or 1.0

    # The second coordinate is the slope, or the logit at the middle of a column far from zero.
    def log_joint(first: float, second: float) -> float:
        slope = (second - first) / unit if shift else second
        log_prior = stats.norm.logpdf([first, slope], 0, spread).sum() - np.log(unit)
        return float(log_expit(signs * (first + slope * x)).sum() + log_prior)

    width = 8 * spread
    second = gauss_legendre(-10, 10, 14) if shift else gauss_legendre(-width, width, 14)
    rules = (gauss_legendre(-width, width, 14), second)
    log_sum = np.vectorize(log_joint)
    return Case(name, build, log_integral(log_sum, *rules))


def _counts(name: str, counts: np.ndarray, prior_mean: float) -> Case:
    """Make Poisson counts with a gamma prior."""
    shape, rate = 2.0, 2.0 / prior_mean

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Gamma("mean", shape, rate)
            pm.Poisson("y", mean, observed=counts)
        return model

    total, size = float(counts.sum(dtype=float)), len(counts)
    exact = shape * np.log(rate) - gammaln(shape) + gammaln(shape + total)
    exact -= (shape + total) * np.log(rate + size) + gammaln(counts.astype(float) + 1).sum()
    return Case(name, build, float(exact))


def _successes(name: str, successes: np.ndarray, trials: int) -> Case:
    """Make binomial counts with a beta prior."""

    def build() -> pm.Model:
        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Binomial("y", n=trials, p=p, observed=successes)
        return model

    wide = successes.astype(float)
    choose = gammaln(trials + 1.0) - gammaln(wide + 1) - gammaln(trials - wide + 1)
    total, misses = wide.sum(), (trials - wide).sum()
    return Case(name, build, float(choose.sum() + betaln(1 + total, 1 + misses)))


def _coin_tosses(size: int) -> Case:
    tosses = np.random.default_rng(2).random(size) < 0.3

    def build() -> pm.Model:
        with pm.Model() as model:
            p = pm.Beta("p", 1, 1)
            pm.Bernoulli("y", p, observed=tosses)
        return model

    heads = int(tosses.sum())
    return Case(f"{size} coin tosses", build, float(betaln(1 + heads, 1 + size - heads)))


def _one_observation() -> Case:
    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 1)
            sigma = pm.HalfNormal("sigma", 1)
            pm.Normal("y", mean, sigma, observed=2.5)
        return model

    def log_joint(log_sigma: np.ndarray) -> np.ndarray:
        sigma = np.exp(log_sigma)
        log_prior = 0.5 * np.log(2 / np.pi) - 0.5 * sigma**2 + log_sigma
        return log_prior + stats.norm.logpdf(2.5, 0, np.hypot(1, sigma))

    return Case("one observation", build, log_integral(log_joint, gauss_legendre(-25, 3, 400)))


def _missing(name: str, y: np.ndarray, spread: float, noise: float) -> Case:
    """Make a common mean of data with gaps, which NumPy masks."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, spread)
            pm.Normal("y", mean, noise, observed=np.ma.masked_invalid(y))
        return model

    seen = y[np.isfinite(y)]
    exact = float(log_known_noise(seen, np.ones((len(seen), 1)), spread, noise)[0])
    return Case(name, build, exact)


def _poisson_years() -> Case:
    """Make counts that grow over calendar years, with an intercept far from the data."""
    years = np.arange(1900, 2021, 10).astype(float)
    counts = np.random.default_rng(4).poisson(np.exp(1 + 0.02 * (years - 1960)))

    def build() -> pm.Model:
        with pm.Model() as model:
            intercept = pm.Normal("intercept", 0, 50)
            slope = pm.Normal("slope", 0, 0.1)
            pm.Poisson("y", pm.math.exp(intercept + slope * years), observed=counts)
        return model

    log_sum = np.vectorize(
        lambda a, b: (
            stats.poisson.logpmf(counts, np.exp(a + b * (years - 1960))).sum()
            + stats.norm.logpdf(a - 1960 * b, 0, 50)
            + stats.norm.logpdf(b, 0, 0.1)
        )
    )
    rules = (gauss_legendre(-1, 3, 10), gauss_legendre(-0.03, 0.07, 10))
    return Case("counts over raw years", build, log_integral(log_sum, *rules))


def numeric_cases(quick: bool = False) -> Iterator[Case]:
    """Yield the cases; without those of many data where ``quick``."""
    rng = np.random.default_rng(3)
    ones = np.ones(40)
    x = rng.normal(size=40)
    y = 0.5 + 0.8 * x + rng.normal(size=40)
    line = np.column_stack([ones, x])
    years = np.arange(1900, 2021).astype(float)
    trend = 12.0 + 0.01 * (years - 1960) + 0.3 * rng.normal(size=len(years))
    calendar = np.column_stack([np.ones_like(years), years])
    for precision in ("float32", "float64"):
        for floats in ("float32", "float64"):
            name = f"{precision} data in a {floats} model"
            yield _regression(name, line, y, 1.0, 1.0, precision, floats)
    yield _regression("years in single precision", calendar, trend, 1.0, 0.3, "float32", "float32")
    for scale in (1e-30, 1e-10, 1e10, 1e30):
        name = f"data of {scale:.0e}"
        yield _regression(name, line, scale * y, scale, scale)
        yield _conjugate_noise(f"{name}, unknown scale", scale)
        yield _regression(f"predictor of {scale:.0e}", scale * line, y, 1 / scale, 1.0)
    yield _unknown_noise("data of 1e-30, noise under HalfNormal(1)", line, 1e-30 * y, 1.0, 1.0)
    yield _unknown_noise("data of 1e30, noise under HalfNormal(1e30)", line, 1e30 * y, 1e30, 1e30)
    yield _regression("raw years", calendar, trend, 100.0, 0.3)
    yield _regression("raw years, narrow noise", calendar, trend, 1000.0, 0.003)
    yield _unknown_noise("raw years, unknown noise", calendar, trend, 100.0, 1.0)
    squares = np.column_stack([calendar, years**2])
    yield _unknown_noise("raw years and their squares", squares, trend, 100.0, 1.0)
    yield _poisson_years()
    yield _logistic("labels over raw years", years, rng.random(121) < 0.3, 1.0, 1960.0)
    for kind in ("int64", "uint32", "float64"):
        yield _counts(f"counts of 1e9, {kind}", rng.poisson(1e9, 5).astype(kind), 1e9)
        yield _successes(f"1e9 of 3e9, {kind}", rng.poisson(1e9, 3).astype(kind), 3_000_000_000)
    yield _counts("counts of 1e9 where ten are expected", rng.poisson(1e9, 5), 10.0)
    yield _counts("counts of 1e15", rng.poisson(1e15, 5), 1e15)
    yield _regression("a constant column", np.column_stack([ones, ones, x]), y, 1.0, 1.0)
    yield _regression("a column of zeros", np.column_stack([0 * ones, x]), y, 1.0, 1.0)
    yield _regression("equal columns", np.column_stack([x, x]), y, 1.0, 1.0)
    yield _regression("five equal columns", np.column_stack([x] * 5), y, 10.0, 0.1)
    yield _unknown_noise("equal columns, unknown noise", np.column_stack([x, x]), y, 100.0, 1.0)
    nearly = np.column_stack([x, x + 1e-9 * rng.normal(size=40)])
    yield _unknown_noise("columns equal to 1e-9", nearly, y, 100.0, 1.0)
    opposite = np.column_stack([ones, x, ones - x])
    yield _unknown_noise("columns that sum to one", opposite, y, 1000.0, 1.0)
    yield _logistic("separable labels", x, x > 0.1, 5.0, 0.0)
    yield _logistic("separable labels, vague prior", x, x > 0.1, 100.0, 0.0)
    yield _logistic("equal labels", x, x > -99, 5.0, 0.0)
    yield _one_observation()
    yield _regression("one observation, three slopes", np.ones((1, 3)), y[:1], 10.0, 1e-3)
    yield _missing("a gap", np.array([1.0, np.nan, 2.0]), 1.0, 1.0)
    yield _missing("all but one missing", np.array([np.nan, np.nan, np.nan, 2.0]), 10.0, 0.1)
    yield _missing("gaps in a matrix", np.where(rng.random((4, 3)) < 0.4, np.nan, 1.5), 1.0, 1.0)
    if not quick:
        for size in (100_000, 1_000_000):
            many = rng.normal(size=size)
            design = np.column_stack([np.ones(size), many])
            name = f"{size} observations"
            yield _regression(name, design, many + rng.normal(size=size), 1.0, 1.0)
            yield _coin_tosses(size)
            yield _counts(f"{size} counts", rng.poisson(3.0, size), 3.0)
        wide = np.column_stack([np.ones(100_000), rng.normal(size=(100_000, 4))])
        response = wide @ np.arange(5) + rng.normal(size=100_000)
        yield _unknown_noise("100000 rows, unknown noise", wide, response, 10.0, 1.0)
