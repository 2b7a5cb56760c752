"""How often the stated interval of a Bayes factor has the exact one in it.

Three pairs of models with exact answers: two beta priors of a binomial rate, nested linear
regressions, and a point null against a normal mean. The data of every replicate is new.
"""

import argparse
import logging
import math
from collections.abc import Sequence

import numpy as np
import pymc as pm
from scipy import special, stats

from pymc_arm.comparison import BayesFactor, bayes_factor

__all__ = ["COMMANDS", "main"]

Pair = tuple[pm.Model, pm.Model, float]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the coverage of the 95 % intervals for each pair of models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks bayes-factors", description=__doc__)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(list(arguments))
    logging.getLogger("pymc").setLevel(logging.WARNING)
    print("| pair | covered | expected | median standard error | largest error |")
    print("|---|---|---|---|---|")
    low, high = stats.binom.interval(0.99, options.replicates, 0.95)
    for name, make in PAIRS.items():
        errors, widths, covered = [], [], 0
        for replicate, rng in enumerate(
            np.random.default_rng(options.seed).spawn(options.replicates)
        ):
            first, second, exact = make(rng)
            factor: BayesFactor = bayes_factor(
                first,
                second,
                draws=options.draws,
                chains=options.chains,
                random_seed=1000 * options.seed + replicate,
                progressbar=False,
            )
            lower, upper = factor.log_interval()
            covered += lower <= exact <= upper
            errors.append(abs(factor.log - exact))
            widths.append(factor.standard_error)
        print(
            f"| {name} | {covered} of {options.replicates} | {low:.0f} to {high:.0f} | "
            f"{np.median(widths):.2g} | {max(errors):.2g} |",
            flush=True,
        )


def beta_binomial(rng: np.random.Generator) -> Pair:
    """Return a flat and a narrow prior of a rate."""
    tosses, heads = 50, int(rng.binomial(50, 0.6))

    def one(alpha: float) -> tuple[pm.Model, float]:
        with pm.Model() as model:
            rate = pm.Beta("rate", alpha, alpha)
            pm.Binomial("heads", n=tosses, p=rate, observed=heads)
        posterior = special.betaln(alpha + heads, alpha + tosses - heads)
        return model, float(posterior - special.betaln(alpha, alpha))

    (first, log_first), (second, log_second) = one(1.0), one(30.0)
    return first, second, log_first - log_second


def nested_regressions(rng: np.random.Generator) -> Pair:
    """Return regressions with one and with three coefficients, of data with one."""
    design = rng.normal(size=(30, 3))
    y = 0.5 * design[:, 0] + rng.normal(size=30)

    def one(columns: int) -> tuple[pm.Model, float]:
        used = design[:, :columns]
        with pm.Model() as model:
            slopes = [pm.Normal(f"slope_{k}", 0.0, 1.0) for k in range(columns)]
            mean = sum(slope * used[:, k] for k, slope in enumerate(slopes))
            pm.Normal("y", mean, 1.0, observed=y)
        covariance = np.eye(30) + used @ used.T
        return model, float(stats.multivariate_normal.logpdf(y, np.zeros(30), covariance))

    (first, log_first), (second, log_second) = one(1), one(3)
    return first, second, log_first - log_second


def point_null(rng: np.random.Generator) -> Pair:
    """Return a mean with a normal prior, and one that is zero."""
    y = rng.normal(0.3, 1.0, size=20)
    with pm.Model() as free:
        mean = pm.Normal("mean", 0.0, 1.0)
        pm.Normal("y", mean, 1.0, observed=y)
    with pm.Model() as null:
        pm.Normal("y", 0.0, 1.0, observed=y)
    total, precision = float(y.sum()), 1.0 + len(y)
    return free, null, 0.5 * total**2 / precision - 0.5 * math.log(precision)


PAIRS = {
    "beta-binomial": beta_binomial,
    "nested regressions": nested_regressions,
    "point null": point_null,
}
COMMANDS = {"bayes-factors": main}
