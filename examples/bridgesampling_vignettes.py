"""Two vignettes of R's bridgesampling, redone: same data, same models, the published values.

The vignettes are by Quentin F. Gronau, Henrik Singmann and Eric-Jan Wagenmakers; what they print is
quoted from the package's own documents. The first draws its data with R's generator, which is
written out here, so that the data is the same to the last digits. The second uses Student's sleep
data, hours of extra sleep with one drug minus those with the other.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import pymc as pm
from scipy.special import ndtri

import pymc_arm

# "Hierarchical Normal Example": what the vignette prints.
PUBLISHED_NORMAL = {"H0": -37.53235, "H1": -37.79776, "BF01": 1.30396}
PUBLISHED_PROBABILITIES = {"equal": 0.5659652, "0.6 to 0.4": 0.6616986}
# "Bayesian One-Sample T-Test": the same. The prior of the variance is improper there, with
# constant one, so that log Z itself has a meaning only up to that choice.
PUBLISHED_TEST = {"H0": -20.80934, "H1": -17.96114, "Hplus": -17.27045}
PUBLISHED_TEST_FACTORS = {"BF10": 17.25678, "BFplus0": 34.42872}

SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
# Half the width of a flat prior of log(variance): far beyond what ten observations allow.
LOG_VARIANCE_LIMIT = 15.0


def r_normals(seed: int) -> Iterator[float]:
    """Yield what ``rnorm`` returns after ``set.seed(seed)`` in R: Mersenne Twister, inversion."""
    state = seed
    for _ in range(51):
        state = (69069 * state + 1) % 2**32
    key = np.empty(624, dtype=np.uint32)
    for place in range(624):
        state = (69069 * state + 1) % 2**32
        key[place] = state
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    while True:
        first, second = (int(twister.random_raw()) * 2.3283064365386963e-10 for _ in range(2))
        yield float(ndtri((int(first * 2**27) + second) / 2**27))


def hierarchical_normal(free_mean: bool, y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0) if free_mean else 0.0
        variance = pm.InverseGamma("variance", alpha=1.0, beta=1.0)
        theta = pm.Normal("theta", mu, pm.math.sqrt(variance), shape=len(y))
        pm.Normal("y", theta, 1.0, observed=y)
    return model


def t_test(effect: str) -> pm.Model:
    with pm.Model() as model:
        log_variance = pm.Uniform("log_variance", -LOG_VARIANCE_LIMIT, LOG_VARIANCE_LIMIT)
        sigma = pm.math.exp(log_variance / 2)
        if effect == "none":
            delta = 0.0
        elif effect == "any":
            delta = pm.Cauchy("delta", 0.0, 1 / np.sqrt(2))
        else:
            delta = pm.HalfCauchy("delta", 1 / np.sqrt(2))
        pm.Normal("y", delta * sigma, sigma, observed=SLEEP)
    return model


def main(draws: int) -> None:
    options = {"draws": draws, "random_seed": 1, "progressbar": False}

    normals = r_normals(12345)
    theta = np.sqrt(0.5) * np.array([next(normals) for _ in range(20)])
    y = theta + np.array([next(normals) for _ in range(20)])
    table = pymc_arm.compare(
        {"H0": hierarchical_normal(False, y), "H1": hierarchical_normal(True, y)}, **options
    )
    print("Hierarchical normal            here                  published")
    for name in ("H0", "H1"):
        row = table.loc[name]
        print(
            f"  log Z of {name}     {row.log_evidence:10.4f} ± {row.standard_error:.4f}"
            f"   {PUBLISHED_NORMAL[name]:10.4f}"
        )
    log_factor = table.loc["H0", "log_evidence"] - table.loc["H1", "log_evidence"]
    print(
        f"  Bayes factor 01  {np.exp(log_factor):10.4f}            {PUBLISHED_NORMAL['BF01']:10.4f}"
    )
    for prior, odds in {"equal": 1.0, "0.6 to 0.4": 1.5}.items():
        probability = odds / (odds + np.exp(-log_factor))
        published = PUBLISHED_PROBABILITIES[prior]
        print(f"  P(H0), {prior:10s}{probability:10.4f}            {published:10.4f}")

    results = {
        name: pymc_arm.sample(t_test(effect), **options)
        for name, effect in {"H0": "none", "H1": "any", "Hplus": "positive"}.items()
    }
    print("t-test of the sleep data       here                  published")
    for name, result in results.items():
        # The vignette's improper prior is this one times the width of its support.
        log_evidence = result.attrs["log_marginal_likelihood"] + np.log(2 * LOG_VARIANCE_LIMIT)
        error = result.attrs["log_marginal_likelihood_se"]
        published = PUBLISHED_TEST[name]
        print(f"  log Z of {name:6s} {log_evidence:10.4f} ± {error:.4f}   {published:10.4f}")
    for label, name in {"BF10": "H1", "BFplus0": "Hplus"}.items():
        factor = pymc_arm.bayes_factor(results[name], results["H0"])
        published = PUBLISHED_TEST_FACTORS[label]
        print(f"  {label:8s}         {factor.value:10.4f}            {published:10.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 2000)
