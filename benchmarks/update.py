"""Yesterday's result and today's data: what ``pymc_arm.update`` costs, and whether it is right.

``python -m benchmarks update calibration [NAME ...] [--repeats 100]`` samples models with an exact
log Z, appends a tenth of the rows, and updates; printed are how often log Z and log p(new | old)
are within two standard errors, the standard deviation of z, and the mean standard error.

``python -m benchmarks update chain [NAME ...] [--repeats 10]`` makes ten updates in a row, each of
a tenth of the rows, and prints the same for the last of them.

``python -m benchmarks update cost [--repeats 3]`` compares the CPU seconds of an update by a tenth
of the rows with those of a fresh run on all rows, on larger models: in all, and without what both
need to compile the model.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import scipy
from scipy import stats

import pymc_arm
from benchmarks.limited import cpu_seconds
from pymc_arm.models import compiled
from pymc_arm.models.graph import reuse

__all__ = ["COMMANDS", "EXACT"]

ROWS, BATCHES = 100, 10


class Exact(NamedTuple):
    """A model of rows whose log Z is known: the rows, a model of some of them, and its log Z."""

    rows: np.ndarray
    build: Callable[[np.ndarray], pm.Model]
    log_evidence: Callable[[np.ndarray], float]


def _coin(count: int) -> Exact:
    rows = (np.random.default_rng(1).random(count) < 0.3).astype(int)

    def build(y: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            p = pm.Beta("p", 2.0, 3.0)
            pm.Bernoulli("y", p, observed=y)
        return model

    def log_evidence(y: np.ndarray) -> float:
        heads = y.sum()
        return float(
            scipy.special.betaln(2 + heads, 3 + len(y) - heads) - scipy.special.betaln(2, 3)
        )

    return Exact(rows, build, log_evidence)


def _mean(count: int) -> Exact:
    rows = np.random.default_rng(2).normal(1.0, 1.0, count)

    def build(y: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0.0, 2.0)
            pm.Normal("y", mean, 1.0, observed=y)
        return model

    def log_evidence(y: np.ndarray) -> float:
        covariance = np.eye(len(y)) + 4.0
        return float(stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance))

    return Exact(rows, build, log_evidence)


def _regression(count: int) -> Exact:
    """Return a regression whose rows are a multivariate Student-t."""
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(count), rng.normal(size=(count, 3))])
    rows = np.column_stack([design, design @ [0.5, -0.3, 0.2, 0.0] + rng.normal(size=count)])

    def build(data: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 3.0, 2.0)
            slopes = pm.Normal("slopes", 0.0, 2.0 * pm.math.sqrt(variance), shape=4)
            pm.Normal("y", data[:, :4] @ slopes, pm.math.sqrt(variance), observed=data[:, 4])
        return model

    def log_evidence(data: np.ndarray) -> float:
        shape = (np.eye(len(data)) + 4.0 * data[:, :4] @ data[:, :4].T) * 2.0 / 3.0
        return float(stats.multivariate_t.logpdf(data[:, 4], np.zeros(len(data)), shape, df=6.0))

    return Exact(rows, build, log_evidence)


def _counts(count: int) -> Exact:
    rows = np.random.default_rng(4).poisson(3.0, count)

    def build(y: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 2.0, 1.0)
            pm.Poisson("y", rate, observed=y)
        return model

    def log_evidence(y: np.ndarray) -> float:
        shape, rate, gammaln = 2.0 + y.sum(), 1.0 + len(y), scipy.special.gammaln
        return float(gammaln(shape) - shape * np.log(rate) - gammaln(y + 1.0).sum())

    return Exact(rows, build, log_evidence)


def _logistic(count: int) -> Exact:
    """Return a regression on one predictor: log Z is a sum over a fine grid."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=count)
    y = rng.random(count) < scipy.special.expit(0.3 + 0.8 * x)

    def build(data: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.5, shape=2)
            pm.Bernoulli("y", logit_p=b[0] + b[1] * data[:, 0], observed=data[:, 1].astype(int))
        return model

    def log_evidence(data: np.ndarray) -> float:
        side = np.linspace(-6.0, 6.0, 1201)
        first, second = np.meshgrid(side, side, indexing="ij")
        total = stats.norm.logpdf(first, 0.0, 1.5) + stats.norm.logpdf(second, 0.0, 1.5)
        for place, outcome in data:
            sign = 1.0 if outcome else -1.0
            total -= np.logaddexp(0.0, -sign * (first + second * place))
        return float(scipy.special.logsumexp(total) + 2 * np.log(side[1] - side[0]))

    return Exact(np.column_stack([x, y]), build, log_evidence)


