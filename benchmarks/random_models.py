"""Random small PyMC models whose log Z is exact: products of parts that can be integrated.

A part is a tree or chain of discrete variables, or a conjugate pair, with random sizes, parameters,
transforms, potentials and missing values; those of `benchmarks.wild_parts` have vague priors,
integers, small types and random bounds; those of `benchmarks.tutorial_parts` have dims, plates,
scans, distributions of their own and raw units. :func:`random_model` joins one to three of them, so
that log Z is the sum of theirs.
"""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from benchmarks.tutorial_parts import TUTORIAL_PARTS
from benchmarks.wild_parts import WILD_PARTS

__all__ = ["PARTS", "random_model"]

Part = Callable[[np.random.Generator, str], float]


def random_model(seed: int) -> tuple[pm.Model, float, list[str]]:
    """Return a model, its exact log Z, and the names of its parts."""
    rng = np.random.default_rng([20240601, seed])
    # Each part has its turn; the others are drawn.
    names = [sorted(PARTS)[seed % len(PARTS)]]
    names += [str(name) for name in rng.choice(sorted(PARTS), size=rng.integers(0, 3))]
    log_evidence = 0.0
    with pm.Model() as model:
        for number, name in enumerate(names):
            log_evidence += PARTS[name](rng, f"{name}{number}")
    return model, log_evidence, names


def beta_binomial(rng: np.random.Generator, name: str) -> float:
    a, b, n = rng.uniform(0.5, 4), rng.uniform(0.5, 4), int(rng.integers(1, 20))
    shape = int(rng.integers(1, 4))
    y = rng.integers(0, n + 1, size=shape)
    p = pm.Beta(f"{name}_p", a, b, shape=shape)
    pm.Binomial(f"{name}_y", n=n, p=p, observed=y)
    choose = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    return float(np.sum(choose + betaln(a + y, b + n - y) - betaln(a, b)))


def gamma_poisson(rng: np.random.Generator, name: str) -> float:
    a, b = rng.uniform(1, 5), rng.uniform(0.5, 2)
    y = rng.poisson(rng.gamma(a, 1 / b), size=rng.integers(1, 8))
    rate = pm.Gamma(f"{name}_rate", a, b)
    pm.Poisson(f"{name}_y", rate, observed=y)
    total, n = y.sum(), len(y)
    result = a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + n)
    return float(result - gammaln(y + 1).sum())


def gaussian_groups(rng: np.random.Generator, name: str) -> float:
    groups, each = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    spread, noise = rng.uniform(0.3, 3), rng.uniform(0.2, 2)
    y = rng.normal(rng.normal(0, spread, (groups, 1)), noise, (groups, each))
    mean = pm.Normal(f"{name}_mean", 0, spread, shape=(groups, 1))
    pm.Normal(f"{name}_y", mean, noise, observed=y)
    covariance = spread**2 * np.ones((each, each)) + noise**2 * np.eye(each)
    return float(np.sum(stats.multivariate_normal(np.zeros(each), covariance).logpdf(y)))


def gaussian_with_missing_values(rng: np.random.Generator, name: str) -> float:
    size = int(rng.integers(2, 6))
    spread, noise = rng.uniform(0.3, 2), rng.uniform(0.3, 2)
    y = rng.normal(0, 1, size)
    y[rng.integers(size)] = np.nan
    mean = pm.Normal(f"{name}_mean", 0, spread)
    pm.Normal(f"{name}_y", mean, noise, observed=np.ma.masked_invalid(y))
    seen = y[np.isfinite(y)]
    covariance = spread**2 * np.ones((len(seen), len(seen))) + noise**2 * np.eye(len(seen))
    return float(stats.multivariate_normal(np.zeros(len(seen)), covariance).logpdf(seen))


def gaussian_chain(rng: np.random.Generator, name: str) -> float:
    length, persistence = int(rng.integers(2, 7)), rng.uniform(-0.9, 0.95)
    step, noise = rng.uniform(0.3, 2), rng.uniform(0.2, 2)
    state, y, factor = [], rng.normal(0, 1.5, length), np.zeros((length, length))
    for t in range(length):
        before = persistence * state[-1] if state else 0.0
        state.append(pm.Normal(f"{name}_x{t}", before, step))
        pm.Normal(f"{name}_y{t}", state[-1], noise, observed=y[t])
        factor[t] = persistence * factor[t - 1] if t else 0.0
        factor[t, t] = step
    covariance = factor @ factor.T + noise**2 * np.eye(length)
    return float(stats.multivariate_normal(np.zeros(length), covariance).logpdf(y))


