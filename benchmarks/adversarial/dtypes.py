"""Integer, boolean and single-precision parameters and data.

A user writes ``pm.Exponential("s", 10)`` and passes counts as ``int8``. PyTensor casts; whoever
evaluates its graph by other means has to cast in the same places.
"""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln

from benchmarks.adversarial.exact import GaussianRegression, log_gamma_poisson, solve_on_grid
from benchmarks.adversarial.problem import Adversary, Answer
from benchmarks.suite.integrate import Plan
from benchmarks.suite.numerics import (
    gauss_legendre,
    log_beta_binomial,
    log_inverse_gamma_regression,
    log_multivariate_normal,
)

__all__ = ["PROBLEMS"]

LOG_RATE = gauss_legendre(-20, 8, panels=30)


def integer_rate() -> Adversary:
    waits = np.array([0.05, 0.31, 0.12, 0.02, 0.09, 0.2])

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Exponential("rate", 10)
            pm.Exponential("wait", rate, observed=waits)
        return model

    def solve() -> Answer:
        shape, rate = 1 + len(waits), 10 + waits.sum()
        log_evidence = np.log(10) + gammaln(shape) - shape * np.log(rate)
        return Answer(float(log_evidence), {"rate": (shape / rate, np.sqrt(shape) / rate)})

    return Adversary(
        "integer_rate",
        build,
        solve,
        "closed form",
        "the prior's rate is an integer",
        Plan(grid={"rate": LOG_RATE}),
    )


def integer_gamma() -> Adversary:
    counts = np.array([0, 1, 0, 2, 1])

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 3, 7)
            pm.Poisson("count", rate, observed=counts)
        return model

    def solve() -> Answer:
        shape, rate = 3 + counts.sum(), 7 + len(counts)
        moments = {"rate": (shape / rate, np.sqrt(shape) / rate)}
        return Answer(log_gamma_poisson(counts, 3, 7), moments)

    return Adversary(
        "integer_gamma",
        build,
        solve,
        "closed form",
        "both parameters of the prior are integers",
        Plan(grid={"rate": LOG_RATE}),
    )


def integer_power(name: str, dtype: str, power: float) -> Adversary:
    sizes = np.array([2, 4, 3, 9, 5, 1], dtype=dtype)
    values = np.array([0.9, 1.6, 0.4, 1.2, 1.5, 3.0])

    def build() -> pm.Model:
        with pm.Model() as model:
            size = pm.Data("size", sizes)
            mean = pm.Normal("mean", 0, 2)
            pm.Normal("value", mean, size**power, observed=values)
        return model

    def solve() -> Answer:
        variances = sizes.astype(float) ** (2 * power)
        covariance = np.diag(variances) + 4.0
        precision = 0.25 + (1 / variances).sum()
        center = (values / variances).sum() / precision
        return Answer(
            log_multivariate_normal(values, 0.0, covariance), {"mean": (center, precision**-0.5)}
        )

    return Adversary(
        name,
        build,
        solve,
        "Gaussian algebra",
        f"{dtype} data to the power {power}",
        Plan(gaussian=("mean",)),
    )


def small_integer_predictors() -> Adversary:
    rng = np.random.default_rng(1)
    ages = rng.integers(0, 100, size=(40, 3)).astype("int8")
    response = (ages - 50.0) @ np.array([0.1, -0.05, 0.0]) + rng.normal(0, 1.5, 40)

    def build() -> pm.Model:
        with pm.Model() as model:
            age = pm.Data("age", ages)
            slope = pm.Normal("slope", 0, 1, shape=3)
            pm.Normal("response", pm.math.dot(age - 50, slope), 1.5, observed=response)
        return model

    def solve() -> Answer:
        regression = GaussianRegression(response, ages - 50.0, 1.0)
        noise = np.array(1.5)
        mean, variance = regression.coefficient(0, noise)
        return Answer(
            float(regression.log_evidence(noise)), {"slope[0]": (float(mean), float(variance**0.5))}
        )

    return Adversary(
        "int8_predictors",
        build,
        solve,
        "Gaussian algebra",
        "int8 predictors, centred and multiplied in the graph",
        Plan(gaussian=("slope",)),
    )