EXACT: dict[str, Callable[[int], Exact]] = {
    "coin": _coin,
    "normal_mean": _mean,
    "regression": _regression,
    "counts": _counts,
    "logistic": _logistic,
}


def _large_logistic(rng: np.random.Generator, rows: int, columns: int) -> list[pm.Model]:
    x = rng.normal(size=(rows, columns))
    y = (rng.random(rows) < scipy.special.expit(x @ rng.normal(0.0, 0.5, columns))).astype(int)
    models = []
    for count in (rows * 10 // 11, rows):
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.0, shape=columns)
            pm.Bernoulli("y", logit_p=x[:count] @ b, observed=y[:count])
        models.append(model)
    return models


def _heavy_tails(rng: np.random.Generator, rows: int, columns: int) -> list[pm.Model]:
    """Return a regression with Student-t noise, whose runs take longer than compiling it."""
    x = rng.normal(size=(rows, columns))
    y = x @ rng.normal(0.0, 0.5, columns) + 0.7 * rng.standard_t(4.0, rows)
    models = []
    for count in (rows * 10 // 11, rows):
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.0, shape=columns)
            scale, freedom = pm.HalfNormal("scale", 1.0), pm.Gamma("freedom", 2.0, 0.1)
            pm.StudentT("y", nu=freedom, mu=x[:count] @ b, sigma=scale, observed=y[:count])
        models.append(model)
    return models


