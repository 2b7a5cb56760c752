"""Parts of random models as tutorials write them: dims, plates, scans, own distributions, gaps.

Each adds its variables to the model on the stack and returns its exact log evidence, as the parts
of `benchmarks.random_models` do. Gaussian parts are closed forms; others are integrals over one
coordinate, or two.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, log_expit, log_ndtr, logsumexp

from benchmarks.suite.numerics import gauss_legendre, log_integral, log_multivariate_normal

__all__ = ["TUTORIAL_PARTS"]


def plates(rng: np.random.Generator, name: str) -> float:
    """Add effects of two crossed plates with dims, indexed by data, centred or not."""
    rows, columns, size = (int(n) for n in rng.integers([2, 2, 3], [5, 4, 12]))
    spread, noise = rng.uniform(0.3, 3, 2), rng.uniform(0.3, 2)
    model = pm.modelcontext(None)
    model.add_coord(f"{name}_row", [f"r{k}" for k in range(rows)])
    model.add_coord(f"{name}_column", np.arange(columns))
    row = rng.integers(rows, size=size).astype(str(rng.choice(["int8", "int32", "int64"])))
    column = rng.integers(columns, size=size)
    y = rng.normal(0, 2, size)
    index = pm.Data(f"{name}_index", row)
    if rng.random() < 0.5:
        first = pm.Normal(f"{name}_first", 0, spread[0], dims=f"{name}_row")
    else:
        offset = pm.Normal(f"{name}_offset", dims=f"{name}_row")
        first = pm.Deterministic(f"{name}_first", spread[0] * offset, dims=f"{name}_row")
    second = pm.Normal(f"{name}_second", 0, spread[1], dims=f"{name}_column")
    pm.Normal(f"{name}_y", first[index] + second[column], noise, observed=y)
    same = [np.equal.outer(which, which) for which in (row, column)]
    covariance = spread[0] ** 2 * same[0] + spread[1] ** 2 * same[1] + noise**2 * np.eye(size)
    return log_multivariate_normal(y, 0.0, covariance)


def unknown_spread(rng: np.random.Generator, name: str) -> float:
    """Add group effects whose common scale is unknown."""
    groups, each = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    width, noise = rng.uniform(0.5, 3), rng.uniform(0.3, 1.5)
    y = rng.normal(rng.normal(0, width, (groups, 1)), noise, (groups, each))
    scale = pm.HalfNormal(f"{name}_scale", width)
    if rng.random() < 0.5:
        effect = pm.Normal(f"{name}_effect", 0, scale, shape=(groups, 1))
    else:
        effect = pm.Normal(f"{name}_offset", shape=(groups, 1)) * scale
    pm.Normal(f"{name}_y", effect, noise, observed=y)
    means, rest = y.mean(1), ((y - y.mean(1, keepdims=True)) ** 2).sum()

    def log_joint(scales: np.ndarray) -> np.ndarray:
        spread = np.hypot(scales, noise / np.sqrt(each))
        log_means = stats.norm.logpdf(means[:, None], 0, spread).sum(0)
        return log_means + stats.halfnorm.logpdf(scales, scale=width)

    within = -0.5 * rest / noise**2 - 0.5 * groups * np.log(each)
    within -= groups * (each - 1) * (np.log(noise) + 0.5 * np.log(2 * np.pi))
    return float(within + log_integral(log_joint, gauss_legendre(0, 10 * width, 60)))


def scanned_walk(rng: np.random.Generator, name: str) -> float:
    """Add an autoregression that is a scan over its innovations."""
    length, persistence = int(rng.integers(2, 7)), rng.uniform(-0.9, 0.95)
    noise, y = rng.uniform(0.2, 2), rng.normal(0, 1.5, length)
    shock = pm.Normal(f"{name}_shock", 0, 1, shape=length)
    states = pytensor.scan(
        lambda each, before: persistence * before + each,
        sequences=[shock],
        outputs_info=[pt.zeros(())],
        return_updates=False,
    )
    pm.Normal(f"{name}_y", states, noise, observed=y)
    lags = np.subtract.outer(np.arange(length), np.arange(length))
    factor = np.tril(persistence ** np.maximum(lags, 0))
    return log_multivariate_normal(y, 0.0, factor @ factor.T + noise**2 * np.eye(length))


def random_walk(rng: np.random.Generator, name: str) -> float:
    """Add a Gaussian random walk with noise."""
    length, step, noise = int(rng.integers(3, 8)), rng.uniform(0.2, 2), rng.uniform(0.2, 2)
    start, y = rng.uniform(0.5, 3), rng.normal(0, 2, length)
    first = pm.Normal.dist(0, start)
    walk = pm.GaussianRandomWalk(f"{name}_x", sigma=step, init_dist=first, steps=length - 1)
    pm.Normal(f"{name}_y", walk, noise, observed=y)
    times = np.minimum.outer(np.arange(length), np.arange(length))
    return log_multivariate_normal(y, 0.0, start**2 + step**2 * times + noise**2 * np.eye(length))


def own_density(rng: np.random.Generator, name: str) -> float:
    """Add a variable or data whose density is a function of the user's."""
    a, b, y = rng.uniform(1, 4), rng.uniform(0.5, 3), rng.exponential(1.0, rng.integers(1, 6))

    def logp(value: pt.TensorVariable, rate: pt.TensorVariable) -> pt.TensorVariable:
        return pt.switch(value >= 0, pt.log(rate) - rate * value, -np.inf)

    rate = pm.Gamma(f"{name}_rate", a, b)
    pm.CustomDist(f"{name}_y", rate, logp=logp, observed=y)
    shape, total = a + len(y), b + y.sum()
    return float(gammaln(shape) - gammaln(a) + a * np.log(b) - shape * np.log(total))


