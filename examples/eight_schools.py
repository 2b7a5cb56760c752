"""Eight schools (Rubin, 1981): pooled, separate or hierarchical, and centred or not.

Centred and non-centred are the same model written twice, so their log Z must be the same; that they
are is a check that no sampler has to be trusted for.
"""

import argparse

import numpy as np
import pymc as pm

import pymc_arm

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def make_models() -> dict[str, pm.Model]:
    coords = {"school": list("ABCDEFGH")}
    with pm.Model(coords=coords) as pooled:
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Normal("effects", mu, ERRORS, observed=EFFECTS, dims="school")
    with pm.Model(coords=coords) as separate:
        theta = pm.Normal("theta", 0.0, 20.0, dims="school")
        pm.Normal("effects", theta, ERRORS, observed=EFFECTS, dims="school")
    with pm.Model(coords=coords) as centred:
        mu = pm.Normal("mu", 0.0, 10.0)
        tau = pm.HalfNormal("tau", 10.0)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("effects", theta, ERRORS, observed=EFFECTS, dims="school")
    with pm.Model(coords=coords) as non_centred:
        mu = pm.Normal("mu", 0.0, 10.0)
        tau = pm.HalfNormal("tau", 10.0)
        offset = pm.Normal("offset", 0.0, 1.0, dims="school")
        pm.Normal("effects", mu + tau * offset, ERRORS, observed=EFFECTS, dims="school")
    return {
        "pooled": pooled,
        "separate": separate,
        "hierarchical, centred": centred,
        "hierarchical, non-centred": non_centred,
    }


def main(draws: int) -> None:
    models = make_models()
    print(pymc_arm.plan(models["hierarchical, centred"]))
    table = pymc_arm.compare(models, draws=draws, random_seed=1, progressbar=False)
    columns = ["log_evidence", "standard_error", "log_bayes_factor", "probability"]
    print(table[columns].round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=50 if parser.parse_args().quick else 1000)
