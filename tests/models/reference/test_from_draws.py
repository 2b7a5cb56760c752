"""A reference that is fitted to exact draws of a normal posterior."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_arm.errors import PathError
from pymc_arm.models.compiled import compile_model
from pymc_arm.models.reference.from_draws import fit_reference_to_draws

DIMENSION = 4
RNG = np.random.default_rng(4)
DESIGN, DATA = RNG.normal(size=(9, DIMENSION)), RNG.normal(size=9)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN + np.eye(DIMENSION) / 4)
MEAN = COVARIANCE @ DESIGN.T @ DATA


@pytest.fixture(scope="module")
def path():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2, shape=DIMENSION)
        pm.Normal("y", pm.math.dot(DESIGN, x), 1.0, observed=DATA)
    return compile_model(model)


def test_a_normal_posterior_is_met_and_its_log_z_found(path):
    """Scores give the covariance exactly, so that q differs by its tails only."""
    draws = np.random.default_rng(1).multivariate_normal(MEAN, COVARIANCE, 500)
    found = fit_reference_to_draws(path, draws, np.random.default_rng(2))
    np.testing.assert_allclose(found.center, MEAN, atol=0.15 * np.sqrt(np.diag(COVARIANCE)).max())
    np.testing.assert_allclose(found.factor @ found.factor.T, COVARIANCE, rtol=0.05, atol=0.01)
    assert found.overlap > 0.9
    exact = stats.multivariate_normal(np.zeros(9), np.eye(9) + 4 * DESIGN @ DESIGN.T).logpdf(DATA)
    assert found.log_evidence == pytest.approx(exact, abs=0.05)


def test_draws_that_never_meet_the_posterior_are_refused(path):
    far = np.full((200, DIMENSION), 1e160) * np.random.default_rng(1).normal(size=(200, 1))
    with pytest.raises(PathError, match="does not meet the posterior"):
        fit_reference_to_draws(path, far, np.random.default_rng(2))