def _groups(rng: np.random.Generator, rows: int, groups: int, slopes: bool) -> list[pm.Model]:
    group, x = rng.integers(0, groups, rows), rng.normal(size=rows)
    effects = rng.normal(size=(2, groups)) * np.array([[1.0], [0.5 if slopes else 0.0]])
    y = effects[0][group] + effects[1][group] * x + rng.normal(size=rows)
    models = []
    for count in (rows * 10 // 11, rows):
        own = group[:count]
        with pm.Model() as model:
            center = pm.Normal("center", 0.0, 2.0)
            between, within = pm.HalfNormal("between", 1.0), pm.HalfNormal("within", 1.0)
            mean = pm.Normal("effect", center, between, shape=groups)[own]
            if slopes:
                width = pm.HalfNormal("width", 1.0)
                mean = mean + pm.Normal("slope", 0.0, width, shape=groups)[own] * x[:count]
            pm.Normal("y", mean, within, observed=y[:count])
        models.append(model)
    return models


LARGE: dict[str, Callable[[np.random.Generator], list[pm.Model]]] = {
    "logistic, 500 rows, 8 columns": lambda rng: _large_logistic(rng, 500, 8),
    "logistic, 5000 rows, 8 columns": lambda rng: _large_logistic(rng, 5000, 8),
    "heavy tails, 3000 rows, 12 columns": lambda rng: _heavy_tails(rng, 3000, 12),
    "20 groups, 1000 rows": lambda rng: _groups(rng, 1000, 20, slopes=False),
    "15 groups with slopes, 600 rows": lambda rng: _groups(rng, 600, 15, slopes=True),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks update")
    parser.add_argument("what", choices=["calibration", "chain", "cost"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    known: dict[str, Any] = LARGE if options.what == "cost" else EXACT
    names = options.names or list(known)
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"no model is called {sorted(unknown)}; they are {', '.join(known)}")
    if options.what == "cost":
        _cost(names, options.repeats or 3)
    else:
        batches = 1 if options.what == "calibration" else BATCHES
        _calibration(names, options.repeats or (100 if batches == 1 else 10), batches)


def _calibration(names: list[str], repeats: int, batches: int) -> None:
    print(f"{'model':14s}{'':10s}{'within 2 se':>12s}{'mean z':>8s}{'sd z':>7s}", end="")
    print(f"{'mean se':>9s}  verdicts ok")
    for name in names:
        own = EXACT[name](ROWS + batches * ROWS // 10)
        counts = [ROWS + k * ROWS // 10 for k in range(batches + 1)]
        models = [own.build(own.rows[:count]) for count in counts]
        exact = [own.log_evidence(own.rows[:count]) for count in counts]
        z, errors, ok = [], [], 0
        for seed in range(repeats):
            result = pymc_arm.sample(models[0], random_seed=seed, progressbar=False, cores=1)
            for number, model in enumerate(models[1:]):
                result = pymc_arm.update(result, model, random_seed=[seed, number], cores=1)
            found = result.attrs
            pairs = [
                ("log_marginal_likelihood", exact[-1]),
                ("log_new_given_old", exact[-1] - exact[-2]),
            ]
            errors.append([found[f"{key}_se"] for key, _ in pairs])
            z.append([(found[key] - truth) / found[f"{key}_se"] for key, truth in pairs])
            ok += found["verdict"] == "ok"
        table = np.array(z)
        for column, what in enumerate(("log Z", "new | old")):
            own_z, se = table[:, column], np.mean(errors, axis=0)[column]
            within = int((np.abs(own_z) < 2).sum())
            print(
                f"{name:14s}{what:10s}{within:5d} of {repeats:3d}{own_z.mean():+8.2f}"
                f"{own_z.std(ddof=1):7.2f}{se:9.4f}  {ok}",
                flush=True,
            )


def _cost(names: list[str], repeats: int) -> None:
    print(f"{'model':34s}{'fresh':>7s}{'update':>8s}{'share':>7s}  without compiling:", end="")
    print(f"{'fresh':>7s}{'update':>8s}{'share':>7s}  difference of log Z")
    for name in names:
        rows = []
        for seed in range(repeats):
            old, new = LARGE[name](np.random.default_rng(seed))
            before = pymc_arm.sample(old, random_seed=seed, progressbar=False, cores=1)

            def update() -> Any:
                return pymc_arm.update(before, new, random_seed=seed, cores=1)  # noqa: B023

            def fresh() -> Any:
                return pymc_arm.sample(new, random_seed=seed, progressbar=False, cores=1)  # noqa: B023

            seconds, found = [], []
            for run in (fresh, update):
                compiled._compiled.pop(new, None)
                reuse._known.clear()
                for _ in range(2):  # the second time the model is compiled
                    start = cpu_seconds()
                    result = run()
                    seconds.append(cpu_seconds() - start)
                found.append(result.attrs)
            one, two = found
            difference = two["log_marginal_likelihood"] - one["log_marginal_likelihood"]
            error = np.hypot(one["log_marginal_likelihood_se"], two["log_marginal_likelihood_se"])
            rows.append([*seconds, difference / error])
        fresh_all, fresh_run, update_all, update_run, z = np.mean(rows, axis=0)
        print(
            f"{name:34s}{fresh_all:7.1f}{update_all:8.1f}{update_all / fresh_all:7.0%}"
            f"{'':20s}{fresh_run:7.1f}{update_run:8.1f}{update_run / fresh_run:7.0%}"
            f"  {z:+.2f} errors",
            flush=True,
        )


COMMANDS = {"update": main}
