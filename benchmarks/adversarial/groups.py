"""Groups: random intercepts, funnels, crossed effects, sparse signals.

Given the scales, the groups integrate out in closed form or one at a time.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, gammaln, log_expit, logsumexp

from benchmarks.adversarial.exact import log_half_cauchy, log_unknown_mean, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import gauss_legendre, log_multivariate_normal

__all__ = ["PROBLEMS"]


def group_data(groups: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scattered, unbalanced group labels and values; the last group may be empty."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(groups - 1, 1.0))
    group = np.concatenate([np.arange(groups - 1), rng.choice(groups - 1, rows, p=shares)])
    group = rng.permutation(group)
    return group, 1.5 + rng.normal(0, 0.7, groups)[group] + rng.normal(0, 1, len(group))


def intercepts(
    name: str, groups: int, rows: int, centered: bool, known_noise: bool, reason: str
) -> Adversary:
    """Make normal random intercepts; the last group has no observations."""
    group, values = group_data(groups, rows, groups)
    sizes = np.bincount(group, minlength=groups)[:-1]
    means = np.bincount(group, values)[: groups - 1] / sizes
    squares = float(((values - means[group]) ** 2).sum())

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 10)
            spread = pm.HalfCauchy("spread", 1.0)
            noise = 1.0 if known_noise else pm.HalfNormal("noise", 2.0)
            if centered:
                intercept = pm.Normal("intercept", mean, spread, shape=groups)
            else:
                intercept = mean + spread * pm.Normal("unit", 0, 1, shape=groups)
            pm.Normal("value", intercept[group], noise, observed=values)
        return model

    def log_likelihood(log_spread: np.ndarray, noise: np.ndarray) -> np.ndarray:
        spread, noise = np.broadcast_arrays(np.exp(log_spread), noise)
        variances = spread[..., None] ** 2 + noise[..., None] ** 2 / sizes
        inside = -0.5 * (len(values) - len(sizes)) * np.log(2 * np.pi * noise**2)
        inside = inside - 0.5 * np.log(sizes).sum() - 0.5 * squares / noise**2
        return inside + log_unknown_mean(means, variances, 100.0)

    def solve() -> Answer:
        rule = gauss_legendre(-14, 8, 80)
        label = {"log spread": lambda log_spread, *rest: log_spread + 0 * sum(rest)}
        if known_noise:
            return solve_on_grid(
                lambda s: log_half_cauchy(s, 1.0) + log_likelihood(s, np.ones(1)),
                rule,
                moments=label,
            )
        return solve_on_grid(
            lambda s, noise: (
                log_half_cauchy(s, 1.0)
                + stats.halfnorm.logpdf(noise, scale=2)
                + log_likelihood(s, noise)
            ),
            rule,
            gauss_legendre(0.4, 2.5, 16),
            moments=label,
        )

    grid = {"spread": gauss_legendre(-12, 5, 26, 6)}
    if not known_noise:
        grid["noise"] = gauss_legendre(-0.6, 0.7, 5, 6)
    if groups > 50:
        grid = {"spread": gauss_legendre(-1.4, 0.8, 6, 6)}
    return Adversary(
        name,
        build,
        solve,
        "1-D or 2-D quadrature over Gaussian algebra",
        reason,
        Plan(gaussian=("mean", "intercept" if centered else "unit"), grid=grid),
    )


def funnel(name: str, size: int, informative: bool) -> Adversary:
    """Make Neal's funnel with readings of the branches."""
    rng = np.random.default_rng(size)
    readings = rng.normal(0, 0.8, size)
    noise = 0.1 if informative else 5.0

    def build() -> pm.Model:
        with pm.Model() as model:
            log_variance = pm.Normal("log_variance", 0, 3)
            branch = pm.Normal("branch", 0, pm.math.exp(log_variance / 2), shape=size)
            pm.Normal("reading", branch, noise, observed=readings)
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda v: (
                stats.norm.logpdf(v, 0, 3)
                + stats.norm.logpdf(readings[:, None], 0, np.sqrt(np.exp(v) + noise**2)).sum(0)
            ),
            gauss_legendre(-36, 36, 120),
            moments={"log_variance": lambda v: v},
        )

    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        f"{size} branches whose width varies over {'two' if informative else 'many'} decades",
        Plan(gaussian=("branch",), grid={"log_variance": gauss_legendre(-24, 24, 60, 6)}),
    )