def discrete_tree(rng: np.random.Generator, name: str) -> float:
    """Add a random tree (or chain) of labels, each with a Gaussian observation."""
    size, states = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    chain = rng.random() < 0.5
    parents = [-1, *(k - 1 if chain else int(rng.integers(k)) for k in range(1, size))]
    start = rng.dirichlet(np.ones(states))
    table = rng.dirichlet(0.7 * np.ones(states), size=states)
    means, noise = rng.normal(0, 2, states), rng.uniform(0.5, 2)
    y = rng.normal(0, 2, size)
    labels: list = []
    for k, parent in enumerate(parents):
        probabilities = start if parent < 0 else pm.math.constant(table)[labels[parent]]
        labels.append(pm.Categorical(f"{name}_z{k}", p=probabilities))
        pm.Normal(f"{name}_y{k}", pm.math.constant(means)[labels[-1]], noise, observed=y[k])
    message = stats.norm(means, noise).logpdf(y[:, None])
    for k in reversed(range(1, size)):
        message[parents[k]] += logsumexp(np.log(table) + message[k], axis=1)
    return float(logsumexp(np.log(start) + message[0]))


def switch(rng: np.random.Generator, name: str) -> float:
    """Add a label that shifts the mean of some data, whose common part is Gaussian."""
    states, size = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    weights, shifts = rng.dirichlet(np.ones(states)), rng.normal(0, 3, states)
    spread, noise, y = rng.uniform(0.3, 2), rng.uniform(0.3, 1.5), rng.normal(0, 2, size)
    label = pm.Categorical(f"{name}_z", p=weights)
    mean = pm.Normal(f"{name}_mean", 0, spread)
    pm.Normal(f"{name}_y", mean + pm.math.constant(shifts)[label], noise, observed=y)
    covariance = spread**2 * np.ones((size, size)) + noise**2 * np.eye(size)
    terms = [stats.multivariate_normal(np.full(size, s), covariance).logpdf(y) for s in shifts]
    return float(logsumexp(np.array(terms) + np.log(weights)))


def dirichlet_multinomial(rng: np.random.Generator, name: str) -> float:
    size, n = int(rng.integers(2, 5)), int(rng.integers(1, 30))
    a = rng.uniform(0.5, 3, size)
    y = rng.multinomial(n, rng.dirichlet(a))
    p = pm.Dirichlet(f"{name}_p", a)
    pm.Multinomial(f"{name}_y", n=n, p=p, observed=y)
    result = gammaln(a.sum()) - gammaln(n + a.sum()) + gammaln(n + 1)
    return float(result + np.sum(gammaln(y + a) - gammaln(a) - gammaln(y + 1)))


def unknown_precision(rng: np.random.Generator, name: str) -> float:
    a, b, y = rng.uniform(1, 4), rng.uniform(0.5, 3), rng.normal(0, 1.5, rng.integers(1, 8))
    precision = pm.Gamma(f"{name}_precision", a, b)
    pm.Normal(f"{name}_y", 0, tau=precision, observed=y)
    shape, rate = a + 0.5 * len(y), b + 0.5 * np.sum(y**2)
    result = gammaln(shape) - gammaln(a) + a * np.log(b) - shape * np.log(rate)
    return float(result - 0.5 * len(y) * np.log(2 * np.pi))


def regression(rng: np.random.Generator, name: str) -> float:
    size, columns = int(rng.integers(2, 12)), int(rng.integers(1, 5))
    x, noise = rng.normal(size=(size, columns)), rng.uniform(0.3, 2)
    y = x @ rng.normal(size=columns) + noise * rng.normal(size=size)
    slopes = pm.Normal(f"{name}_slopes", 0, 1, shape=columns)
    pm.Normal(f"{name}_y", pm.math.dot(x, slopes), noise, observed=y)
    covariance = x @ x.T + noise**2 * np.eye(size)
    return float(stats.multivariate_normal(np.zeros(size), covariance).logpdf(y))


