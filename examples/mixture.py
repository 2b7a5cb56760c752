"""How many groups are there? Normal mixtures with one to four components, compared.

The velocities (in 1000 km/s) of 82 galaxies of the Corona Borealis region (Postman, Huchra and
Geller, 1986; Roeder, 1990). Components are exchangeable, and posteriors have k! mirror images; log
Z counts them all, as it should.
"""

import argparse

import numpy as np
import pymc as pm

import pymc_arm

# fmt: off
VELOCITIES = np.array([
    9.172, 9.350, 9.483, 9.558, 9.775, 10.227, 10.406, 16.084, 16.170, 18.419, 18.552, 18.600,
    18.927, 19.052, 19.070, 19.330, 19.343, 19.349, 19.440, 19.473, 19.529, 19.541, 19.547, 19.663,
    19.846, 19.856, 19.863, 19.914, 19.918, 19.973, 19.989, 20.166, 20.175, 20.179, 20.196, 20.215,
    20.221, 20.415, 20.629, 20.795, 20.821, 20.846, 20.875, 20.986, 21.137, 21.492, 21.701, 21.814,
    21.921, 21.960, 22.185, 22.209, 22.242, 22.249, 22.314, 22.374, 22.495, 22.746, 22.747, 22.888,
    22.914, 23.206, 23.241, 23.263, 23.484, 23.538, 23.542, 23.666, 23.706, 23.711, 24.129, 24.285,
    24.289, 24.366, 24.717, 24.990, 25.633, 26.960, 26.995, 32.065, 32.789, 34.279,
])
# fmt: on


def make_model(components: int) -> pm.Model:
    with pm.Model() as model:
        centers = pm.Normal("centers", 20.0, 10.0, shape=components)
        spreads = pm.HalfNormal("spreads", 3.0, shape=components)
        if components == 1:
            pm.Normal("velocity", centers[0], spreads[0], observed=VELOCITIES)
        else:
            shares = pm.Dirichlet("shares", np.ones(components))
            pm.NormalMixture("velocity", shares, centers, spreads, observed=VELOCITIES)
    return model


def main(draws: int) -> None:
    most = 2 if draws < 500 else 4
    models = {str(count): make_model(count) for count in range(1, most + 1)}
    table = pymc_arm.compare(models, draws=draws, random_seed=1, progressbar=False)
    table.index.name = "components"
    columns = ["log_evidence", "standard_error", "probability", "settled", "verdict"]
    print(table[columns].round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=50 if parser.parse_args().quick else 1000)
