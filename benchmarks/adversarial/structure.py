"""Structure: chains, rings, processes, missing and censored values, and densities by the user.

The truths are forward recursions, transfer matrices, Kalman filters and Gaussian algebra, with a
quadrature over what is left.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.adversarial.exact import (
    GaussianRegression,
    log_gamma_poisson,
    log_half_cauchy,
    mixed,
    solve_on_grid,
)
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.mixtures import log_forward
from benchmarks.suite.numerics import (
    binary_configurations,
    configurations,
    gauss_legendre,
    log_multivariate_normal,
)

__all__ = ["PROBLEMS"]


def hidden_markov(name: str, length: int, unknown_means: bool) -> Adversary:
    """Make a sticky chain of two states, in one vector of labels."""
    rng = np.random.default_rng(length)
    stay = np.array([[0.95, 0.05], [0.1, 0.9]])
    values = np.where(np.arange(length) % 12 < 7, -0.6, 0.9) + rng.normal(0, 0.7, length)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 1, shape=2) if unknown_means else pt.constant([-0.6, 0.9])
            states = [pm.Bernoulli("state_0", 0.5)]
            for time in range(1, length):
                states.append(pm.Bernoulli(f"state_{time}", pt.constant(stay[:, 1])[states[-1]]))
            pm.Normal("value", mean[pt.stack(states)], 0.7, observed=values)
        return model

    def log_evidence(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        means = np.stack(np.broadcast_arrays(first, last), -1)
        emissions = stats.norm.logpdf(values[:, None], means[..., None, :], 0.7)
        return log_forward(np.log([0.5, 0.5]), stay, emissions)

    def solve() -> Answer:
        if not unknown_means:
            return Answer(float(log_evidence(np.array(-0.6), np.array(0.9))))
        rule = gauss_legendre(-6, 6, 10, 12)
        return solve_on_grid(
            lambda a, b: stats.norm.logpdf(a) + stats.norm.logpdf(b) + log_evidence(a, b),
            rule,
            rule,
            moments={"mean[0]": lambda a, b: a + 0 * b, "mean[1]": lambda a, b: b + 0 * a},
        )

    def second() -> float:
        """Multiply matrices of probabilities instead of adding logarithms."""
        if unknown_means:
            nodes, log_weights = gauss_legendre(-5.5, 5.5, 14, 8)
        else:
            nodes, log_weights = np.array([-0.6, 0.9]), np.zeros(2)
        total = []
        for i, first in enumerate(nodes):
            for j, last in enumerate(nodes):
                if not unknown_means and (i, j) != (0, 1):
                    continue
                filtered, log_scale = np.array([0.5, 0.5]), 0.0
                emission = stats.norm.pdf(values[:, None], [first, last], 0.7)
                for time in range(length):
                    filtered = (filtered if time == 0 else filtered @ stay) * emission[time]
                    scale = filtered.sum()
                    if scale == 0:
                        log_scale = -np.inf
                        break
                    log_scale += np.log(scale)
                    filtered = filtered / scale
                log_prior = stats.norm.logpdf([first, last]).sum() if unknown_means else 0.0
                total.append(log_scale + log_prior + log_weights[i] + log_weights[j])
        return float(logsumexp(total))

    return Adversary(
        name,
        build,
        solve,
        "forward algorithm" + (" and 2-D quadrature" if unknown_means else ""),
        f"{length} sticky labels",
        second=second,
    )


def ising_ring(size: int, coupling: float) -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            up = pm.Bernoulli("up", 0.5, shape=size)
            spin = 2 * up - 1
            energy = coupling * pm.math.sum(spin * pt.roll(spin, 1)) + 0.05 * pm.math.sum(spin)
            pm.Potential("energy", energy)
        return model

    def transfer() -> np.ndarray:
        spin = np.array([-1.0, 1.0])
        return np.exp(coupling * np.outer(spin, spin) + 0.025 * np.add.outer(spin, spin))

    def solve() -> Answer:
        eigenvalues = np.linalg.eigvalsh(transfer())
        log_trace = size * np.log(eigenvalues[-1])
        log_trace += np.log1p((eigenvalues[0] / eigenvalues[-1]) ** size)
        mean_up, spread = _magnetisation(transfer(), size)
        return Answer(float(log_trace - size * np.log(2)), {"up[0]": (mean_up, spread)})

    def _magnetisation(matrix: np.ndarray, length: int) -> tuple[float, float]:
        power = np.linalg.matrix_power(matrix / matrix.max(), length)
        share = float(power[1, 1] / np.trace(power))
        return share, float(np.sqrt(share * (1 - share)))

    def second() -> float:
        if size <= 16:
            spin = 2.0 * binary_configurations(size) - 1
            energy = coupling * (spin * np.roll(spin, 1, axis=1)).sum(1) + 0.05 * spin.sum(1)
            return float(logsumexp(energy) - size * np.log(2))
        product = np.eye(2)
        for _ in range(size):
            product = product @ transfer() / 2
        return float(np.log(np.trace(product)))

    return Adversary(
        f"ising_ring_{size}",
        build,
        solve,
        "transfer matrix",
        f"{size} spins that want to agree, in two phases of unequal mass",
        second=second,
    )


def random_walk(name: str, length: int, prior: str) -> Adversary:
    """Make a Gaussian random walk of unknown step, read with noise."""
    rng = np.random.default_rng(length)
    values = np.cumsum(rng.normal(0, 0.3, length)) + rng.normal(0, 0.5, length)

    def build() -> pm.Model:
        with pm.Model() as model:
            step = pm.HalfCauchy("step", 1.0) if prior == "wide" else pm.Exponential("step", 5)
            level = pm.GaussianRandomWalk(
                "level", sigma=step, init_dist=pm.Normal.dist(0, 10), steps=length - 1
            )
            pm.Normal("value", level, 0.5, observed=values)
        return model

    def log_filter(log_step: np.ndarray) -> np.ndarray:
        """Kalman filter, for all steps at once."""
        mean, variance = np.zeros_like(log_step), np.full_like(log_step, 100.0)
        total = np.zeros_like(log_step)
        for time, value in enumerate(values):
            if time:
                variance = variance + np.exp(2 * log_step)
            total = total + stats.norm.logpdf(value, mean, np.sqrt(variance + 0.25))
            gain = variance / (variance + 0.25)
            mean, variance = mean + gain * (value - mean), 0.25 * gain
        return total

    def log_prior(log_step: np.ndarray) -> np.ndarray:
        if prior == "wide":
            return log_half_cauchy(log_step, 1.0)
        return np.log(5) - 5 * np.exp(log_step) + log_step

    def solve() -> Answer:
        return solve_on_grid(
            lambda s: log_prior(s) + log_filter(s),
            gauss_legendre(-16, 8, 100),
            moments={"log step": lambda s: s},
        )

    return Adversary(
        name,
        build,
        solve,
        "Kalman filter and 1-D quadrature",
        f"{length} correlated levels and their scale",
        Plan(gaussian=("level",), grid={"step": gauss_legendre(-12, 4, 24, 6)}),
    )


def autoregression() -> Adversary:
    rng = np.random.default_rng(9)
    values = [0.5]
    for _ in range(60):
        values.append(0.97 * values[-1] + rng.normal(0, 0.3))
    before, after = np.array(values[:-1]), np.array(values[1:])

    def build() -> pm.Model:
        with pm.Model() as model:
            drift = pm.Normal("drift", 0, 1)
            persistence = pm.Normal("persistence", 0, 1)
            noise = pm.HalfCauchy("noise", 1)
            pm.Normal("after", drift + persistence * before, noise, observed=after)
        return model

    regression = GaussianRegression(after, np.column_stack([np.ones(60), before]), 1.0)

    def solve() -> Answer:
        log_noise, log_weights = gauss_legendre(-6, 4, 80)
        log_terms = regression.log_evidence(np.exp(log_noise)) + log_weights
        log_terms = log_terms + log_half_cauchy(log_noise, 1.0)
        found = mixed(log_terms, *regression.coefficient(1, np.exp(log_noise)))
        return Answer(float(logsumexp(log_terms)), {"persistence": found})

    return Adversary(
        "autoregression_unit_root",
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "persistence near one",
        Plan(gaussian=("drift", "persistence"), grid={"noise": gauss_legendre(-2.2, 0.5, 16, 6)}),
    )


def gaussian_process(name: str, latent: bool) -> Adversary:
    """Make the same regression with the curve as a variable and integrated by PyMC."""
    rng = np.random.default_rng(16)
    places = np.sort(rng.uniform(0, 10, 16))[:, None]
    values = np.sin(places[:, 0]) + rng.normal(0, 0.2, 16)
    distance = np.abs(places - places.T)

    def build() -> pm.Model:
        with pm.Model() as model:
            if latent:
                noise = pm.HalfNormal("noise", 1.0)
                covariance = np.exp(-0.5 * (distance / 1.5) ** 2) + 1e-6 * np.eye(16)
                factor = np.linalg.cholesky(covariance)
                unit = pm.Normal("unit", 0, 1, shape=16)
                pm.Normal("value", pt.dot(factor, unit), noise, observed=values)
            else:
                length = pm.InverseGamma("length", 2.0, 2.0)
                process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=length))
                process.marginal_likelihood("value", X=places, y=values, sigma=0.2, jitter=0.0)
        return model

    def log_noise_terms(log_noise: np.ndarray) -> np.ndarray:
        covariance = np.exp(-0.5 * (distance / 1.5) ** 2) + 1e-6 * np.eye(16)
        eigenvalues, vectors = np.linalg.eigh(covariance)
        variances = eigenvalues + np.exp(2 * log_noise[:, None])
        along = vectors.T @ values
        terms = -0.5 * (along**2 / variances + np.log(2 * np.pi * variances)).sum(-1)
        return terms + stats.halfnorm.logpdf(np.exp(log_noise)) + log_noise

    def log_length_terms(log_length: np.ndarray) -> np.ndarray:
        terms = []
        for length in np.exp(log_length):
            covariance = np.exp(-0.5 * (distance / length) ** 2) + 0.04 * np.eye(16)
            terms.append(log_multivariate_normal(values, 0.0, covariance))
        log_prior = stats.invgamma.logpdf(np.exp(log_length), 2, scale=2) + log_length
        return np.array(terms) + log_prior

    def solve() -> Answer:
        if latent:
            return solve_on_grid(
                log_noise_terms, gauss_legendre(-9, 2.5, 80), moments={"log noise": lambda x: x}
            )
        return solve_on_grid(
            log_length_terms, gauss_legendre(-4, 16, 60), moments={"log length": lambda x: x}
        )

    plan = (
        Plan(gaussian=("unit",), grid={"noise": gauss_legendre(-7, 1.5, 20, 6)})
        if latent
        else Plan(grid={"length": gauss_legendre(-3, 10, 30, 5)})
    )
    return Adversary(
        name,
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "a latent curve and its noise" if latent else "a covariance matrix for each particle",
        plan,
    )


def missing_floats() -> Adversary:
    values = np.array([1.0, np.nan, 2.5, 0.3, np.nan, 1.9, np.nan, 1.1])
    seen = values[np.isfinite(values)]

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 5)
            pm.Normal("value", mean, 1.0, observed=np.ma.masked_invalid(values))
        return model

    def solve() -> Answer:
        precision = 0.04 + len(seen)
        return Answer(
            log_multivariate_normal(seen, 0.0, np.eye(len(seen)) + 25.0),
            {"mean": (float(seen.sum() / precision), precision**-0.5)},
        )

    return Adversary(
        "missing_floats",
        build,
        solve,
        "Gaussian algebra",
        "missing values must not change log Z",
        Plan(gaussian=("mean", "value_unobserved")),
    )


def missing_counts() -> Adversary:
    counts = np.ma.masked_equal([4, -1, 2, 7, -1, 3], -1)

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 2, 0.5)
            pm.Poisson("count", rate, observed=counts)
        return model

    def solve() -> Answer:
        seen = counts.compressed()
        shape, rate = 2 + seen.sum(), 0.5 + len(seen)
        return Answer(
            log_gamma_poisson(seen, 2, 0.5), {"rate": (shape / rate, np.sqrt(shape) / rate)}
        )

    return Adversary(
        "missing_counts",
        build,
        solve,
        "closed form",
        "missing integers, of countable support",
        Plan(
            grid={"rate": gauss_legendre(-4, 4, 20, 8)},
            independent={"count_unobserved": (np.arange(120.0), np.zeros(120))},
        ),
    )


def missing_treatment() -> Adversary:
    """Make a missing binary predictor, which the responses inform."""
    treated = np.ma.masked_equal([1, 0, -1, 1, -1, 0, 0, -1], -1)
    response = np.array([2.1, 0.2, 1.8, 1.7, 0.1, -0.3, 0.4, 1.1])

    def build() -> pm.Model:
        with pm.Model() as model:
            effect = pm.Normal("effect", 0, 2)
            given = pm.Bernoulli("given", 0.4, observed=treated)
            pm.Normal("response", effect * given, 0.5, observed=response)
        return model

    def solve() -> Answer:
        log_terms, means, variances = [], [], []
        for guess in configurations(3, 2):
            given = treated.filled(0).astype(float)
            given[treated.mask] = guess
            precision = 0.25 + given.sum() / 0.25
            linear = given @ response / 0.25
            log_terms.append(
                stats.norm.logpdf(response, 0, 0.5).sum()
                + 0.5 * (linear**2 / precision - np.log(4 * precision))
                + given.sum() * np.log(0.4)
                + (8 - given.sum()) * np.log(0.6)
            )
            means.append(linear / precision)
            variances.append(1 / precision)
        log_sum = np.array(log_terms)
        found = mixed(log_sum, np.array(means), np.array(variances))
        return Answer(float(logsumexp(log_sum)), {"effect": found})

    return Adversary(
        "missing_treatment",
        build,
        solve,
        "sum over the missing values",
        "missing integers that other data inform",
        Plan(gaussian=("effect",), enumerated={"given_unobserved": np.arange(2)}),
    )


def censored() -> Adversary:
    values = np.array([3.0, 3.0, 3.0, 2.2, 1.9, 0.0, 0.0, 2.9])

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 10)
            noise = pm.HalfNormal("noise", 5)
            pm.Censored("value", pm.Normal.dist(mean, noise), lower=0, upper=3, observed=values)
        return model

    def log_joint(mean: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        noise = np.exp(log_noise)
        total = stats.norm.logpdf(mean, 0, 10) + stats.halfnorm.logpdf(noise, scale=5) + log_noise
        for value in values:
            if value == 3.0:
                total = total + stats.norm.logsf(3, mean, noise)
            elif value == 0.0:
                total = total + stats.norm.logcdf(0, mean, noise)
            else:
                total = total + stats.norm.logpdf(value, mean, noise)
        return total

    def solve() -> Answer:
        return solve_on_grid(
            log_joint,
            gauss_legendre(-50, 50, 60),
            gauss_legendre(-4, 4, 30),
            moments={"mean": lambda mean, log_noise: mean + 0 * log_noise},
        )

    return Adversary(
        "censored_both_ends",
        build,
        solve,
        "2-D quadrature",
        "more than half of the data are at the limits",
        Plan(
            grid={"mean": gauss_legendre(-45, 45, 90, 6), "noise": gauss_legendre(-3, 3.5, 16, 6)}
        ),
    )


def potentials_only() -> Adversary:
    """Make a soft triangle: three variables tied pairwise, and no data."""

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 10, shape=3)
            pm.Potential("first", -0.5 * ((x[0] - x[1]) / 0.1) ** 2)
            pm.Potential("second", -0.5 * ((x[1] - x[2] - 1) / 0.1) ** 2)
            pm.Potential("third", -0.5 * ((x[2] - x[0] + 1.2) / 0.1) ** 2)
        return model

    def solve() -> Answer:
        ties = np.array([[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]])
        shifts = np.array([0.0, 1.0, -1.2])
        precision = np.eye(3) / 100 + ties.T @ ties * 100
        linear = ties.T @ shifts * 100
        mean = np.linalg.solve(precision, linear)
        log_evidence = 0.5 * linear @ mean - 50 * shifts @ shifts
        log_evidence -= 0.5 * np.linalg.slogdet(100 * precision)[1]
        spread = np.sqrt(np.linalg.inv(precision)[0, 0])
        return Answer(float(log_evidence), {"x[0]": (float(mean[0]), float(spread))})

    return Adversary(
        "potentials_only",
        build,
        solve,
        "Gaussian algebra",
        "no data; a direction that the potentials leave free",
        Plan(gaussian=("x",)),
    )


def own_distribution() -> Adversary:
    waits = np.array([0.2, 1.7, 0.6, 4.1, 0.1, 0.9])

    def log_density(value: pt.TensorVariable, tail: pt.TensorVariable) -> pt.TensorVariable:
        return pm.math.log(tail) - (tail + 1) * pm.math.log(1 + value)

    def draw(
        tail: np.ndarray, rng: np.random.Generator, size: tuple[int, ...] | None
    ) -> np.ndarray:
        return rng.pareto(tail, size=size)

    def build() -> pm.Model:
        with pm.Model() as model:
            tail = pm.Gamma("tail", 2, 3)
            pm.CustomDist("wait", tail, logp=log_density, random=draw, observed=waits)
        return model

    def solve() -> Answer:
        total = np.log1p(waits).sum()
        shape, rate = 2 + len(waits), 3 + total
        log_evidence = 2 * np.log(3) + gammaln(shape) - shape * np.log(rate) - total
        return Answer(float(log_evidence), {"tail": (shape / rate, float(np.sqrt(shape) / rate))})

    return Adversary(
        "own_distribution",
        build,
        solve,
        "closed form",
        "a density that the user wrote, under an integer gamma prior",
        Plan(grid={"tail": gauss_legendre(-10, 5, 30, 8)}),
    )


def one_observation() -> Adversary:
    """Make two scales and a mean from a single value: the posterior is nearly the prior."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 10)
            noise = pm.HalfCauchy("noise", 5)
            pm.Normal("value", mean, noise, observed=7.0)
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda s: (
                log_half_cauchy(s, 5.0) + stats.norm.logpdf(7.0, 0, np.sqrt(100 + np.exp(2 * s)))
            ),
            gauss_legendre(-40, 30, 120),
        )

    return Adversary(
        "one_observation",
        build,
        solve,
        "1-D quadrature over Gaussian algebra",
        "one value for two parameters: a ridge down to noise zero",
        Plan(gaussian=("mean",), grid={"noise": gauss_legendre(-20, 22, 60, 6)}),
    )


PROBLEMS: tuple[Adversary, ...] = (
    hidden_markov("hidden_markov_24", 24, unknown_means=False),
    hidden_markov("hidden_markov_means", 14, unknown_means=True),
    ising_ring(12, 0.5),
    ising_ring(40, 1.2),
    random_walk("random_walk_30", 30, "wide"),
    random_walk("random_walk_60_integer", 60, "integer"),
    autoregression(),
    gaussian_process("gaussian_process_latent", latent=True),
    gaussian_process("gaussian_process_length", latent=False),
    missing_floats(),
    missing_counts(),
    missing_treatment(),
    censored(),
    potentials_only(),
    own_distribution(),
    one_observation(),
)
