"""The gradient in a field alone is that of all coordinates, for less work."""

import numpy as np
import pymc as pm

from pymc_arm.models.compiled import compile_model
from pymc_arm.models.fields.choose import find_field
from pymc_arm.models.fields.conditional import Conditional
from pymc_arm.models.fields.gradient import compile_field_gradient
from pymc_arm.models.reference.target import SharedTarget


def latent_process(size=20):
    """Return the path of labels of a latent process with unknown length scale and amplitude."""
    rng = np.random.default_rng(6)
    x = np.linspace(0, 4, size)[:, None]
    with pm.Model() as model:
        length = pm.InverseGamma("length", 5, 5)
        amplitude = pm.HalfNormal("amplitude", 1)
        process = pm.gp.Latent(cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=length))
        f = process.prior("f", X=x)
        pm.Bernoulli("y", logit_p=f, observed=(rng.random(size) < 0.5).astype(int))
    path = compile_model(model)
    assert path.density.gradient.available()
    return path


def prior_of(path):
    return path.plan.layout.ravel(path.prior.draw(np.random.default_rng(0), 100), 100)


def test_it_is_that_of_all_coordinates():
    path = latent_process()
    prior = prior_of(path)
    field = find_field(path, prior)
    assert len(field) == 20
    found = compile_field_gradient(path.density, field)
    assert found is not None
    points, rng = prior[:6], np.random.default_rng(1)
    fields = rng.normal(size=(6, 7, 20))
    values, slopes = found(points, fields)
    spread = np.repeat(points, 7, axis=0)
    spread[:, field] = fields.reshape(42, 20)
    expected, gradients = path.density.gradient(spread, np.ones(path.density.count))
    np.testing.assert_allclose(values.ravel(), expected, rtol=1e-9)
    np.testing.assert_allclose(slopes.reshape(42, 20), gradients[:, field], rtol=1e-6, atol=1e-8)


def test_modes_are_the_same_with_and_without(monkeypatch):
    path = latent_process()
    prior = prior_of(path)
    field, parameters = find_field(path, prior), np.array([[0.0, 0.0], [0.5, -0.3]])
    quick = Conditional(SharedTarget(path).view(), field, prior)
    assert quick._alone is not None
    slow = Conditional(SharedTarget(path).view(), field, prior)
    monkeypatch.setattr(slow, "_alone", None)
    found = [each.find_modes(parameters, np.zeros((2, 20))) for each in (quick, slow)]
    np.testing.assert_allclose(found[0].points, found[1].points, atol=1e-4)
    np.testing.assert_allclose(found[0].log_marginal, found[1].log_marginal, atol=1e-5)


def test_a_model_without_matrices_has_none(walk):
    path = compile_model(walk)
    assert path.density.gradient.available()
    assert compile_field_gradient(path.density, find_field(path, prior_of(path))) is None