def single_precision_data() -> Adversary:
    values = (1000 + np.array([0.31, -0.42, 1.05, 0.77, -0.63, 0.12])).astype("float32")

    def build() -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 1000, 1)
            pm.Normal("value", mean, 0.5, observed=values)
        return model

    def solve() -> Answer:
        covariance = 0.25 * np.eye(len(values)) + 1.0
        precision = 1 + len(values) / 0.25
        center = 1000 + (values.astype(float) - 1000).sum() / 0.25 / precision
        return Answer(
            log_multivariate_normal(values.astype(float), 1000.0, covariance),
            {"mean": (float(center), precision**-0.5)},
        )

    return Adversary(
        "float32_observed",
        build,
        solve,
        "Gaussian algebra",
        "float32 observations far from zero",
        Plan(gaussian=("mean",)),
    )


def boolean_treatment() -> Adversary:
    treated = np.arange(16) % 3 == 0
    response = np.where(treated, 1.4, 0.2) + 0.5 * np.sin(np.arange(16.0))

    def build() -> pm.Model:
        with pm.Model() as model:
            given = pm.Data("given", treated)
            base = pm.Normal("base", 0, 1)
            effect = pm.Normal("effect", 0, 2)
            pm.Normal("response", base + effect * given, 0.5, observed=response)
        return model

    def solve() -> Answer:
        design = np.column_stack([np.ones(16), treated.astype(float)])
        regression = GaussianRegression(response, design, np.array([1.0, 2.0]))
        noise = np.array(0.5)
        mean, variance = regression.coefficient(1, noise)
        return Answer(
            float(regression.log_evidence(noise)), {"effect": (float(mean), float(variance**0.5))}
        )

    return Adversary(
        "boolean_treatment",
        build,
        solve,
        "Gaussian algebra",
        "a boolean predictor",
        Plan(gaussian=("base", "effect")),
    )


def unsigned_counts() -> Adversary:
    counts = np.array([90, 110, 87, 121, 95, 104], dtype="uint8")

    def build() -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 5, 0.05)
            pm.Poisson("count", rate, observed=counts)
        return model

    def solve() -> Answer:
        wide = counts.astype(int)
        shape, rate = 5 + wide.sum(), 0.05 + len(wide)
        moments = {"rate": (shape / rate, np.sqrt(shape) / rate)}
        return Answer(log_gamma_poisson(wide, 5, 0.05), moments)

    return Adversary(
        "uint8_counts",
        build,
        solve,
        "closed form",
        "counts whose sum does not fit their type",
        Plan(grid={"rate": gauss_legendre(3, 6.5, panels=40)}),
    )


def short_integer_binomial() -> Adversary:
    trials = np.array([200, 180, 250], dtype="int16")
    heads = np.array([20, 25, 31], dtype="int16")

    def build() -> pm.Model:
        with pm.Model() as model:
            probability = pm.Beta("probability", 1, 1, shape=3)
            pm.Binomial("heads", n=pm.Data("trials", trials), p=probability, observed=heads)
        return model

    def solve() -> Answer:
        heads_, trials_ = heads.astype(int), trials.astype(int)
        first = stats.beta(1 + heads_[0], 1 + trials_[0] - heads_[0])
        return Answer(
            float(log_beta_binomial(heads_, trials_, 1.0, 1.0).sum()),
            {"probability[0]": (first.mean(), first.std())},
        )

    return Adversary(
        "int16_binomial",
        build,
        solve,
        "closed form",
        "int16 trials, and Beta(1, 1) by integers",
        Plan(independent={"probability": gauss_legendre(-6, 2, panels=30)}),
    )


def integer_inverse_gamma() -> Adversary:
    values = np.array([1.3, -0.4, 2.1, -1.8, 0.6])

    def build() -> pm.Model:
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 3, 2)
            mean = pm.Normal("mean", 1, pm.math.sqrt(variance / 4))
            pm.Normal("value", mean, pm.math.sqrt(variance), observed=values)
        return model

    def solve() -> Answer:
        design = np.ones((len(values), 1))
        log_evidence = log_inverse_gamma_regression(
            values, design, np.array([1.0]), np.array([[0.25]]), 3.0, 2.0
        )
        return Answer(log_evidence, {"mean": _student_mean(values)})

    def _student_mean(data: np.ndarray) -> tuple[float, float]:
        count, shape = len(data), 3 + len(data) / 2
        center = (4 * 1.0 + data.sum()) / (4 + count)
        rate = 2 + 0.5 * (4 * (1 - center) ** 2 + ((data - center) ** 2).sum())
        return float(center), float(np.sqrt(rate / (shape - 1) / (4 + count)))

    return Adversary(
        "integer_inverse_gamma",
        build,
        solve,
        "closed form",
        "integers in every place, one of them under a division",
        Plan(gaussian=("mean",), grid={"variance": gauss_legendre(-6, 9)}),
    )


