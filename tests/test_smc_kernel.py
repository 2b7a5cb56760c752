import numpy as np
import pymc as pm
import pytest

import pymc_arm


# What PyMC 5 itself says when it stores one stage of two chains.
@pytest.mark.filterwarnings("ignore:More chains")
@pytest.mark.parametrize("cores", [1, 2])
def test_kernel_of_sample_smc(cores: int) -> None:
    """The truth is log(1/11) at each chain; the quadrature leaves an error below 0.01."""
    with pm.Model():
        p = pm.Beta("p", 1, 1, initval=0.9)
        pm.Deterministic("odds", p / (1 - p))
        pm.Binomial("y", n=10, p=p, observed=7)
        idata = pm.sample_smc(
            300,
            kernel=pymc_arm.ARM,
            chains=2,
            cores=cores,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert idata["posterior"]["odds"].shape == (2, 300)
    # PyMC stores a list of stages for each chain; the last is the estimate.
    stored = np.asarray(idata["sample_stats"]["log_marginal_likelihood"].values)
    last = [np.atleast_1d(np.asarray(row).ravel()[-1]).ravel()[-1] for row in stored]
    for value in last:
        value = value[-1] if isinstance(value, list) else value
        assert abs(float(value) + np.log(11)) < 0.01
    assert abs(float(idata["posterior"]["p"].mean()) - 8 / 12) < 0.05