def own_prior(rng: np.random.Generator, name: str) -> float:
    """Add a variable that is made of others: a shifted exponential by `dist`."""
    shift, rate, noise = rng.normal(), rng.uniform(0.3, 3), rng.uniform(0.2, 1.5)
    y = float(shift + rng.exponential(1 / rate) + noise * rng.normal())

    def shifted(rate: float, size: object) -> pt.TensorVariable:
        return shift + pm.Exponential.dist(rate, size=size)

    x = pm.CustomDist(f"{name}_x", rate, dist=shifted)
    pm.Normal(f"{name}_y", x, noise, observed=y)
    # An exponential with Gaussian noise is an exponentially modified Gaussian.
    return float(stats.exponnorm.logpdf(y, 1 / (rate * noise), shift, noise))


def censored(rng: np.random.Generator, name: str) -> float:
    """Add data that are cut off on both sides, with an unknown mean."""
    spread, noise = rng.uniform(0.5, 3), rng.uniform(0.3, 2)
    low, high = -rng.uniform(0.2, 2), rng.uniform(0.2, 2)
    y = np.clip(rng.normal(rng.normal(0, spread), noise, rng.integers(1, 8)), low, high)
    mean = pm.Normal(f"{name}_mean", 0, spread)
    pm.Censored(f"{name}_y", pm.Normal.dist(mean, noise), lower=low, upper=high, observed=y)

    def log_joint(means: np.ndarray) -> np.ndarray:
        total = stats.norm.logpdf(means, 0, spread)
        for each in y:
            if each == low:
                total = total + log_ndtr((low - means) / noise)
            elif each == high:
                total = total + log_ndtr((means - high) / noise)
            else:
                total = total + stats.norm.logpdf(each, means, noise)
        return total

    return log_integral(log_joint, gauss_legendre(-10 * spread, 10 * spread, 200))


def truncated(rng: np.random.Generator, name: str) -> float:
    """Add data that were seen only above a bound."""
    spread, noise, low = rng.uniform(0.5, 2), rng.uniform(0.3, 2), rng.normal(0, 0.5)
    y = low + np.abs(rng.normal(0, noise, rng.integers(1, 8)))
    mean = pm.Normal(f"{name}_mean", 0, spread)
    pm.Truncated(f"{name}_y", pm.Normal.dist(mean, noise), lower=low, observed=y)

    def log_joint(means: np.ndarray) -> np.ndarray:
        seen = stats.norm.logpdf(y[:, None], means, noise) - log_ndtr((means - low) / noise)
        return seen.sum(0) + stats.norm.logpdf(means, 0, spread)

    return log_integral(log_joint, gauss_legendre(-12 * spread, 12 * spread, 200))


