"""Chains on the workers of a Dask cluster: the same numbers as at home, from many machines.

Here the cluster is two processes of this machine; with ``Client("tcp://scheduler:8786")`` in its
place it is yours. What travels is the pickled model, and each worker compiles it once.
"""

import argparse

import numpy as np
import pymc as pm
from distributed import Client, LocalCluster

import pymc_arm


def main(draws: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    y = 0.5 * x + rng.normal(size=40)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Normal("y", slope * x, sigma, observed=y)

    options = {"draws": draws, "chains": 4, "random_seed": 1, "progressbar": False}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        there = pymc_arm.sample(model, executor=client.get_executor(), **options)
    here = pymc_arm.sample(model, **options)
    for place, result in {"cluster": there, "here": here}.items():
        print(f"{place:8s} log Z = {result.attrs['log_marginal_likelihood']:.12f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that it runs")
    main(draws=100 if parser.parse_args().quick else 2000)