def crossed() -> Adversary:
    """Make rows and columns with normal effects, a third of the cells missing."""
    rng = np.random.default_rng(68)
    row, column = (index.ravel() for index in np.indices((6, 8)))
    kept = rng.uniform(size=48) < 0.66
    row, column = row[kept], column[kept]
    values = rng.normal(0, 1, 6)[row] + rng.normal(0, 0.5, 8)[column] + rng.normal(0, 0.4, len(row))

    def build() -> pm.Model:
        with pm.Model() as model:
            noise = pm.HalfNormal("noise", 1.0)
            of_row = pm.Normal("of_row", 0, 1, shape=6)
            of_column = pm.Normal("of_column", 0, 0.5, shape=8)
            pm.Normal("value", of_row[row] + of_column[column], noise, observed=values)
        return model

    def solve() -> Answer:
        effects = np.equal.outer(row, row) + 0.25 * np.equal.outer(column, column)
        eigenvalues, vectors = np.linalg.eigh(effects)
        along = vectors.T @ values

        def log_joint(log_noise: np.ndarray) -> np.ndarray:
            variances = eigenvalues.clip(0) + np.exp(2 * log_noise[:, None])
            log_likelihood = -0.5 * (along**2 / variances + np.log(2 * np.pi * variances)).sum(-1)
            return stats.halfnorm.logpdf(np.exp(log_noise)) + log_noise + log_likelihood

        return solve_on_grid(
            log_joint, gauss_legendre(-6, 3, 80), moments={"log noise": lambda noise: noise}
        )

    return Adversary(
        "crossed_effects",
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "no order of the variables makes the groups independent",
        Plan(gaussian=("of_row", "of_column"), grid={"noise": gauss_legendre(-3, 2, 16, 8)}),
    )


def nested() -> Adversary:
    """Make pupils in classes in schools, with known scales."""
    rng = np.random.default_rng(123)
    school_of_class = np.repeat(np.arange(5), 3)
    class_of_pupil = rng.integers(0, 15, 70)
    school = school_of_class[class_of_pupil]
    values = rng.normal(0, 1, 5)[school] + rng.normal(0, 0.5, 15)[class_of_pupil]
    values = values + rng.normal(0, 0.8, 70)

    def build() -> pm.Model:
        with pm.Model() as model:
            of_school = pm.Normal("of_school", 0, 1, shape=5)
            of_class = pm.Normal("of_class", of_school[school_of_class], 0.5)
            pm.Normal("value", of_class[class_of_pupil], 0.8, observed=values)
        return model

    def solve() -> Answer:
        covariance = 0.64 * np.eye(70) + np.equal.outer(school, school)
        covariance = covariance + 0.25 * np.equal.outer(class_of_pupil, class_of_pupil)
        weights = np.linalg.solve(covariance, np.equal(school, 0).astype(float))
        mean, variance = float(weights @ values), float(1 - weights @ np.equal(school, 0))
        return Answer(
            log_multivariate_normal(values, 0.0, covariance),
            {"of_school[0]": (mean, variance**0.5)},
        )

    return Adversary(
        "nested_groups",
        build,
        solve,
        "Gaussian algebra",
        "three levels, rows scattered",
        Plan(gaussian=("of_school", "of_class")),
    )


def beta_binomial_groups() -> Adversary:
    """Make shares of 20 groups under one unknown concentration."""
    rng = np.random.default_rng(20)
    trials = rng.integers(1, 40, 20)
    hits = rng.binomial(trials, rng.beta(2, 6, 20))

    def build() -> pm.Model:
        with pm.Model() as model:
            concentration = pm.Exponential("concentration", 0.1)
            share = pm.Beta("share", 0.25 * concentration, 0.75 * concentration, shape=20)
            pm.Binomial("hits", n=trials, p=share, observed=hits)
        return model

    def log_joint(log_concentration: np.ndarray) -> np.ndarray:
        size = np.exp(log_concentration)
        log_prior = stats.expon.logpdf(size, scale=10) + log_concentration
        each = stats.betabinom.logpmf(hits, trials, 0.25 * size[:, None], 0.75 * size[:, None])
        return log_prior + each.sum(-1)

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-6, 6, 60),
            moments={"log concentration": lambda log_concentration: log_concentration},
        )

    def second() -> float:
        """Integrate the shares by quadrature in their log-odds."""
        log_size, log_weights = gauss_legendre(-3, 5.5, 24, 8)
        size = np.exp(log_size)[:, None]
        odds, log_odds_weights = gauss_legendre(-400, 60, 500, 8)
        log_share, log_rest = log_expit(odds), log_expit(-odds)
        total = stats.expon.logpdf(size[:, 0], scale=10) + log_size + log_weights
        log_beta = betaln(0.25 * size[:, 0], 0.75 * size[:, 0])
        for hit, trial in zip(hits, trials, strict=True):
            log_terms = (0.25 * size + hit) * log_share + (0.75 * size + trial - hit) * log_rest
            log_choose = gammaln(trial + 1) - gammaln(hit + 1) - gammaln(trial - hit + 1)
            total = total + logsumexp(log_terms + log_odds_weights, axis=1) - log_beta + log_choose
        return float(logsumexp(total))

    return Adversary(
        "beta_binomial_groups",
        build,
        solve,
        "1-D quadrature over the closed form",
        "shares near zero under a small concentration",
        second=second,
    )