def zero_inflated(rng: np.random.Generator, name: str) -> float:
    """Add counts with too many zeros, whose share is unknown."""
    a, b, rate = rng.uniform(0.7, 3), rng.uniform(0.7, 3), rng.uniform(0.5, 6)
    y = rng.poisson(rate, rng.integers(2, 10)) * (rng.random() < 0.7)
    share = pm.Beta(f"{name}_share", a, b)
    pm.ZeroInflatedPoisson(f"{name}_y", share, rate, observed=y)
    # A binomial sum over how many of the zeros are counts.
    positive, zeros = int((y > 0).sum()), int((y == 0).sum())
    counts = np.arange(zeros + 1)
    choose = gammaln(zeros + 1) - gammaln(counts + 1) - gammaln(zeros - counts + 1)
    terms = choose - rate * counts + betaln(a + positive + counts, b + zeros - counts)
    seen = stats.poisson.logpmf(y[y > 0], rate).sum()
    return float(seen + logsumexp(terms) - betaln(a, b))


def mixture(rng: np.random.Generator, name: str) -> float:
    """Add a mixture whose labels PyMC sums, with unknown weights."""
    centers, noise = rng.normal(0, 3, 2), rng.uniform(0.3, 1.5)
    y = rng.normal(centers[rng.integers(2, size=rng.integers(2, 9))], noise)
    weights = pm.Dirichlet(f"{name}_weights", np.ones(2))
    pm.NormalMixture(f"{name}_y", w=weights, mu=centers, sigma=noise, observed=y)
    logs = stats.norm.logpdf(y[:, None], centers, noise)

    def log_joint(share: np.ndarray) -> np.ndarray:
        each = np.logaddexp(
            np.log(share)[:, None] + logs[:, 0], np.log1p(-share)[:, None] + logs[:, 1]
        )
        return each.sum(1)

    return log_integral(log_joint, gauss_legendre(0, 1, 80))


def vector(rng: np.random.Generator, name: str) -> float:
    """Add a multivariate normal vector that is read with multivariate noise."""
    size = int(rng.integers(2, 5))
    factors = [np.tril(rng.normal(size=(size, size))) + 2 * np.eye(size) for _ in range(2)]
    prior, noise = (factor @ factor.T for factor in factors)
    y = rng.normal(0, 2, size)
    if rng.random() < 0.5:
        x = pm.MvNormal(f"{name}_x", np.zeros(size), chol=factors[0])
    else:
        x = pm.MvNormal(f"{name}_x", np.zeros(size), cov=prior)
    pm.MvNormal(f"{name}_y", x, tau=np.linalg.inv(noise), observed=y)
    return log_multivariate_normal(y, 0.0, prior + noise)


def missing_counts(rng: np.random.Generator, name: str) -> float:
    """Add counts of which some are missing, as integers under a mask."""
    a, b = rng.uniform(1, 4), rng.uniform(0.5, 2)
    y = rng.poisson(rng.gamma(a, 1 / b), size=int(rng.integers(2, 7)))
    gap = np.zeros(len(y), dtype=bool)
    gap[: int(rng.integers(1, len(y)))] = True
    rate = pm.Gamma(f"{name}_rate", a, b)
    pm.Poisson(f"{name}_y", rate, observed=np.ma.masked_array(y, gap))
    seen = y[~gap]
    total, size = seen.sum(), len(seen)
    result = a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + size)
    return float(result - gammaln(seen + 1).sum())


def constraint(rng: np.random.Generator, name: str) -> float:
    """Add a potential that forbids a half-line or demands an order of two variables."""
    x = pm.Normal(f"{name}_x", 0, 1, shape=2)
    if rng.random() < 0.5:
        low = rng.uniform(-1, 1)
        pm.Potential(f"{name}_above", pt.switch(pt.all(x > low), 0.0, -np.inf))
        return float(2 * log_ndtr(-low))
    pm.Potential(f"{name}_order", pt.switch(x[0] < x[1], 0.0, -np.inf))
    return float(np.log(0.5))


