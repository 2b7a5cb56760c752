"""A machine of five visible and three hidden units, and the model of it."""

import numpy as np
import pytest

from pymc_arm.families.rbm.machine import Machine


@pytest.fixture(scope="module")
def small_machine():
    rng = np.random.default_rng(6)
    return Machine(rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3))


@pytest.fixture(scope="module")
def small_model(small_machine):
    import pymc as pm  # most tests here do without

    from pymc_arm.families.rbm import RBM

    with pm.Model() as model:
        RBM("pixels", W=small_machine.W, a=small_machine.a, b=small_machine.b)
    return model
