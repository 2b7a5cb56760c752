"""Does the level wander? A local level model against a constant one.

The flow of the Nile at Aswan, 1871 to 1970 (Cobb, 1978), standardised. Every step of the level
is a variable of the model and comes in with its own observation; with the scales given, all is
jointly normal, and the exact answer is known.
"""

import argparse

import numpy as np
import pymc as pm
from scipy import stats

import pymc_arm

# fmt: off
NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649,
    846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815,
    1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
])
# fmt: on
NOISE, DRIFT = 0.75, 0.25


def exact_log_evidence(y: np.ndarray) -> float:
    """Return log Z of the local level model, whose observations are jointly normal."""
    times = np.arange(len(y))
    covariance = 1.0 + DRIFT**2 * np.minimum.outer(times, times) + NOISE**2 * np.eye(len(y))
    return float(stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance))


def main(draws: int) -> None:
    y = stats.zscore(NILE[: 12 if draws < 500 else 60].astype(float))
    with pm.Model() as wandering:
        start = pm.Normal("start", 0.0, 1.0)
        drifts = pm.Normal("drifts", 0.0, DRIFT, shape=len(y) - 1)
        level = pm.math.concatenate([[start], start + pm.math.cumsum(drifts)])
        pm.Normal("y", level, NOISE, observed=y)
    with pm.Model() as constant:
        level = pm.Normal("level", 0.0, 1.0)
        pm.Normal("y", level, NOISE, observed=y)

    result = pymc_arm.sample(wandering, draws=draws, random_seed=1, progressbar=False)
    print(
        f"log Z of the wandering level {result.attrs['log_marginal_likelihood']:.3f} "
        f"± {result.attrs['log_marginal_likelihood_se']:.3f}, exactly {exact_log_evidence(y):.3f}"
    )
    other = pymc_arm.sample(constant, draws=draws, random_seed=2, progressbar=False)
    print(pymc_arm.bayes_factor(result, other, names=("wandering", "constant")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=50 if parser.parse_args().quick else 500)
