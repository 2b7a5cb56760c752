"""How the cost of a generic model grows with its data, its dimension and the particles.

``python -m benchmarks growth [--plot FILE]`` measures the processor time of a run whose model is
compiled already, prints it with the fitted exponents (of the upper half of the range, where the
fixed costs are small), and draws it.
"""

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.suite.numerics import log_multivariate_normal

__all__ = ["COMMANDS"]


def regression(observations: int) -> pm.Model:
    """Return a logistic regression with three coefficients."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(observations, 2))
    p = 1 / (1 + np.exp(-(0.3 + x @ [0.5, -0.5])))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slopes = pm.Normal("slopes", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=intercept + x @ slopes, observed=rng.random(observations) < p)
    return model


def normal_means(dimension: int) -> pm.Model:
    """Return a vector with a correlated normal posterior."""
    rng = np.random.default_rng(2)
    mixing = rng.normal(size=(dimension, dimension)) / np.sqrt(dimension) + np.eye(dimension)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=dimension)
        pm.Normal("y", mixing @ x, 0.5, observed=rng.normal(size=dimension))
    return model


def exact_normal_means(dimension: int) -> float:
    rng = np.random.default_rng(2)
    mixing = rng.normal(size=(dimension, dimension)) / np.sqrt(dimension) + np.eye(dimension)
    covariance = mixing @ mixing.T + 0.25 * np.eye(dimension)
    return log_multivariate_normal(rng.normal(size=dimension), np.zeros(dimension), covariance)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth")
    parser.add_argument("--observations", type=int, nargs="*", default=[10**k for k in range(2, 7)])
    parser.add_argument("--dimensions", type=int, nargs="*", default=[2, 5, 10, 20, 50, 100, 200])
    parser.add_argument("--particles", type=int, nargs="*", default=[10**k for k in range(2, 6)])
    parser.add_argument("--plot", default=None, help="file for a figure")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    sweeps = {
        "observations": (
            options.observations,
            lambda size: measure(regression(size), draws=20, chains=1, refine=False),
            "logistic regression, 20 particles, explored only",
        ),
        "dimensions": (
            options.dimensions,
            lambda size: measure(normal_means(size), exact_normal_means(size)),
            "correlated normal, four chains of 1000 particles",
        ),
        "particles": (
            options.particles,
            lambda size: measure(regression(200), draws=size, chains=1),
            "logistic regression with 200 observations, one chain",
        ),
    }
    results = {}
    for name, (sizes, run, title) in sweeps.items():
        if sizes:
            results[name] = (sizes, [_report(name, size, run) for size in sizes], title)
            print(f"time grows as {name}^{exponent(*results[name][:2]):.2f}", flush=True)
    if options.plot:
        plot(results, options.plot)


def measure(
    model: pm.Model, truth: float = np.nan, **options: int
) -> tuple[float, float, float, float]:
    """Return the seconds to compile, processor seconds to run, the error and its standard error."""
    started = time.perf_counter()
    pymc_arm.plan(model)
    compiled = time.perf_counter() - started
    before = _processor_time()
    attributes = pymc_arm.sample(model, random_seed=1, progressbar=False, **options).attrs
    error = attributes["log_marginal_likelihood"] - truth
    return compiled, _processor_time() - before, error, attributes["log_marginal_likelihood_se"]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log time over log size, in the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def plot(results: dict[str, tuple[Sequence[int], list[float], str]], file: str) -> None:
    """Draw a panel for each sweep."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.6), squeeze=False)
    for axis, (name, (sizes, seconds, title)) in zip(axes[0], results.items(), strict=True):
        axis.loglog(sizes, seconds, "o-")
        slope = exponent(sizes, seconds)
        half = len(sizes) // 2
        last = np.array(sizes[half:], dtype=float)
        middle = np.mean(np.log(seconds[half:]) - slope * np.log(last))
        axis.loglog(last, np.exp(middle) * last**slope, "k--", lw=1)
        axis.set_xlabel(name)
        axis.set_ylabel("processor seconds")
        axis.set_title(f"{title}\n{name}$^{{{slope:.2f}}}$", fontsize=9)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=12))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    print(f"figure written to {file}")


def _report(name: str, size: int, run: Callable[[int], tuple[float, float, float, float]]) -> float:
    compiled, seconds, error, standard_error = run(size)
    print(
        f"{name} {size:8d}: compiled in {compiled:6.2f} s, run in {seconds:8.2f} processor s, "
        f"standard error {standard_error:.4f}, error {error:+.4f}",
        flush=True,
    )
    return seconds


def _processor_time() -> float:
    """Return the processor time of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


COMMANDS = {"growth": main}
