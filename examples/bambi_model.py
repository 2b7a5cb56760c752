"""Three formulas compared: models of Bambi are taken as they are, built or not."""

import argparse

import bambi
import numpy as np
import pandas as pd

import pymc_arm


def main(draws: int) -> None:
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=40), "z": rng.normal(size=40)})
    data["y"] = 0.6 * data["x"] + rng.normal(size=40)

    # Bambi's own priors would follow the scale of the data and differ from model to model; a Bayes
    # factor depends on priors, so that they are better chosen.
    priors = {
        "common": bambi.Prior("Normal", mu=0, sigma=1),
        "Intercept": bambi.Prior("Normal", mu=0, sigma=1),
        "sigma": bambi.Prior("HalfNormal", sigma=1),
    }
    formulas = ("y ~ 1", "y ~ x", "y ~ x + z")
    models = {formula: bambi.Model(formula, data, priors=priors) for formula in formulas}
    table = pymc_arm.compare(models, draws=draws, random_seed=1, progressbar=False)
    print(table[["log_evidence", "standard_error", "probability"]].round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 1000)
