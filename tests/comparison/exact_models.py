"""Pairs of a model and its exact log Z."""

import math
from functools import cache

import numpy as np
import pymc as pm
from scipy import special, stats


@cache
def beta_binomial(alpha, heads=64, tosses=100):
    with pm.Model() as model:
        p = pm.Beta("p", alpha, alpha)
        pm.Binomial("heads", n=tosses, p=p, observed=heads)
    exact = (
        special.betaln(alpha + heads, alpha + tosses - heads)
        - special.betaln(alpha, alpha)
        + stats.binom.logpmf(heads, tosses, 0.5)
        + tosses * math.log(2)
    )
    return model, exact


@cache
def regression(columns, seed=3):
    """Return a linear regression with unit noise and normal coefficients, and its exact log Z."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(20, 2))
    y = 0.6 * design[:, 0] + rng.normal(size=20)
    used = design[:, :columns]
    with pm.Model() as model:
        slopes = [pm.Normal(f"slope_{k}", 0, 1) for k in range(columns)]
        mean = sum(slope * used[:, k] for k, slope in enumerate(slopes))
        pm.Normal("y", mean, 1.0, observed=y)
    covariance = np.eye(20) + used @ used.T
    return model, stats.multivariate_normal.logpdf(y, np.zeros(20), covariance)


@cache
def location(point_null, y=(0.4, 1.2, 0.7, 0.1)):
    """Return the mean of unit normals, known to be zero or with a normal prior."""
    y = np.array(y)
    if point_null:
        with pm.Model() as model:
            pm.Normal("y", 0.0, 1.0, observed=y)
        return model, stats.norm.logpdf(y).sum()
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Normal("y", mean, 1.0, observed=y)
    covariance = np.eye(len(y)) + 4.0
    return model, stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)
