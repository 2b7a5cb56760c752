"""When did the rate change? A discrete change point, enumerated, against no change at all.

The counts are the coal mining disasters in Britain from 1851 to 1961. Both answers are known
exactly: given the change point, the rates integrate out.
"""

import argparse

import numpy as np
import pymc as pm
from scipy.special import gammaln, logsumexp

import pymc_arm
from pymc_arm.demo import DISASTERS, YEARS


def exact_constant(counts: np.ndarray) -> float:
    """Return log Z of Poisson counts whose rate has an Exponential(1) prior."""
    total = counts.sum()
    normalizers = gammaln(counts + 1).sum()
    return float(gammaln(total + 1) - (total + 1) * np.log(len(counts) + 1) - normalizers)


def main(draws: int) -> None:
    years = np.arange(len(YEARS))
    with pm.Model() as change:
        point = pm.DiscreteUniform("point", 1, len(YEARS) - 1)
        early = pm.Exponential("early", 1.0)
        late = pm.Exponential("late", 1.0)
        rate = pm.math.where(years < point, early, late)
        pm.Poisson("disasters", rate, observed=DISASTERS)
    with pm.Model() as constant:
        level = pm.Exponential("level", 1.0)
        pm.Poisson("disasters", level, observed=DISASTERS)

    results = {
        name: pymc_arm.sample(model, draws=draws, random_seed=1, progressbar=False)
        for name, model in {"change": change, "constant": constant}.items()
    }
    split = [
        exact_constant(DISASTERS[:year]) + exact_constant(DISASTERS[year:]) for year in years[1:]
    ]
    exact = {
        "change": float(logsumexp(split) - np.log(len(split))),
        "constant": exact_constant(DISASTERS),
    }
    for name, result in results.items():
        print(
            f"{name:9s} log Z {result.attrs['log_marginal_likelihood']:9.3f} "
            f"± {result.attrs['log_marginal_likelihood_se']:.3f}, exactly {exact[name]:9.3f}"
        )
    drawn = results["change"]["posterior"]["point"].values.ravel().astype(int)
    values, counts = np.unique(drawn, return_counts=True)
    print(f"the most probable year of the change: {YEARS[values[counts.argmax()]]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 1000)