def zero_sum(rng: np.random.Generator, name: str) -> float:
    """Add effects that sum to zero."""
    size, spread, noise = int(rng.integers(2, 6)), rng.uniform(0.5, 2), rng.uniform(0.3, 2)
    y = rng.normal(0, 1.5, size)
    effect = pm.ZeroSumNormal(f"{name}_effect", sigma=spread, shape=size)
    pm.Normal(f"{name}_y", effect, noise, observed=y)
    covariance = spread**2 * (np.eye(size) - 1 / size) + noise**2 * np.eye(size)
    return log_multivariate_normal(y, 0.0, covariance)


def process(rng: np.random.Generator, name: str) -> float:
    """Add a Gaussian process with an unknown amplitude that PyMC has integrated out."""
    size, length, noise = int(rng.integers(3, 8)), rng.uniform(0.3, 2), rng.uniform(0.2, 1)
    x = np.sort(rng.uniform(0, 3, size))
    y = rng.normal(0, 1.5, size)
    amplitude = pm.HalfNormal(f"{name}_amplitude", 2)
    covariance = amplitude**2 * pm.gp.cov.ExpQuad(1, length)
    gp = pm.gp.Marginal(cov_func=covariance)
    gp.marginal_likelihood(f"{name}_y", X=x[:, None], y=y, sigma=noise)
    shape = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / length**2)
    values, vectors = np.linalg.eigh(shape)
    projected = vectors.T @ y

    def log_joint(amplitudes: np.ndarray) -> np.ndarray:
        # PyMC adds 1e-6 to the diagonal of the covariance of data.
        scales = np.sqrt(amplitudes**2 * values[:, None] + noise**2 + 1e-6)
        logs = stats.norm.logpdf(projected[:, None], 0, scales).sum(0)
        return logs + stats.halfnorm.logpdf(amplitudes, scale=2)

    return log_integral(log_joint, gauss_legendre(0, 20, 60))


def logistic(rng: np.random.Generator, name: str) -> float:
    """Add a logistic regression with one slope, on booleans or on integers."""
    x, spread = rng.normal(0, 2, int(rng.integers(2, 15))), rng.uniform(0.5, 5)
    y = rng.random(len(x)) < 0.5
    slope = pm.Normal(f"{name}_slope", 0, spread)
    kind = str(rng.choice(["bool", "int8", "float64"]))
    pm.Bernoulli(f"{name}_y", logit_p=slope * x, observed=y.astype(kind))
    signs = np.where(y, x, -x)

    def log_joint(slopes: np.ndarray) -> np.ndarray:
        return log_expit(signs[:, None] * slopes).sum(0) + stats.norm.logpdf(slopes, 0, spread)

    return log_integral(log_joint, gauss_legendre(-10 * spread, 10 * spread, 100))


def overdispersed(rng: np.random.Generator, name: str) -> float:
    """Add negative binomial counts with an unknown mean."""
    alpha, shape, rate = rng.uniform(0.5, 5), rng.uniform(1, 4), rng.uniform(0.2, 2)
    y = rng.negative_binomial(alpha, alpha / (alpha + shape / rate), size=rng.integers(1, 8))
    mean = pm.Gamma(f"{name}_mean", shape, rate)
    pm.NegativeBinomial(f"{name}_y", mu=mean, alpha=alpha, observed=y)

    def log_joint(logs: np.ndarray) -> np.ndarray:
        means = np.exp(logs)
        counts = stats.nbinom.logpmf(y[:, None], alpha, alpha / (alpha + means)).sum(0)
        return counts + stats.gamma.logpdf(means, shape, scale=1 / rate) + logs

    return log_integral(log_joint, gauss_legendre(-25, 8, 150))


