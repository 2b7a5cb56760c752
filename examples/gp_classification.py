"""The evidence of a Gaussian process classifier, over the hyperparameters of its kernel.

Two classes in the plane; for each length scale and amplitude the labels' log Z, estimated with EP's
look-ahead. The best hyperparameters are where the surface is highest.
"""

import argparse

import numpy as np

import pymc_arm


def main(draws: int) -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(20 if draws < 200 else 60, 2))
    labels = np.sign(np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.3 * rng.normal(size=len(inputs)))
    squares = ((inputs[:, None] - inputs[None]) ** 2).sum(axis=-1)

    lengths, amplitudes = np.array([0.3, 1.0, 3.0]), np.array([0.5, 2.0, 8.0])
    if draws < 200:
        lengths, amplitudes = lengths[1:], amplitudes[1:]
    print("log Z, by length scale (down) and amplitude (across)")
    print("        " + "".join(f"{amplitude:>18g}" for amplitude in amplitudes))
    for length in lengths:
        cells = []
        for amplitude in amplitudes:
            covariance = amplitude**2 * np.exp(-0.5 * squares / length**2)
            covariance += 1e-8 * amplitude**2 * np.eye(len(inputs))
            result = pymc_arm.gpc(
                covariance,
                labels,
                draws=draws,
                random_seed=1,
                progressbar=False,
            )
            log_evidence = result.attrs["log_marginal_likelihood"]
            error = result.attrs["log_marginal_likelihood_se"]
            cells.append(f"{log_evidence:9.3f} ± {error:.3f}")
        print(f"{length:8g}" + "".join(f"{cell:>18s}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 1000)
