"""A Bayes factor of two formulas: Bambi builds the models, ``backend.model`` is a ``pm.Model``."""

import argparse

import bambi
import numpy as np
import pandas as pd

import pymc_arm


def main(draws: int) -> None:
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=40), "z": rng.normal(size=40)})
    data["y"] = 0.6 * data["x"] + rng.normal(size=40)

    models = {}
    for formula in ("y ~ 1", "y ~ x", "y ~ x + z"):
        model = bambi.Model(formula, data)
        model.build()
        models[formula] = model.backend.model
    table = pymc_arm.compare(models, draws=draws, random_seed=1, progressbar=False)
    print(table[["log_evidence", "standard_error", "probability"]].round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 1000)