def integer_student() -> Adversary:
    values = np.array([3, -1, 4, 15, 2, 5])

    def build() -> pm.Model:
        with pm.Model() as model:
            center = pm.Normal("center", 0, 10)
            pm.StudentT("value", nu=4, mu=center, sigma=2, observed=values)
        return model

    def solve() -> Answer:
        return solve_on_grid(
            lambda center: (
                stats.norm.logpdf(center, 0, 10)
                + stats.t.logpdf(values[:, None], 4, center, 2).sum(0)
            ),
            gauss_legendre(-60, 60, panels=60),
            moments={"center": lambda center: center},
        )

    return Adversary(
        "integer_student",
        build,
        solve,
        "1-D quadrature",
        "integer degrees of freedom, scale and observations",
        Plan(grid={"center": gauss_legendre(-50, 50, panels=90, order=6)}),
    )


def integer_ratio() -> Adversary:
    exposed = np.array([3, 7, 1, 9, 4, 6])
    total = np.array([10, 8, 4, 12, 16, 6])
    response = np.array([0.9, 1.8, 0.7, 1.5, 0.8, 2.2])

    def build() -> pm.Model:
        with pm.Model() as model:
            share = pm.Data("exposed", exposed) / pm.Data("total", total)
            halves = pm.Data("units", total) // 2
            slope = pm.Normal("slope", 0, 3)
            pm.Normal("response", slope * share, 1 / halves, observed=response)
        return model

    def solve() -> Answer:
        noise = 1 / (total // 2)
        share = exposed / total
        covariance = np.diag(noise**2) + 9 * np.outer(share, share)
        precision = 1 / 9 + (share**2 / noise**2).sum()
        center = (share * response / noise**2).sum() / precision
        return Answer(
            log_multivariate_normal(response, 0.0, covariance),
            {"slope": (float(center), float(precision**-0.5))},
        )

    return Adversary(
        "integer_ratio",
        build,
        solve,
        "Gaussian algebra",
        "true and floor division of integers, and the reciprocal of one",
        Plan(gaussian=("slope",)),
    )


def integer_chi_squared() -> Adversary:
    def build() -> pm.Model:
        with pm.Model() as model:
            energy = pm.ChiSquared("energy", 5, shape=4)
            pm.Potential("cold", -3 * energy)
        return model

    def solve() -> Answer:
        each = stats.gamma(2.5, scale=1 / 3.5)
        return Answer(float(-10 * np.log(7)), {"energy[2]": (each.mean(), each.std())})

    return Adversary(
        "integer_chi_squared",
        build,
        solve,
        "closed form",
        "an integer parameter that is halved",
        Plan(independent={"energy": gauss_legendre(-20, 6, panels=30)}),
    )


def integer_data_in_prior() -> Adversary:
    sizes = np.array([2, 5, 10])
    counts = np.array([1, 0, 3])

    def build() -> pm.Model:
        with pm.Model() as model:
            size = pm.Data("size", sizes)
            rate = pm.Exponential("rate", size)
            pm.Poisson("count", 4 * rate, observed=counts)
        return model

    def solve() -> Answer:
        # A rate with prior Exponential(s) and exposure 4: a geometric count.
        log_evidence = np.log(sizes / (sizes + 4)) + counts * np.log(4 / (sizes + 4))
        shape, rate = 1 + counts[2], sizes[2] + 4
        return Answer(float(log_evidence.sum()), {"rate[2]": (shape / rate, shape**0.5 / rate)})

    return Adversary(
        "integer_data_in_prior",
        build,
        solve,
        "closed form",
        "the rates of the priors are integer data",
        Plan(independent={"rate": LOG_RATE}),
    )


PROBLEMS: tuple[Adversary, ...] = (
    integer_rate(),
    integer_gamma(),
    integer_power("int64_power", "int64", -1.0),
    integer_power("int32_root", "int32", -0.5),
    integer_power("uint8_square", "uint8", -2.0),
    small_integer_predictors(),
    single_precision_data(),
    boolean_treatment(),
    unsigned_counts(),
    short_integer_binomial(),
    integer_inverse_gamma(),
    integer_student(),
    integer_ratio(),
    integer_chi_squared(),
    integer_data_in_prior(),
)
