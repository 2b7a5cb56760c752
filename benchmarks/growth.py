"""How the cost of a generic model grows with its data, dimension, particles, groups and labels.

``python -m benchmarks growth [--csv FILE] [--plot FILE]`` measures the processor time of a run in
default settings whose model is compiled already, prints it with the fitted exponents (of the upper
half of the range, where the fixed costs are small), and draws it. With ``--csv`` sizes that are in
the file are not run again. ``--observations``, ``--dimensions``, ``--particles``, ``--groups`` and
``--labels`` take other sizes, or none.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_arm
from benchmarks.limited import cpu_seconds
from benchmarks.origin import note_origin
from benchmarks.records import add_record, read_records
from benchmarks.suite.numerics import log_multivariate_normal

__all__ = ["COMMANDS", "Growth", "exponent"]


@dataclass(frozen=True)
class Growth:
    """One run of one size.

    Attributes
    ----------
    sweep, size
        What grows, and how large it is.
    compile_seconds
        Wall time before anything runs.
    cpu_seconds
        Processor time of the run.
    error, standard_error
        Of log Z; the error is NaN where no truth is known.
    """

    sweep: str
    size: int
    compile_seconds: float
    cpu_seconds: float
    error: float
    standard_error: float


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


def group_effects(groups: int) -> pm.Model:
    """Return group effects of unknown mean and scale, with five observations each."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(groups), 5)
    y = rng.normal(rng.normal(1.0, 0.7, groups)[group], 1.0)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", mean, scale, shape=groups)
        pm.Poisson("y", pm.math.exp(0.3 * effect[group]), observed=np.round(np.exp(0.3 * y)))
    return model


def labelled_mixture(labels: int) -> pm.Model:
    """Return a mixture of two normals with a label for each observation."""
    rng = np.random.default_rng(4)
    y = rng.normal(np.where(rng.random(labels) < 0.4, -1.5, 1.5), 1.0)
    with pm.Model() as model:
        means = pm.Normal("means", [-1.0, 1.0], 1.0)
        label = pm.Bernoulli("label", 0.5, shape=labels)
        pm.Normal("y", means[label], 1.0, observed=y)
    return model


SWEEPS: dict[str, tuple[tuple[int, ...], str, Callable[[int], tuple[float, ...]]]] = {
    "observations": (
        (100, 1000, 10_000, 100_000, 1_000_000),
        "logistic regression",
        lambda size: measure(regression(size)),
    ),
    "dimensions": (
        (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000),
        "correlated normal",
        lambda size: measure(normal_means(size), exact_normal_means(size)),
    ),
    "particles": (
        (100, 1000, 10_000, 100_000),
        "logistic regression, 200 observations, one chain",
        lambda size: measure(regression(200), draws=size, chains=1),
    ),
    "groups": (
        (10, 30, 100, 300, 1000),
        "Poisson counts, five a group",
        lambda size: measure(group_effects(size)),
    ),
    "labels": (
        (10, 30, 100, 300, 1000),
        "mixture of two normals",
        lambda size: measure(labelled_mixture(size)),
    ),
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth")
    for name, (sizes, title, _) in SWEEPS.items():
        parser.add_argument(f"--{name}", type=int, nargs="*", default=list(sizes), help=title)
    parser.add_argument("--csv", type=Path, help="a file that every run is added to")
    parser.add_argument("--plot", default=None, help="file for a figure")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    known = read_records(Growth, options.csv) if options.csv else []
    if options.csv:
        note_origin(options.csv)
    done = {(row.sweep, row.size): row for row in known}
    results = {}
    for name, (_, title, run) in SWEEPS.items():
        sizes = getattr(options, name)
        for size in sizes:
            if (name, size) not in done:
                done[name, size] = Growth(name, size, *run(size))
                if options.csv:
                    add_record(options.csv, done[name, size])
            _report(done[name, size])
        if len(sizes) > 1:
            seconds = [done[name, size].cpu_seconds for size in sizes]
            results[name] = (sizes, seconds, title)
            print(f"time grows as {name}^{exponent(sizes, seconds):.2f}", flush=True)
    if options.plot:
        plot(results, options.plot)


def measure(
    model: pm.Model, truth: float = np.nan, **options: int
) -> tuple[float, float, float, float]:
    """Return the seconds to compile, processor seconds to run, the error and its standard error."""
    started = time.perf_counter()
    pymc_arm.plan(model)
    compiled = time.perf_counter() - started
    before = cpu_seconds()
    attributes = pymc_arm.sample(model, random_seed=1, progressbar=False, **options).attrs
    error = attributes["log_marginal_likelihood"] - truth
    return compiled, cpu_seconds() - before, error, attributes["log_marginal_likelihood_se"]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log time over log size, in the upper half of the sizes."""
    if len(sizes) < 2:
        return np.nan
    half = min(len(sizes) // 2, len(sizes) - 2)
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


def _report(row: Growth) -> None:
    print(
        f"{row.sweep} {row.size:8d}: compiled in {row.compile_seconds:6.2f} s, run in "
        f"{row.cpu_seconds:8.2f} processor s, standard error {row.standard_error:.4f}, error "
        f"{row.error:+.4f}",
        flush=True,
    )


COMMANDS = {"growth": main}
