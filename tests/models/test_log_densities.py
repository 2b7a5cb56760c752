"""Log-densities of PyMC, also where parameters are large graphs that it is not shown."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy

from pymc_arm.models import log_densities as module
from pymc_arm.models.compiled import compile_model

RNG = np.random.default_rng(0)


def hierarchy():
    """Transforms with bounds that are random, a mixture, a potential and nested parameters."""
    with pm.Model() as model:
        low = pm.Normal("low")
        place = pm.Uniform("place", low, low + pm.math.exp(0.1 * low) + 1)
        scale = pm.HalfNormal("scale", 1 + place**2)
        effect = pm.Normal("effect", pm.math.tanh(place) * 2, scale + 0.1, shape=4)
        weights = pm.Dirichlet("weights", np.ones(2))
        pm.NormalMixture("mixed", weights, mu=pt.stack([effect[0], -effect[1]]), sigma=1.0)
        pm.Potential("more", -((effect - low) ** 2))
        pm.Normal("y", effect * scale + place, 0.5, observed=RNG.normal(size=4))
    return model


def test_densities_are_those_of_the_whole_model(monkeypatch):
    model = hierarchy()
    variables = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    expected = model.logp(vars=variables, sum=False, jacobian=True)
    monkeypatch.setattr(module, "LARGE", 1)
    large = module._large_parameters(model)
    assert len(large) >= 4
    found = module.log_densities(model, variables)
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]
    point = model.initial_point()
    given = {v: point[v.name] + 0.3 * RNG.normal(size=np.shape(point[v.name])) for v in values}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            one.eval(given, on_unused_input="ignore"),
            other.eval(given, on_unused_input="ignore"),
            rtol=1e-10,
        )


def test_seasonal_terms_that_are_sums_of_sums_compile():
    """Minus the sum of the eleven before: simplifying them takes a time that doubles each step."""
    months, steps = 12, 60
    data = RNG.normal(size=steps)
    with pm.Model() as model:
        first = pm.Normal("first", shape=months - 1)
        shocks = pm.Normal("shocks", shape=steps - months + 1)
        terms = [first[number] for number in range(months - 1)]
        for step in range(months - 1, steps):
            terms.append(-sum(terms[step - months + 1 : step]) + 0.5 * shocks[step - months + 1])
        pm.Normal("y", pt.stack(terms), 0.7, observed=data)
    path = compile_model(model)
    rows = np.zeros((steps, steps))
    rows[: months - 1, : months - 1] = np.eye(months - 1)
    for step in range(months - 1, steps):
        rows[step] = -rows[step - months + 1 : step].sum(axis=0)
        rows[step, step] += 0.5
    points = RNG.normal(size=(5, steps))
    exact = scipy.stats.norm.logpdf(points).sum(axis=1)
    exact += scipy.stats.norm.logpdf(data, points @ rows.T, 0.7).sum(axis=1)
    np.testing.assert_allclose(path.log_density(points), exact, rtol=1e-10)
    gradient = path.density.gradient
    assert gradient.available()
    slopes = -points + (data - points @ rows.T) @ rows / 0.7**2
    found = gradient(points, np.ones(path.density.count))[1]
    np.testing.assert_allclose(found, slopes, rtol=1e-8, atol=1e-8)
