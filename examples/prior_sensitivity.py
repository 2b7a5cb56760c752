"""Would another prior change the conclusion? Log Z over the widths of two priors, from one run.

The eight schools again: are there differences between schools? The Bayes factor against complete
pooling depends on the prior of their spread, and less so on that of their mean.
"""

import argparse

import numpy as np
import pymc as pm

import pymc_arm

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
FACTORS = [0.25, 0.5, 1.0, 2.0, 4.0]


def main(draws: int) -> None:
    with pm.Model() as hierarchical:
        mu = pm.Normal("mu", 0.0, 10.0)
        tau = pm.HalfNormal("tau", 10.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("effects", theta, ERRORS, observed=EFFECTS)

    result = pymc_arm.sample(hierarchical, draws=draws, random_seed=1, progressbar=False)
    table = pymc_arm.sensitivity(result, hierarchical, {"mu": FACTORS, "tau": FACTORS})
    columns = ["variable", "scale", "log_evidence", "standard_error", "reliable"]
    print(table[columns].round(3).to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=50 if parser.parse_args().quick else 2000)
