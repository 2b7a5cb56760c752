"""The log-likelihood of test data under a restricted Boltzmann machine.

A machine trained by scikit-learn on small pictures of digits. Its log-likelihood needs log Z, which
the training never computes.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM

from pymc_arm import rbm
from pymc_arm.families.rbm import Machine


def main(draws: int) -> None:
    pictures = (load_digits().data > 7).astype(float)
    train, test = pictures[:1200], pictures[1200:]
    epochs = 2 if draws < 200 else 20
    fitted = BernoulliRBM(24, learning_rate=0.05, n_iter=epochs, random_state=1).fit(train)
    machine = Machine.from_sklearn(fitted)

    result = rbm(machine, data=train, draws=draws, random_seed=1, progressbar=False)
    error = result.attrs["log_marginal_likelihood_se"]
    print(f"log Z = {result.attrs['log_marginal_likelihood']:.3f} ± {error:.3f}")

    likelihood = machine.log_likelihood(test, result)
    print(f"average test log-likelihood: {likelihood.mean:.2f} ± {likelihood.standard_error:.2f}")
    pixels = np.clip(train.mean(axis=0), 1e-3, 1 - 1e-3)
    independent = test @ np.log(pixels) + (1 - test) @ np.log1p(-pixels)
    print(f"with independent pixels:     {independent.mean():.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 1000)
