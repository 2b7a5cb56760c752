"""Is the coin fair? The smallest Bayes factor there is, next to its exact value."""

import argparse

import numpy as np
import pymc as pm
from scipy.special import betaln

import pymc_arm

HEADS, TOSSES = 61, 100


def main(draws: int) -> None:
    with pm.Model() as fair:
        pm.Binomial("heads", n=TOSSES, p=0.5, observed=HEADS)
    with pm.Model() as bent:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("heads", n=TOSSES, p=p, observed=HEADS)

    factor = pymc_arm.bayes_factor(
        bent, fair, names=("bent", "fair"), draws=draws, random_seed=1, progressbar=False
    )
    exact = np.exp(betaln(HEADS + 1, TOSSES - HEADS + 1) + TOSSES * np.log(2))
    print(factor)
    print(f"exactly: {exact:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=200 if parser.parse_args().quick else 1000)