def thinned_counts(rng: np.random.Generator, name: str) -> float:
    rate, p = rng.uniform(1, 15), rng.uniform(0.2, 0.9)
    y = int(rng.poisson(rate * p))
    count = pm.Poisson(f"{name}_n", rate)
    pm.Binomial(f"{name}_y", n=count, p=p, observed=y)
    return float(stats.poisson(rate * p).logpmf(y))


def uniform_counts(rng: np.random.Generator, name: str) -> float:
    low, p = int(rng.integers(0, 5)), rng.uniform(0.1, 0.9)
    high = low + int(rng.integers(1, 15))
    y = int(rng.integers(0, low + 1))
    count = pm.DiscreteUniform(f"{name}_n", low, high)
    pm.Binomial(f"{name}_y", n=count, p=p, observed=y)
    values = np.arange(low, high + 1)
    return float(logsumexp(stats.binom(values, p).logpmf(y)) - np.log(len(values)))


def gaussian_potential(rng: np.random.Generator, name: str) -> float:
    size, sharpness, center = int(rng.integers(1, 4)), rng.uniform(0.2, 20), rng.normal(0, 1.5)
    x = pm.Normal(f"{name}_x", 0, 1, shape=size)
    pm.Potential(f"{name}_pull", -0.5 * sharpness * (x - center) ** 2)
    each = -0.5 * np.log1p(sharpness) - 0.5 * center**2 * sharpness / (1 + sharpness)
    return float(size * each)


def exponential_potential(rng: np.random.Generator, name: str) -> float:
    rate, tilt = rng.uniform(0.5, 3), rng.uniform(0.1, 5)
    x = pm.Exponential(f"{name}_x", rate)
    pm.Potential(f"{name}_tilt", -tilt * x)
    return float(np.log(rate / (rate + tilt)))


def power_potential(rng: np.random.Generator, name: str) -> float:
    width, power = rng.uniform(0.5, 5), rng.uniform(0.5, 4)
    x = pm.Uniform(f"{name}_x", 0, width)
    pm.Potential(f"{name}_power", power * pm.math.log(x))
    return float(power * np.log(width) - np.log(power + 1))


def cut(rng: np.random.Generator, name: str) -> float:
    """Add data that is impossible on a part of the prior."""
    half, spread = rng.uniform(0.3, 2), rng.uniform(0.5, 2)
    center = pm.Normal(f"{name}_center", 0, spread)
    y = rng.normal(0, spread) + rng.uniform(-half, half, size=2)
    pm.Uniform(f"{name}_y", center - half, center + half, observed=y)
    prior = stats.norm(0, spread)
    mass = prior.cdf(y.min() + half) - prior.cdf(y.max() - half)
    return float(np.log(mass) - 2 * np.log(2 * half))


def prior_only(rng: np.random.Generator, name: str) -> float:
    """Add variables without data, whose priors must integrate to one."""
    kinds = {
        "half_cauchy": lambda n: pm.HalfCauchy(n, 1),
        "student": lambda n: pm.StudentT(n, nu=3, mu=1, sigma=2),
        "log_normal": lambda n: pm.LogNormal(n, 0, 1, shape=2),
        "ordered": lambda n: pm.Normal(
            n, 0, 1, shape=3, transform=pm.distributions.transforms.ordered
        ),
        "simplex": lambda n: pm.Dirichlet(n, np.ones(3)),
        "von_mises": lambda n: pm.VonMises(n, 0, 1),
        "geometric": lambda n: pm.Geometric(n, 0.4),
        "zero_sum": lambda n: pm.ZeroSumNormal(n, shape=3),
    }
    kind = str(rng.choice(sorted(kinds)))
    kinds[kind](f"{name}_{kind}")
    # A model of nothing but priors is refused: there must be something to integrate.
    pm.Potential(f"{name}_nothing", pt.constant(0.0))
    return 0.0


PARTS: dict[str, Part] = (
    {
        part.__name__: part
        for part in (
            beta_binomial,
            gamma_poisson,
            gaussian_groups,
            gaussian_with_missing_values,
            gaussian_chain,
            discrete_tree,
            switch,
            dirichlet_multinomial,
            unknown_precision,
            regression,
            thinned_counts,
            uniform_counts,
            gaussian_potential,
            exponential_potential,
            power_potential,
            cut,
            prior_only,
        )
    }
    | WILD_PARTS
    | TUTORIAL_PARTS
)
