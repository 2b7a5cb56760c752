"""Models with symmetries and without, for the tests of this folder."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

RNG = np.random.default_rng(7)
CLUSTERED = RNG.normal(np.repeat([-4.0, 0.0, 5.0], 20), 1.0)
DESIGN = RNG.normal(size=(30, 3))
RESPONSE = DESIGN @ [1.0, -1.0, 0.5] + RNG.normal(size=30)


def mixture(center=(0.0, 0.0, 0.0), concentration=(1.0, 1.0, 1.0), scale=(3.0, 3.0, 3.0)):
    """Three normals; components have the same prior by default."""
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.array(concentration))
        mean = pm.Normal("mean", np.array(center), 5.0, shape=3)
        sd = pm.HalfNormal("sd", np.array(scale), shape=3)
        pm.NormalMixture("y", w=weight, mu=mean, sigma=sd, observed=CLUSTERED)
    return model


def factors(mean=0.0):
    """Two factors and their loadings."""
    data = RNG.normal(size=(12, 4))
    with pm.Model() as model:
        loading = pm.Normal("loading", mean, 1, shape=(4, 2))
        factor = pm.Normal("factor", 0, 1, shape=(12, 2))
        pm.Normal("y", factor @ loading.T, 0.5, observed=data)
    return model


def network(layers=(3,)):
    """Hidden layers of tanh neurons."""
    with pm.Model() as model:
        value, width = DESIGN, DESIGN.shape[1]
        for number, size in enumerate(layers):
            weights = pm.Normal(f"weights{number}", 0, 1, shape=(width, size))
            value, width = pt.tanh(value @ weights), size
        out = pm.Normal("out", 0, 1, shape=width)
        pm.Normal("y", value @ out, 0.5, observed=RESPONSE)
    return model


def squares():
    """Each coordinate by its square, with data of its own."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 2, shape=4)
        pm.Normal("y", x**2, 0.5, observed=[1.0, 2.0, 3.0, 4.0])
    return model


def product():
    """Two numbers of which only the product is seen."""
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 2)
        pm.Normal("y", a * b, 0.1, observed=1.0)
    return model


def _regression(prior, link):
    with pm.Model() as model:
        slope = prior("slope")
        base = pm.Normal("base", 0, 2)
        link(base + pt.dot(DESIGN, slope))
    return model


def without_symmetry():
    """What makes each of thirty models, by name."""
    priors = {
        "normal": lambda name: pm.Normal(name, 0, 1, shape=3),
        "laplace": lambda name: pm.Laplace(name, 0, 1, shape=3),
        "student": lambda name: pm.StudentT(name, nu=3, mu=0, sigma=1, shape=3),
        "scaled": lambda name: pm.Normal(name, 0, pm.HalfNormal("width", 1), shape=3),
        "noncentred": lambda name: pm.HalfNormal("width", 1) * pm.Normal("z", 0, 1, shape=3),
        "horseshoe": lambda name: (
            pm.Normal("z", 0, 1, shape=3)
            * pm.HalfCauchy("local", 1, shape=3)
            * pm.HalfCauchy("width", 1)
        ),
        "simplex": lambda name: pm.Dirichlet(name, np.ones(3)),
        "positive": lambda name: pm.Gamma(name, 2, 1, shape=3),
    }
    links = {
        "gaussian": lambda eta: pm.Normal("y", eta, pm.HalfNormal("s", 1), observed=RESPONSE),
        "logistic": lambda eta: pm.Bernoulli("y", logit_p=eta, observed=RESPONSE > 0),
        "poisson": lambda eta: pm.Poisson("y", pt.exp(eta), observed=RESPONSE.round() ** 2),
    }
    found = {
        f"{prior} {link}": partial(_regression, priors[prior], links[link])
        for prior in priors
        for link in links
    }
    found |= {
        "centres": partial(mixture, center=(-1.0, 0.0, 1.0)),
        "weights": partial(mixture, concentration=(1.0, 2.0, 3.0)),
        "scales": partial(mixture, scale=(1.0, 2.0, 3.0)),
        "slightly": partial(mixture, center=(-1e-4, 0.0, 1e-4)),
        "weights slightly": partial(mixture, concentration=(1.0, 1.0 + 1e-5, 1.0 - 1e-5)),
        "loadings": partial(factors, mean=np.array([[1e-3, 0.002]])),
    }
    return found
