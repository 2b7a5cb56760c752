"""Constants that priors lack, and likelihoods that no variable touches; refusals: test_refusals."""

import numpy as np
import pymc as pm
import pytest

from pymc_arm.errors import ModelError
from pymc_arm.models.checks import check_model, find_corrections
from pymc_arm.models.compiled import compile_model


def corrections(write):
    with pm.Model() as model:
        write()
        pm.Normal("y", 0.0, 1.0, observed=0.0)
    return {each.variable: each for each in find_corrections(model)}


def test_ordered_vectors_keep_one_of_their_orders():
    ordered = pm.distributions.transforms.ordered
    found = corrections(
        lambda: [
            pm.Normal("three", shape=3, transform=ordered, initval=np.arange(3.0)),
            pm.Normal(
                "rows", shape=(2, 4), transform=ordered, initval=np.tile(np.arange(4.0), (2, 1))
            ),
            pm.Normal("free", shape=3),
        ]
    )
    assert found.keys() == {"three", "rows"}
    assert found["three"].log_factor == pytest.approx(np.log(6))
    assert found["rows"].log_factor == pytest.approx(2 * np.log(24))
    assert found["three"].error == 0.0
    assert "1/3!" in found["three"].reason


@pytest.mark.parametrize("eta", [1.0, 2.5])
def test_lkj_priors_integrate_to_one_after_their_correction(eta):
    """Of two variables there is one correlation, and its density can be integrated on a grid."""
    with pm.Model() as model:
        correlation = pm.LKJCorr("correlation", n=2, eta=eta)
        element = correlation[0] if correlation.type.ndim == 1 else correlation[0, 1]
        pm.Normal("y", element, 1.0, observed=0.0)
    path = compile_model(model)
    kinds = [block.kind == "prior" for block in path.density.blocks]
    # In PyMC 6 the density of the coordinate falls as its third power, or faster.
    half = np.geomspace(1e-4, 1e5, 4000)
    grid = np.concatenate([-half[::-1], half])
    values = path.density.sum(grid[:, None], np.repeat(kinds, path.density.sizes).astype(float))
    (missing,) = path.corrections
    assert missing.variable == "correlation"
    total = np.trapezoid(np.exp(values + missing.log_factor), grid)
    assert total == pytest.approx(1.0, abs=1e-4)


def test_a_likelihood_without_its_variables_is_flat():
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        step = pm.math.switch(pm.math.gt(x[0], 1e6), 1.0, 0.0)
        pm.Potential("never", step)
        pm.Normal("y", x[1], 1.0, observed=0.3)
    assert list(compile_model(model).flat) == ["never"]


def test_a_model_without_a_likelihood_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no observed variable and no potential"):
        check_model(model)
