"""The direct call, and which path it takes."""

import numpy as np
import pytest

from pymc_arm.families.rbm import RBMPath, TemperedRBMPath, rbm
from pymc_arm.families.rbm.direct import make_path


@pytest.mark.statistical
def test_direct_call(small_machine):
    result = rbm(small_machine, draws=400, chains=4, random_seed=3, progressbar=False)
    error = result.attrs["log_marginal_likelihood"] - small_machine.exact_log_evidence()
    # Five standard errors: a t distribution with three degrees of freedom has heavy tails.
    assert abs(error) < 5 * max(result.attrs["log_marginal_likelihood_se"], 0.005)
    bits = result.posterior["x"]
    assert bits.dtype == np.uint8
    assert bits.shape == (4, 400, 5)
    likelihood = small_machine.log_likelihood(np.zeros((3, 5)), result)
    assert likelihood.standard_error < 0.1
    again = rbm(
        small_machine.W,
        small_machine.a,
        small_machine.b,
        draws=400,
        random_seed=3,
        progressbar=False,
    )
    np.testing.assert_array_equal(again.posterior["x"], bits)


def test_data_bring_the_tempered_path(small_machine):
    options = {"draws": 50, "chains": 1, "random_seed": 1, "progressbar": False}
    data = np.random.default_rng(0).integers(2, size=(30, 5))
    choices = [{}, {"path": "tempered"}, {"path": "units"}, {"order": "active"}]
    by_default, tempered, units, with_order = (
        rbm(small_machine, data=data, **options, **choice).attrs["log_marginal_likelihood"]
        for choice in choices
    )
    assert by_default == tempered != units == with_order


def test_a_machine_brings_its_biases(small_machine):
    with pytest.raises(ValueError, match="leave a and b out"):
        rbm(small_machine, small_machine.a)


def test_an_option_of_one_path_chooses_it(small_machine):
    assert isinstance(make_path(small_machine, threads=1), TemperedRBMPath)
    assert isinstance(make_path(small_machine, order="random", random_seed=1), RBMPath)
    assert isinstance(make_path(small_machine, variant="reseed"), RBMPath)
    with pytest.raises(ValueError, match='order have a meaning only with path="units"'):
        make_path(small_machine, path="tempered", order="random")
    with pytest.raises(ValueError, match="path='straight'"):
        make_path(small_machine, path="straight")
