import numpy as np
import pymc as pm
import pytest

from pymc_arm.families.gpc.graph import dependent_nodes, evaluate_fixed, find_latent, read_labels

pytestmark = pytest.mark.one_version


@pytest.fixture
def model():
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        v = pm.Normal("v", 0, 1, shape=2)
        f = (spread * np.array([[1.0, 0.0], [0.5, 2.0]])) @ v
        pm.Bernoulli("y", p=pm.math.invprobit(f + 1), observed=[0, 1])
    return model


def test_labels_are_read(model):
    np.testing.assert_array_equal(read_labels(model, model["y"]), [0, 1])


def test_a_random_matrix_is_found_where_it_may_be_unknown(model):
    probability = model["y"].owner.op.dist_params(model["y"].owner)[0]
    assert find_latent(model["v"], probability, 2) == "the matrix that multiplies v is random"
    latent, matrix, transposed = find_latent(model["v"], probability, 2, fixed=False)
    assert not transposed
    assert evaluate_fixed([matrix.shape])[0].tolist() == [2, 2]
    dependent = {model["v"]}
    list(dependent_nodes(model["v"], probability, dependent))
    assert latent in dependent
    assert model["spread"] not in dependent