def gamma_poisson_groups() -> Adversary:
    """Make the pumps of George et al. (1993), with a gamma prior on the rate of the gammas."""
    hours = np.array([94.3, 15.7, 62.9, 126.0, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])
    failures = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])

    def build() -> pm.Model:
        with pm.Model() as model:
            scale = pm.Gamma("scale", 0.1, 1.0)
            shape = pm.Exponential("shape", 1.0)
            rate = pm.Gamma("rate", shape, scale, shape=10)
            pm.Poisson("failures", rate * hours, observed=failures)
        return model

    def log_joint(log_shape: np.ndarray, log_scale: np.ndarray) -> np.ndarray:
        shape, scale = np.exp(log_shape), np.exp(log_scale)
        total = stats.expon.logpdf(shape) + log_shape
        total = total + stats.gamma.logpdf(scale, 0.1) + log_scale
        for count, time in zip(failures, hours, strict=True):
            total = total + gammaln(shape + count) - gammaln(shape) + shape * log_scale
            total = total - (shape + count) * np.log(scale + time) + count * np.log(time)
        return total - gammaln(failures + 1).sum()

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-7, 4.5, 60),
            gauss_legendre(-40, 4.5, 120),
            moments={"shape": lambda log_shape, log_scale: np.exp(log_shape) + 0 * log_scale},
        )

    def second() -> float:
        """Use the negative binomial probabilities of SciPy, and other rules."""

        def log_terms(log_shape: np.ndarray, log_scale: np.ndarray) -> np.ndarray:
            shape, scale = np.exp(log_shape), np.exp(log_scale)
            total = stats.expon.logpdf(shape) + log_shape
            total = total + stats.gamma.logpdf(scale, 0.1) + log_scale
            for count, time in zip(failures, hours, strict=True):
                total = total + stats.nbinom.logpmf(count, shape, scale / (scale + time))
            return total

        return solve_on_grid(
            log_terms, gauss_legendre(-6, 4, 24, 8), gauss_legendre(-30, 4, 40, 8)
        ).log_evidence

    return Adversary(
        "pumps",
        build,
        solve,
        "2-D quadrature over the closed form",
        "BUGS pumps: the prior Gamma(0.1, 1)",
        second=second,
    )


