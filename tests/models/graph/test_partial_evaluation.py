"""Terms at many values of some columns are the same as at the points written out."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.graph.partial_evaluation import partial_evaluation


@cache
def latent_process():
    with pm.Model() as model:
        lengthscale = pm.InverseGamma("lengthscale", 3, 2)
        covariance = pm.gp.cov.ExpQuad(1, ls=lengthscale)
        curve = pm.gp.Latent(cov_func=covariance).prior("curve", X=np.linspace(0, 2, 5)[:, None])
        pm.Normal("y", curve, 0.3, observed=np.array([0.1, 0.5, -0.2, 0.3, 0.9]))
    return model


@cache
def labels_and_effects():
    with pm.Model() as model:
        means = pm.Normal("means", 0, 2, shape=2)
        scale = pm.HalfNormal("scale", 1)
        label = pm.Bernoulli("label", 0.3, shape=3)
        effect = pm.Normal("effect", means[label], scale, shape=3)
        pm.Normal("y", effect, 0.3, observed=np.array([0.1, 0.5, -0.2]))
    return model


@pytest.mark.parametrize("build", [latent_process, labels_and_effects])
def test_terms_at_values_are_those_at_the_points_written_out(build):
    path = compile_model(build())
    density, rng = path.density, np.random.default_rng(1)
    points, _ = path.initialize(rng, 7)
    selection = np.arange(density.count)
    weights = np.linspace(0.5, 1, density.count)
    for column in range(points.shape[1]):
        values = points[rng.integers(7, size=(7, 4)), column]
        spread = np.repeat(points, 4, axis=0)
        spread[:, column] = values.ravel()
        found = density.terms_at(points, np.array([column]), values[:, :, None], selection)
        assert np.allclose(found.reshape(28, -1), density.terms(spread, selection), rtol=1e-12)
        sums = density.sum_at(points, column, values, weights)
        assert np.allclose(sums.ravel(), density.sum(spread, weights), rtol=1e-12)


def test_what_other_columns_give_is_evaluated_once():
    """The factor of the covariance is the same for all values of a point of the curve."""
    path = compile_model(latent_process())
    points, _ = path.initialize(np.random.default_rng(2), 6)
    function = path.density._restricted(np.arange(path.density.count)).function
    curve = partial_evaluation(function, np.array([3]), points)
    assert any("Blockwise" in i.operation.__name__ for i in curve._once)
    assert not any("Cholesky" in str(i.execute) for i in curve._whole)


def test_a_compiled_function_is_left_as_it_is():
    assert partial_evaluation(lambda points: [points], np.array([0]), np.zeros((3, 2))) is None