def robust(rng: np.random.Generator, name: str) -> float:
    """Add a mean of data with heavy tails."""
    freedom, noise = rng.uniform(1.5, 8), rng.uniform(0.3, 2)
    y = rng.normal() + noise * rng.standard_t(freedom, size=rng.integers(2, 8))
    mean = pm.Normal(f"{name}_mean", 0, 5)
    pm.StudentT(f"{name}_y", nu=freedom, mu=mean, sigma=noise, observed=y)

    def log_joint(means: np.ndarray) -> np.ndarray:
        logs = stats.t.logpdf(y[:, None], freedom, means, noise).sum(0)
        return logs + stats.norm.logpdf(means, 0, 5)

    return log_integral(log_joint, gauss_legendre(-50, 50, 800))


def raw_units(rng: np.random.Generator, name: str) -> float:
    """Add a line over calendar years, or over columns that are equal, in raw units."""
    size, noise = int(rng.integers(3, 30)), 10 ** rng.uniform(-2, 1)
    if rng.random() < 0.5:
        columns = np.column_stack([np.ones(size), rng.integers(1900, 2021, size)])
        spread = np.array([100.0, 1.0])
    else:
        columns = np.repeat(rng.normal(size=(size, 1)), 2, axis=1)
        spread = np.array([1.0, 10 ** rng.uniform(-1, 2)])
    y = 3 + noise * rng.normal(size=size)
    slopes = pm.Normal(f"{name}_slopes", 0, spread)
    pm.Normal(f"{name}_y", pm.math.dot(columns, slopes), noise, observed=y)
    scaled = columns * spread
    # By the singular values of the columns: the covariance of y is nearly singular.
    left, singular, _ = np.linalg.svd(scaled, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(size - len(singular))])
    return float(stats.norm.logpdf(left.T @ y, 0, np.hypot(singular, noise)).sum())


def single_precision(rng: np.random.Generator, name: str) -> float:
    """Add a mean that is built in single precision."""
    spread, noise = (float(np.float32(value)) for value in rng.uniform(0.3, 2, 2))
    y = rng.normal(0, 2, int(rng.integers(1, 8))).astype("float32")
    with pytensor.config.change_flags(floatX="float32"):
        mean = pm.Normal(f"{name}_mean", 0, spread)
        pm.Normal(f"{name}_y", mean, noise, observed=y)
    covariance = spread**2 + noise**2 * np.eye(len(y))
    return log_multivariate_normal(y.astype(float), 0.0, covariance)


def odd_names(rng: np.random.Generator, name: str) -> float:
    """Add variables whose names no file would have, in a model within the model."""
    word = str(rng.choice(["..\\x", "a:b", "µ ß", "x[0]", "x__", "posterior", "chain", "%s {0}"]))
    a, y = rng.uniform(0.5, 4), int(rng.integers(0, 6))
    with pm.Model(name=f"{name}_sub"):
        p = pm.Beta(f"{name}{word}", a, 1)
        pm.Binomial(f"{name}{word} data", n=5, p=p, observed=y)
    choose = gammaln(6) - gammaln(y + 1) - gammaln(6 - y)
    return float(choose + betaln(a + y, 6 - y) - betaln(a, 1))


def replaced_data(rng: np.random.Generator, name: str) -> float:
    """Add data that are others than those the model was written with."""
    a, b = rng.uniform(1, 4), rng.uniform(0.5, 2)
    first, y = (rng.poisson(2.0, int(size)) for size in rng.integers(1, 6, 2))
    container = pm.Data(f"{name}_container", first)
    rate = pm.Gamma(f"{name}_rate", a, b)
    pm.Poisson(f"{name}_y", rate, observed=container, shape=container.shape)
    pm.set_data({f"{name}_container": y})
    total, size = y.sum(), len(y)
    result = a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + size)
    return float(result - gammaln(y + 1).sum())


TUTORIAL_PARTS: dict[str, Callable[[np.random.Generator, str], float]] = {
    part.__name__: part
    for part in (
        plates,
        unknown_spread,
        scanned_walk,
        random_walk,
        own_density,
        own_prior,
        censored,
        truncated,
        zero_inflated,
        mixture,
        vector,
        missing_counts,
        constraint,
        zero_sum,
        process,
        logistic,
        overdispersed,
        robust,
        raw_units,
        single_precision,
        odd_names,
        replaced_data,
    )
}