def horseshoe() -> Adversary:
    """Make ten normal means under a horseshoe prior; two of them are signals."""
    readings = np.array([0.3, -0.8, 6.5, 0.1, -1.2, 0.9, -0.2, -5.1, 0.6, 1.4])

    def build() -> pm.Model:
        with pm.Model() as model:
            overall = pm.HalfCauchy("overall", 0.5)
            local = pm.HalfCauchy("local", 1.0, shape=10)
            signal = pm.Normal("signal", 0, overall * local)
            pm.Normal("reading", signal, 1.0, observed=readings)
        return model

    def log_joint(log_overall: np.ndarray, rule: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        log_local, log_weights = rule
        log_prior = log_half_cauchy(log_local, 1.0) + log_weights
        deviation = np.sqrt(1 + np.exp(2 * (log_overall[:, None] + log_local)))
        total = log_half_cauchy(log_overall, 0.5)
        for reading in readings:
            total = total + logsumexp(log_prior + stats.norm.logpdf(reading, 0, deviation), axis=1)
        return total

    def solve() -> Answer:
        return solve_on_grid(
            lambda overall: log_joint(overall, gauss_legendre(-36, 36, 80)),
            gauss_legendre(-30, 30, 80),
            moments={"log overall": lambda overall: overall},
        )

    def second() -> float:
        """Use quantiles of the local scale instead of its logarithm."""
        angle, log_weights = gauss_legendre(0, np.pi / 2, 400, 12)
        log_local = np.log(np.tan(angle))
        log_weights = log_weights + np.log(2 / np.pi) - log_half_cauchy(log_local, 1.0)
        return solve_on_grid(
            lambda overall: log_joint(overall, (log_local, log_weights)),
            gauss_legendre(-25, 20, 90, 8),
        ).log_evidence

    return Adversary(
        "horseshoe",
        build,
        solve,
        "2-D quadrature over Gaussian algebra",
        "twenty-one dimensions of funnels with heavy tails",
        second=second,
    )


def variance_components() -> Adversary:
    """Make the dyes of Box and Tiao: a between-batch variance estimated as nearly zero."""
    rng = np.random.default_rng(6)
    values = 5 + rng.normal(0, 0.2, (6, 1)) + rng.normal(0, 2.0, (6, 5))
    means, squares = values.mean(1), float(((values - values.mean(1, keepdims=True)) ** 2).sum())

    def build() -> pm.Model:
        with pm.Model() as model:
            center = pm.Normal("center", 0, 100)
            within = pm.InverseGamma("within", 0.001, 0.001)
            between = pm.InverseGamma("between", 0.001, 0.001)
            batch = pm.Normal("batch", center, pm.math.sqrt(between), shape=6)
            pm.Normal("value", batch[:, None], pm.math.sqrt(within), observed=values)
        return model

    def log_joint(log_between: np.ndarray, log_within: np.ndarray) -> np.ndarray:
        def log_prior(log_variance: np.ndarray) -> np.ndarray:
            constant = 0.001 * np.log(0.001) - gammaln(0.001)
            return constant - 0.001 * log_variance - 0.001 * np.exp(-log_variance)

        within = np.exp(log_within)
        variances = np.exp(log_between) + within / 5
        total = log_prior(log_between) + log_prior(log_within) - 3 * np.log(5)
        total = total - 12 * np.log(2 * np.pi * within) - 0.5 * squares / within
        return total + log_unknown_mean(means, variances[..., None] * np.ones(6), 1e4)

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-12, 40, 120),
            gauss_legendre(-2, 6, 40),
            moments={"log within": lambda log_between, log_within: log_within + 0 * log_between},
        )

    return Adversary(
        "dyes",
        build,
        solve,
        "2-D quadrature over Gaussian algebra",
        "BUGS dyes: InverseGamma(0.001, 0.001) on both variances",
        Plan(
            gaussian=("center", "batch"),
            grid={
                "between": gauss_legendre(-11, 16, 40, 6),
                "within": gauss_legendre(0, 3.5, 8, 6),
            },
        ),
    )


def exact_mean_of_labels() -> Adversary:
    """Make twelve groups with a latent kind each, whose kinds have unknown shares."""
    rng = np.random.default_rng(12)
    values = np.where(rng.uniform(size=12) < 0.3, 2.5, 0.0) + rng.normal(0, 1, 12)

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Beta("share", 1.0, 3.0)
            kind = pm.Bernoulli("kind", share, shape=12)
            pm.Normal("value", 2.5 * kind, 1.0, observed=values)
        return model

    def solve() -> Answer:
        log_ratio = stats.norm.logpdf(values, 2.5) - stats.norm.logpdf(values)
        return solve_on_grid(
            lambda share: (
                stats.beta.logpdf(share, 1, 3)
                + stats.norm.logpdf(values).sum()
                + np.log1p(share[:, None] * np.expm1(log_ratio)).sum(-1)
            ),
            gauss_legendre(0, 1, 60),
            moments={"share": lambda share: share},
        )

    return Adversary(
        "latent_kinds",
        build,
        solve,
        "1-D quadrature",
        "twelve labels and their share",
        Plan(
            grid={"share": gauss_legendre(-16, 8, 30, 8)},
            independent={"kind": (np.array([0.0, 1.0]), np.zeros(2))},
        ),
    )


PROBLEMS: tuple[Adversary, ...] = (
    intercepts("intercepts_8", 8, 30, True, True, "eight groups, one of them empty"),
    intercepts("intercepts_30", 30, 120, True, False, "thirty unbalanced groups, rows scattered"),
    intercepts("intercepts_30_unit", 30, 120, False, False, "the same, not centred"),
    intercepts("intercepts_100", 100, 500, True, True, "a hundred unbalanced groups"),
    funnel("funnel_10", 10, informative=False),
    funnel("funnel_20_narrow", 20, informative=True),
    crossed(),
    nested(),
    beta_binomial_groups(),
    gamma_poisson_groups(),
    horseshoe(),
    variance_components(),
    exact_mean_of_labels(),
)
