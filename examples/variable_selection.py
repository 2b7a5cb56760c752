"""Which predictors belong in a regression? All subsets, compared by log Z.

Progression of diabetes one year on, in 100 of the 442 patients of Efron, Hastie, Johnstone and
Tibshirani (2004), as scikit-learn ships them: body mass index, blood pressure, a blood serum and
age. With normal priors and a given noise the exact answer is at hand, too.
"""

import argparse
from itertools import combinations

import numpy as np
import pymc as pm
from scipy import stats
from sklearn.datasets import load_diabetes

import pymc_arm

PREDICTORS = ("bmi", "bp", "s5", "age")
NOISE = 0.75


def main(draws: int) -> None:
    data = load_diabetes(as_frame=True)
    design = data.data[list(PREDICTORS)].to_numpy()[:100]
    design = (design - design.mean(axis=0)) / design.std(axis=0)
    y = stats.zscore(data.target.to_numpy()[:100])

    models, exact = {}, {}
    for size in range(1, len(PREDICTORS) + 1):
        for chosen in combinations(range(len(PREDICTORS)), size):
            name = " + ".join(PREDICTORS[column] for column in chosen)
            used = design[:, list(chosen)]
            with pm.Model() as models[name]:
                slopes = pm.Normal("slopes", 0.0, 0.5, shape=size)
                pm.Normal("y", used @ slopes, NOISE, observed=y)
            covariance = NOISE**2 * np.eye(len(y)) + 0.25 * used @ used.T
            exact[name] = stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)
    if draws < 500:
        models = {name: models[name] for name in ("bmi", "bmi + s5", "bmi + bp + s5")}

    table = pymc_arm.compare(models, draws=draws, random_seed=1, progressbar=False)
    table["exact"] = [exact[name] for name in table.index]
    columns = ["log_evidence", "standard_error", "exact", "probability", "settled"]
    print(table[columns].head(6).round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 500)
